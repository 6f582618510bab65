package helmfile

import (
	"maps"
	"strings"
)

// keys are the keys of a mapping. The value is empty if lockstep obeys the key or need
// not, else what to do instead.
type keys map[string]string

const (
	byHelmfile  = "let helmfile expand it: helmfile build --embed-values | lockstep up -f -"
	decrypt     = "decrypt it first, and name the result under values"
	ownKeyring  = "set verify on the release; the keyring is gpg's own"
	noSuchThing = "remove it"
	fromPlan    = "remove it: lockstep plan shows the changes"
)

// obeyed are keys that are obeyed.
func obeyed(names ...string) keys {
	k := keys{}
	for _, name := range names {
		k[name] = ""
	}
	return k
}

// with adds keys with an advice.
func (k keys) with(advice string, names ...string) keys {
	for _, name := range names {
		k[name] = advice
	}
	return k
}

// fileKeys are those of a helmfile. templates only hold YAML anchors here, since a file that
// uses them otherwise is expanded by helmfile. The binaries and the lock file are helmfile's
// own business.
var fileKeys = obeyed("repositories", "environments", "helmDefaults", "commonLabels", "bases", "helmfiles", "releases", "templates",
	"kubeContext", "namespace", "values", "missingFileHandler", "helmBinary", "kustomizeBinary", "filepath", "renderedvalues", "missingFileHandlerConfig").
	with("pin version in each release", "lockFilePath").
	with("remove it: a release's hooks are those of its chart", "hooks").
	with("remove it: lockstep asks the cluster", "apiVersions", "kubeVersion").
	with(byHelmfile, "defaultInherit").
	with(noSuchThing, "chart", "disableInsecureFeatures")

// defaultKeys are those of helmDefaults.
var defaultKeys = obeyed("kubeContext", "wait", "waitForJobs", "timeout", "atomic", "cleanupOnFail", "historyMax", "createNamespace", "disableOpenAPIValidation",
	"disableValidation", "skipSchemaValidation", "devel", "verify", "reuseValues", "postRenderer", "postRendererArgs", "skipCRDs", "takeOwnership", "deleteWait", "deleteTimeout",
	"enableDNS", "skipDeps", "skipRefresh", "syncReleaseLabels", "rollbackOnFailure").
	with(ownKeyring, "keyring").
	with("remove it: lockstep waits for readiness in the chart's order", "trackMode").
	with("remove it: set the order in the chart, or use lockstep install --wait for one release", "waitRetries").
	with("remove it: Helm deletes in the background", "cascade").
	with("remove it: use lockstep install --force-replace for this release", "force", "recreatePods").
	with("remove it: there is no Tiller", "tillerless", "tillerNamespace", "tls", "tlsCACert", "tlsCert", "tlsKey", "tlsKeyPath").
	with(noSuchThing, "args", "diffArgs", "syncArgs", "templateArgs", "forceConflicts", "serverSide").
	with(fromPlan, "suppressDiff", "suppressOutputLineRegex", "stripArgsValuesOnExitError", "strategicMergePatches")

// releaseKeys are those of a release. The first line is what decides about it, the second
// what a plain helmfile says twice, or what only concerns helmfile's own output.
var releaseKeys = obeyed("name", "namespace", "chart", "version", "needs", "values", "set", "setString", "kubeContext", "createNamespace", "installed", "condition", "labels", "timeout",
	"wait", "waitForJobs", "atomic", "cleanupOnFail", "historyMax", "disableHooks", "skipSchemaValidation", "postRenderer", "postRendererArgs",
	"missingFileHandler", "devel", "verify", "reuseValues", "disableOpenAPIValidation", "disableValidation", "description", "takeOwnership", "enableDNS", "skipDeps", "skipRefresh",
	"syncReleaseLabels", "deleteWait", "deleteTimeout", "skipCRDs", "directory", "chartPath", "disableValidationOnInstall", "rollbackOnFailure").
	with(ownKeyring, "keyring").
	with("move it into the chart as a hook", "hooks").
	with(decrypt, "secrets").
	with(byHelmfile, "inherit", "conditionTemplate", "valuesTemplate", "setTemplate", "installedTemplate", "needsTemplate", "waitTemplate", "verifyTemplate", "versionTemplate").
	with("put it into the chart: lockstep deploys charts as they are", "jsonPatches", "strategicMergePatches", "transformers", "dependencies", "adopt", "forceNamespace", "kustomizeOptions").
	with("remove it: Helm deletes in the background", "cascade").
	with("remove it: use lockstep upgrade --force-replace for this release", "force", "recreatePods").
	with("remove it: there is no Tiller", "tillerless", "tillerNamespace", "tls", "tlsCACert", "tlsCert", "tlsKey").
	with("remove it: lockstep asks the cluster", "apiVersions", "kubeVersion").
	with(fromPlan, "suppressDiff", "suppressOutputLineRegex").
	with("remove it: lockstep waits for readiness in the chart's order", "trackMode", "waitRetries", "trackTimeout", "trackLogs", "trackKinds", "skipKinds", "trackResources").
	with(noSuchThing, "args", "diffArgs", "syncArgs", "templateArgs", "kubedogQPS", "kubedogBurst", "forceConflicts", "serverSide", "plainHttp")

var (
	environmentKeys = obeyed("values", "kubeContext", "missingFileHandler", "missingFileHandlerConfig").with(decrypt, "secrets").with(byHelmfile, "mergeStrategy")
	repositoryKeys  = obeyed("name", "url", "oci", "username", "password", "certFile", "keyFile", "caFile", "passCredentials", "skipTLSVerify", "plainHttp").
			with("remove it: name the registry with oci: true", "managed", "registryConfig").
			with(ownKeyring, "keyring", "verify")
	helmfileKeys = obeyed("path", "values", "selectors", "selectorsInherited").with(byHelmfile, "inherits")
	setKeys      = obeyed("name", "value", "values", "file")
)

// builtKeys are those of a release in the output of helmfile build, which prints templates
// beside what they made.
var builtKeys = func() keys {
	k := maps.Clone(releaseKeys)
	for key := range k {
		if strings.HasSuffix(key, "Template") || key == "inherit" {
			k[key] = ""
		}
	}
	return k
}()
