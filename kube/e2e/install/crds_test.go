package install

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestCRDsOfSubcharts installs a chart beside Helm that has crds/ in enabled and disabled subcharts, and one in two
// aliases: both create the same CRDs (R29), and the plan lists each once.
func TestCRDsOfSubcharts(t *testing.T) {
	t.Parallel()
	ours, helms := rig.New(t), rig.NewNamed(t, "helms-crds-of-subcharts")
	chart := func(r *rig.Rig) rig.Files {
		crd := func(kind string) string {
			return rig.LateKind{Kind: kind, Plural: strings.ToLower(kind) + "s", Scope: "Namespaced", API: r.Namespace + ".example"}.CRD(nil)
		}
		sub := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n" }
		return rig.Files{
			"Chart.yaml": sub("edge") + "dependencies:\n" +
				"- {name: used, version: 0.1.0, condition: used.enabled}\n" +
				"- {name: unused, version: 0.1.0, condition: unused.enabled}\n" +
				"- {name: unused, version: 0.1.0, alias: renamed, condition: unused.enabled}\n" +
				"- {name: tagged, version: 0.1.0, tags: [extra]}\n" +
				"- {name: twice, version: 0.1.0, alias: one}\n- {name: twice, version: 0.1.0, alias: two}\n",
			"values.yaml":                   "unused: {enabled: false}\ntags: {extra: false}\n",
			"crds/own.yaml":                 crd("Own"),
			"templates/a.yaml":              rig.ConfigMap("a", nil),
			"charts/used/Chart.yaml":        sub("used"),
			"charts/used/crds/crd.yaml":     crd("Used") + "\n---\n" + crd("Own"),
			"charts/unused/Chart.yaml":      sub("unused"),
			"charts/unused/crds/crd.yaml":   crd("Unused"),
			"charts/tagged/Chart.yaml":      sub("tagged"),
			"charts/tagged/crds/crd.yaml":   crd("Tagged"),
			"charts/twice/Chart.yaml":       sub("twice"),
			"charts/twice/crds/crd.yaml":    crd("Twice"),
			"charts/twice/templates/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Chart.Name }}\"}\n",
		}
	}
	crds := func(r *rig.Rig) (names []string) {
		list, err := r.Client.Dynamic.Resource(rig.CRDResource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range list.Items {
			if name, found := strings.CutSuffix(crd.GetName(), "."+r.Namespace+".example"); found {
				names = append(names, name)
			}
		}
		return names
	}
	install := func(skip bool) (*kube.Operation, error) {
		return ours.Install("plain", rig.UseChart(rig.MakeChart(t, chart(ours)), func(i *kube.Deploy) { i.CRDs = map[bool]string{true: kube.CRDsSkip}[skip] }))
	}
	lines, _ := ours.Changes(install(false))
	lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "CustomResourceDefinition") })
	if len(lines) != 3 {
		t.Errorf("the plan has the CRDs %q, want 3", lines)
	}
	ours.MustRun(install(true))
	if got := crds(ours); len(got) > 0 {
		t.Errorf("with --crds=skip the CRDs are %q", got)
	}
	ours.MustRun(ours.Uninstall())
	ours.MustRun(install(false))
	helms.MustHelm("install", "t", rig.MakeDir(t, chart(helms)))
	if got, want := crds(ours), crds(helms); !slices.Equal(got, want) || len(want) != 3 {
		t.Errorf("the CRDs are %q, with Helm %q", got, want)
	}
	// An upgrade of crds/ reads the values of the release: those of the last revision are reused.
	ours.MustRun(ours.Upgrade("plain", rig.UseChart(rig.MakeChart(t, chart(ours)), func(u *kube.Deploy) {
		u.Values = map[string]any{"tags": map[string]any{"extra": true}}
	})))
	ours.MustRun(ours.Upgrade("plain", rig.UseChart(rig.MakeChart(t, chart(ours)), func(u *kube.Deploy) { u.CRDs, u.ReuseValues = kube.CRDsUpgrade, true })))
	if got, want := crds(ours), []string{"owns", "taggeds", "twices", "useds"}; !slices.Equal(got, want) {
		t.Errorf("after an upgrade of crds/ with a tag, the CRDs are %q, want %q", got, want)
	}
}
