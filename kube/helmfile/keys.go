package helmfile

import (
	"maps"

	"lockstep/engine/text"
)

// keys are the known keys of a mapping. The value is "" for a key that is supported or ignored, and advice for an
// unsupported one.
type keys map[string]string

// pipeHelmfile is the command that deploys a file after helmfile has expanded it.
var pipeHelmfile = "helmfile build --embed-values | " + text.Program + " up -f -"

var (
	useHelmfile  = "let helmfile expand it: " + pipeHelmfile
	ownKeyring   = "remove it, and set verify: true on the release: lockstep uses GnuPG's default keyring"
	removeKey    = "remove it"
	forceReplace = "remove it; to replace the objects of one release, use: " + text.Program + " upgrade --force-replace"
	putInChart   = "put it into the chart: lockstep deploys charts as they are"
	usePlan      = "remove it: " + text.Program + " plan shows the changes"
	useReadiness = "remove it: lockstep waits for readiness in the chart's order"
	noTiller     = "remove it: there is no Tiller"
	askCluster   = "remove it: lockstep asks the cluster"
	ownClient    = "remove it, and set skipTLSVerify or plainHttp on the repository"
)

// knownVersion is the version of helmfile whose keys are known.
const knownVersion = "1.8"

// harmlessKeys are unsupported keys that cannot change what is deployed: they change what helmfile prints, how it watches
// objects, or what its other commands do.
var harmlessKeys = []string{
	"apiVersions", "diffArgs", "disableAutoDetectedKubeVersionForDiff", "disableInsecureFeatures", "helmStuckGrace", "keyring", "kubeVersion", "kubedogBurst",
	"kubedogQPS", "llm", "skipKinds", "stripArgsValuesOnExitError", "suppressDiff", "suppressOutputLineRegex", "templateArgs", "tillerNamespace", "tillerless", "tls",
	"tlsCACert", "tlsCert", "tlsKey", "tlsKeyPath", "trackFailOnError", "trackFailedLogs", "trackKinds", "trackLogs", "trackMode", "trackResources", "trackTimeout",
	"unitTests", "waitRetries",
}

// DefaultOf returns the value with which an unsupported key changes nothing, "" if only empty ones do.
func DefaultOf(name string) string {
	if name == "cascade" {
		return "background"
	}
	return ""
}

// supported returns supported keys.
func supported(names ...string) keys {
	k := keys{}
	for _, name := range names {
		k[name] = ""
	}
	return k
}

// unsupported adds unsupported keys with the same advice.
func (k keys) unsupported(advice string, names ...string) keys {
	for _, name := range names {
		k[name] = advice
	}
	return k
}

// fileKeys are the keys of a helmfile. The key templates is ignored, because in files that lockstep reads without
// helmfile it only holds YAML anchors. The keys for helmfile's own binaries are ignored too.
var fileKeys = supported("repositories", "environments", "helmDefaults", "commonLabels", "bases", "helmfiles", "releases", "templates",
	"kubeContext", "namespace", "values", "missingFileHandler", "helmBinary", "kustomizeBinary", "filepath", "renderedvalues", "missingFileHandlerConfig", "hooks").
	unsupported("remove it, and set version on each release", "lockFilePath").
	unsupported(askCluster, "apiVersions", "kubeVersion").
	unsupported(useHelmfile, "defaultInherit").
	unsupported(removeKey, "chart", "disableInsecureFeatures", "ignoreMissingGitBranch", "llm")

// defaultKeys are the keys of helmDefaults.
var defaultKeys = supported("kubeContext", "wait", "waitForJobs", "timeout", "atomic", "cleanupOnFail", "historyMax", "createNamespace", "disableOpenAPIValidation",
	"disableValidation", "skipSchemaValidation", "devel", "verify", "reuseValues", "postRenderer", "postRendererArgs", "skipCRDs", "takeOwnership", "deleteWait", "deleteTimeout",
	"enableDNS", "skipDeps", "skipRefresh", "syncReleaseLabels", "rollbackOnFailure").
	unsupported(ownKeyring, "keyring").
	unsupported(useReadiness, "trackMode", "helmStuckGrace").
	unsupported("remove it: set the order in the chart, or use "+text.Program+" install --wait for one release", "waitRetries").
	unsupported("remove it: Helm deletes in the background", "cascade").
	unsupported(forceReplace, "force", "recreatePods").
	unsupported(noTiller, "tillerless", "tillerNamespace", "tls", "tlsCACert", "tlsCert", "tlsKey", "tlsKeyPath").
	unsupported("set it on each release", "strategicMergePatches").
	unsupported(ownClient, "insecureSkipTLSVerify", "plainHttp").
	unsupported(usePlan, "disableAutoDetectedKubeVersionForDiff").
	unsupported(removeKey, "args", "diffArgs", "syncArgs", "templateArgs", "forceConflicts", "serverSide", "stripArgsValuesOnExitError").
	unsupported(usePlan, "suppressDiff", "suppressOutputLineRegex")

