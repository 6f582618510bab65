package helmfile

import (
	"cmp"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// Packed returns f as plain YAML for another machine. charts has the paths or references of charts by
// release ID. The values are in files next to it, named by ValuesFile. All releases must be in one
// cluster.
func (f *File) Packed(charts map[string]string) ([]byte, error) {
	releases := []map[string]any{}
	for _, r := range f.Releases {
		if r.Context != "" || r.FallbackContext != "" {
			return nil, fmt.Errorf("%s: release %s has a kubeContext: a run in the cluster deploys to that cluster only", r.At, r.ID())
		}
		if r.PostRenderer != "" {
			return nil, fmt.Errorf("%s: release %s has a postRenderer, whose plugin is on this machine", r.At, r.ID())
		}
		packed := map[string]any{
			"name": r.Name, "namespace": r.Namespace, "chart": cmp.Or(charts[r.ID()], "./unused"), "needs": slices.Concat(r.Needs, r.After), "installed": r.Installed,
			"timeout": int(r.Timeout.Seconds()), "createNamespace": r.CreateNamespace, "rollbackOnFailure": r.RollbackOnFail, "cleanupOnFail": r.CleanupOnFail,
			"waitForJobs": r.WaitForJobs, "disableHooks": r.NoHooks, "skipSchemaValidation": r.SkipSchema, "disableOpenAPIValidation": r.NoOpenAPI,
			"reuseValues": r.ReuseValues, "takeOwnership": r.TakeOwnership, "skipCRDs": r.SkipCRDs, "enableDNS": r.EnableDNS,
			"syncReleaseLabels": r.StoreLabels, "labels": r.Labels, "skipDeps": true, "historyMax": r.HistoryMax, "description": r.Description,
		}
		if r.Installed {
			packed["values"] = []string{r.ValuesFile()}
		}
		releases = append(releases, packed)
	}
	return yaml.Marshal(map[string]any{"releases": releases})
}

// ValuesFile returns the path of the release's merged values in the directory of a packed helmfile.
func (r Release) ValuesFile() string { return "values/" + r.ID() + ".yaml" }
