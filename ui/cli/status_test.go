package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	helmcli "helm.sh/helm/v4/pkg/cli"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/kube/throwaway/testcluster"
)

// TestStatusWithoutResources: if Helm cannot build the objects of a record, status shows everything else, with the groups (R28).
func TestStatusWithoutResources(t *testing.T) {
	const ns = "status-unbuilt"
	t.Setenv("KUBECONFIG", testcluster.Get(t).Kubeconfig)
	dir := t.TempDir()
	document := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second, annotations: {helm.sh/resource-group: b, helm.sh/depends-on-resource-groups: '[\"a\"]'}}\n"
	writeFiles(t, dir, map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: own\nversion: 1.0.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first, annotations: {helm.sh/resource-group: a}}\n",
		"templates/b.yaml": document,
	})
	newMachine(t).run(0, "install", "s", filepath.Clean(dir), "-n", ns, "--create-namespace", "--no-tui")
	cfg := action.NewConfiguration()
	if err := cfg.Init(helmcli.New().RESTClientGetter(), ns, ""); err != nil {
		t.Fatal(err)
	}
	found, err := cfg.Releases.Last("s")
	if err != nil {
		t.Fatal(err)
	}
	record := found.(*rel1.Release)
	manifest := record.Manifest
	for name, instead := range map[string]string{
		"an unserved version":    strings.Replace(document, "v1\nkind: ConfigMap", "served.example/v1beta1\nkind: Thing", 1),
		"a list in another list": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMapList\n  items:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: second}}\n",
	} {
		if record.Manifest = strings.Replace(manifest, document, instead, 1); record.Manifest == manifest {
			t.Fatalf("the manifest is\n%s", manifest)
		}
		if err := cfg.Releases.Update(record); err != nil {
			t.Fatal(err)
		}
		out, warnings, err := runCommand("status", "s", "-n", ns)
		if err != nil || !strings.Contains(out, "STATUS: deployed") || !strings.Contains(out, "own:a") || strings.Contains(out, "RESOURCES") || !strings.Contains(warnings, "cannot show the resources") {
			t.Errorf("%s: %v, %s\n%s", name, err, warnings, out)
		}
		out, _, err = runCommand("status", "s", "-n", ns, "-o", "json")
		var shown struct{ Groups []struct{ ID, Status string } }
		if jsonErr := json.Unmarshal([]byte(out), &shown); err != nil || jsonErr != nil || len(shown.Groups) == 0 || shown.Groups[0].ID != "own:a" || shown.Groups[0].Status != "ready" {
			t.Errorf("%s: %v, %v\n%s", name, err, jsonErr, out)
		}
	}
}