// releaseKeys are the keys of a release.
var releaseKeys = supported("name", "namespace", "chart", "version", "needs", "values", "set", "setString", "kubeContext", "createNamespace", "installed", "condition", "labels", "timeout",
	"wait", "waitForJobs", "atomic", "cleanupOnFail", "historyMax", "disableHooks", "skipSchemaValidation", "postRenderer", "postRendererArgs",
	"missingFileHandler", "devel", "verify", "reuseValues", "disableOpenAPIValidation", "disableValidation", "description", "takeOwnership", "enableDNS", "skipDeps", "skipRefresh",
	"syncReleaseLabels", "deleteWait", "deleteTimeout", "skipCRDs", "directory", "chartPath", "disableValidationOnInstall", "rollbackOnFailure",
	"secrets", "valuesPathPrefix", "continueOnError", "jsonPatches", "strategicMergePatches", "readiness", "waitFor", "approve", "test", "secretPaths", "hooks").
	unsupported(ownKeyring, "keyring").
	unsupported(useHelmfile, "inherit", "conditionTemplate", "valuesTemplate", "setTemplate", "installedTemplate", "needsTemplate", "waitTemplate", "verifyTemplate", "versionTemplate").
	unsupported("they can run programs and rename objects; write the change as jsonPatches or strategicMergePatches", "transformers").
	unsupported(putInChart, "dependencies", "kustomizeOptions").
	unsupported("remove it, and use set", "env").
	unsupported("use a repository, or a local folder", "forceGoGetter").
	unsupported(ownClient, "insecureSkipTLSVerify", "plainHttp").
	unsupported("remove it, and set takeOwnership: true on the release", "adopt").
	unsupported("remove it, and set namespace on the release", "forceNamespace").
	unsupported("remove it: Helm deletes in the background", "cascade").
	unsupported(forceReplace, "force", "recreatePods").
	unsupported(noTiller, "tillerless", "tillerNamespace", "tls", "tlsCACert", "tlsCert", "tlsKey").
	unsupported(askCluster, "apiVersions", "kubeVersion").
	unsupported(usePlan, "suppressDiff", "suppressOutputLineRegex", "disableAutoDetectedKubeVersionForDiff").
	unsupported(useReadiness, "helmStuckGrace", "trackFailOnError", "trackFailedLogs", "trackMode", "waitRetries", "trackTimeout", "trackLogs", "trackKinds", "skipKinds", "trackResources").
	unsupported(removeKey, "args", "diffArgs", "syncArgs", "templateArgs", "kubedogQPS", "kubedogBurst", "forceConflicts", "serverSide", "unitTests", "updateStrategy")

var (
	environmentKeys = supported("values", "secrets", "kubeContext", "missingFileHandler", "missingFileHandlerConfig").unsupported(useHelmfile, "mergeStrategy")
	repositoryKeys  = supported("name", "url", "oci", "username", "password", "certFile", "keyFile", "caFile", "passCredentials", "skipTLSVerify", "plainHttp").
			unsupported("remove it, and set oci: true on the repository", "managed", "registryConfig").
			unsupported(ownKeyring, "keyring", "verify")
	helmfileKeys = supported("path", "values", "selectors", "selectorsInherited").unsupported(useHelmfile, "inherits")
	setKeys      = supported("name", "value", "values", "file")
	hookKeys     = supported("name", "events", "command", "args", "showlogs", "kubectlApply", rerunKey, noReturnKey, ImageKey)
	imageKeys    = supported("name", "env", "secrets", "serviceAccount", "annotations")
	kubectlKeys  = supported("filename", "kustomize")
)

// Keys returns the known keys of a kind of mapping: "file", "helmDefaults", "release", "environment", "repository", "helmfiles",
// "set", "hook", "kubectlApply" or ImageKey. The value is advice for a key that is not supported, "" for others.
func Keys(kind string) map[string]string { return keysOf[kind] }

var keysOf = map[string]keys{
	"file": fileKeys, "helmDefaults": defaultKeys, "release": releaseKeys, "environment": environmentKeys, "repository": repositoryKeys,
	"helmfiles": helmfileKeys, "set": setKeys, "hook": hookKeys, "kubectlApply": kubectlKeys, ImageKey: imageKeys,
}

// builtKeys are the keys of a release in the output of helmfile build, which contains both templates
// and their results.
var builtKeys = func() keys {
	k := maps.Clone(releaseKeys)
	for key := range k {
		if isTemplateKey(key) {
			k[key] = ""
		}
	}
	return k
}()

// knownKeys are the keys of a release, supported or not. They are enough for a release that takes no part.
var knownKeys = func() keys {
	k := keys{}
	for key := range releaseKeys {
		k[key] = ""
	}
	return k
}()
