package install

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/release"
)

// TestRunMatchesPlan installs and upgrades a chart with random values, lookups, and a post-renderer with another result
// each time. Exactly the planned objects are applied and stored.
func TestRunMatchesPlan(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.MakeChart(t, rig.Files{
		"templates/NOTES.txt": `{{ randAlphaNum 20 }}`,
		"templates/all.yaml": `
apiVersion: v1
kind: Secret
metadata: {name: random, annotations: {example.com/checksum: {{ include (print $.Template.BasePath "/other.yaml") . | sha256sum }}}}
stringData: {password: {{ randAlphaNum 20 }}}
---
{{- $seen := lookup "v1" "ConfigMap" .Release.Namespace "seen" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ if $seen }}later{{ else }}first{{ end }}}`,
		"templates/other.yaml": rig.ConfigMap("other", nil, "at: {{ randAlphaNum 20 }}"),
	})
	post := &countingRenderer{}
	assert := func(op *kube.Operation, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		planned := *op.Preview()
		// A second lookup would find it.
		_, _ = r.Cluster.CoreV1().ConfigMaps(r.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "seen"}}, metav1.CreateOptions{})
		r.MustRun(op, nil)
		stored, err := r.Helm().Releases.Last("t")
		if err != nil {
			t.Fatal(err)
		}
		rel, err := release.AsV1(stored)
		if err != nil {
			t.Fatal(err)
		}
		if rel.Manifest != planned.Manifest || rel.Info.Notes != planned.Info.Notes {
			t.Errorf("planned\n%s\n%s\nstored\n%s\n%s", planned.Manifest, planned.Info.Notes, rel.Manifest, rel.Info.Notes)
		}
		live, err := r.Cluster.CoreV1().Secrets(r.Namespace).Get(t.Context(), "random", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains([]byte(planned.Manifest), live.Data["password"]) || len(live.Data["password"]) == 0 {
			t.Errorf("the applied password is not the planned one")
		}
	}
	assert(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.PostRenderer = post })))
	if got := r.ConfigMaps(r.Namespace); fmt.Sprint(got) != "[first other seen]" {
		t.Errorf("ConfigMaps: %v", got)
	}
	assert(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.PostRenderer = post })))
	if post.runs != 2 {
		t.Errorf("the post-renderer ran %d times for two revisions", post.runs)
	}
}

// countingRenderer is a post-renderer that adds the number of its runs.
type countingRenderer struct{ runs int }

func (c *countingRenderer) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	c.runs++
	return bytes.NewBufferString(fmt.Sprintf("%s\n# run %d\n", manifests, c.runs)), nil
}

// TestPlanAfterCRDs installs a chart whose templates check for an API that its crds/ define, and look up that CRD. As with
// Helm they see both. The plan knows the API in advance; an event announces the groups that need the lookup before they run (R29).
func TestPlanAfterCRDs(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	gear := rig.LateKind{Kind: "Gear", Plural: "gears", Scope: "Namespaced", API: "planned.example"}
	chart := rig.MakeChart(t, rig.Files{"crds/gear.yaml": gear.CRD(nil), "templates/all.yaml": rig.ConfigMap("first", rig.Group("first")) +
		"\n{{- if .Capabilities.APIVersions.Has \"planned.example/v1\" }}\n---\n" + rig.ConfigMap("foreseen", rig.Group("foreseen", "first")) + "\n{{- end }}" +
		"\n{{- if lookup \"apiextensions.k8s.io/v1\" \"CustomResourceDefinition\" \"\" \"gears.planned.example\" }}\n---\n" + rig.ConfigMap("second", rig.Group("second", "first")) + "\n{{- end }}"})
	planned, _ := r.Changes(r.Install("plain", rig.UseChart(chart, nil)))
	if all := strings.Join(planned, "\n"); !strings.Contains(all, "ConfigMap/foreseen") || strings.Contains(all, "ConfigMap/second") {
		t.Errorf("planned:\n%s", all)
	}
	out := r.MustRun(r.Install("plain", rig.UseChart(chart, nil)))
	if got := r.ConfigMaps(r.Namespace); fmt.Sprint(got) != "[first foreseen second]" {
		t.Errorf("ConfigMaps: %v", got)
	}
	announced := slices.IndexFunc(out.Events, func(e event.Event) bool {
		return slices.ContainsFunc(e.Phases, func(p event.Phase) bool {
			return slices.ContainsFunc(p.Groups, func(g *plan.Group) bool { return g.ID == "edge:second" })
		})
	})
	started := slices.IndexFunc(out.Events, func(e event.Event) bool {
		return e.Kind == event.KindGroup && e.Group == "edge:second" && e.Status == event.Running
	})
	if announced < 0 || started < announced {
		t.Errorf("event %d announces the group, event %d its start", announced, started)
	}
	r.MustRun(r.Uninstall())
}
