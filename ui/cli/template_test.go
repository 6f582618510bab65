package cli

import (
	"strings"
	"testing"
)

// TestTemplatePrintsDocumentsWithoutKind: template prints documents without a kind after the groups, as
// Helm does (R35). Commands that need a plan refuse them.
func TestTemplatePrintsDocumentsWithoutKind(t *testing.T) {
	noCluster(t)
	dir := writeChart(t, map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/a.yaml": "some: values\n---\napiVersion: v1\nmetadata: {name: nokind}\n---\n" + webOf + `helm.sh/depends-on-resource-groups: '["db"]'` + "\n",
	})
	out, _, err := runCommand("template", "t", dir)
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, part := range []string{"START resource-group: shop db", "START resource-group: shop web", "END resource-group: shop web",
		"---\n# Source: shop/templates/a.yaml\nsome: values\n", "---\n# Source: shop/templates/a.yaml\napiVersion: v1\nmetadata: {name: nokind}\n"} {
		next := strings.Index(out, part)
		if next <= at {
			t.Fatalf("%q is at %d, after %d:\n%s", part, next, at, out)
		}
		at = next
	}
	if _, _, err := runCommand("dag", dir); err == nil || !strings.Contains(err.Error(), " has no ") {
		t.Errorf("error of dag: %v", err)
	}
}

// TestTemplateInHelmsOrder: unless --wait=ordered, the output has Helm's order (R27).
func TestTemplateInHelmsOrder(t *testing.T) {
	noCluster(t)
	dir := writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/a.yaml": webOf + `helm.sh/depends-on-resource-groups: '["db"]'` +
			"\n---\napiVersion: v1\nkind: Service\nmetadata: {name: first, annotations: {helm.sh/resource-group: db}}\n---\nsome: values\n",
		"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
	})
	for _, flag := range []string{"--wait", "--wait=watcher", "--wait=true", "--wait=hookOnly", "--wait=false", "--wait=none", "--wait=legacy"} {
		out, _, err := runCommand("template", "t", dir, flag)
		if err != nil {
			t.Fatalf("%s: %v", flag, err)
		}
		var names []string
		for line := range strings.Lines(out) {
			if strings.Contains(line, "name: ") || strings.Contains(line, "some: ") || strings.HasPrefix(line, "##") {
				names = append(names, strings.TrimSpace(line))
			}
		}
		want := "metadata: {name: db, annotations: {helm.sh/resource-group: db}}|name: web|" +
			"metadata: {name: first, annotations: {helm.sh/resource-group: db}}|some: values|" +
			"metadata: {name: hook, annotations: {helm.sh/hook: pre-install}}"
		if got := strings.Join(names, "|"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", flag, got, want)
		}
	}
	if out, _, err := runCommand("template", "t", dir, "--wait=ordered"); err != nil || !strings.Contains(out, "## START") {
		t.Errorf("ordered: %v\n%s", err, out)
	}
	if _, _, err := runCommand("template", "t", dir, "--wait=soon"); err == nil {
		t.Error("--wait=soon is accepted")
	}
}
