package order

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"testing"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// stripper is a post-renderer that drops all comments and, if bare, also the annotation from which Helm restores the
// source of an object.
type stripper struct{ bare bool }

func (s stripper) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAll(in.Bytes(), nil)
	if s.bare {
		text = regexp.MustCompile(`(?m)^\s*postrenderer.helm.sh/postrender-filename:.*\n`).ReplaceAll(text, nil)
	}
	return bytes.NewBuffer(text), nil
}

// TestPostRendererDropsSource: objects without a source belong to the root chart, with
// a warning (R6). A post-renderer that keeps Helm's annotation loses nothing.
func TestPostRendererDropsSource(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprint(bare), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := rig.MakeChart(t, subcharted())
			out := r.Deploy("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.PostRenderer = stripper{bare} }))
			sub, root := out.State.Find(helmclient.PhaseApply, "edge/sub:(unsequenced)"), out.State.Find(helmclient.PhaseApply, "edge:three")
			if bare && (root == nil || len(root.After) != 1 || !out.HasWarning("R6", "ConfigMap/c")) {
				t.Errorf("c does not belong to the root chart, with a warning: %+v, %v", root, out.State.Warnings)
			}
			if !bare && (sub == nil || out.HasWarning("R6")) {
				t.Errorf("c does not belong to its subchart")
			}
			r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.PostRenderer = stripper{bare} })))
			out = r.MustRun(r.Uninstall())
			if got := r.ConfigMaps(r.Namespace); len(got) > 0 || len(out.State.Phases[0].Groups) < 2 {
				t.Errorf("remaining: %v, after %d groups", got, len(out.State.Phases[0].Groups))
			}
		})
	}
}

// TestManifestWithoutSources has a stored manifest without comments, as from Helm 3 with a post-renderer. An upgrade
// deletes the objects that the chart no longer has, and an uninstall deletes and reports all.
func TestManifestWithoutSources(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.MakeChart(t, subcharted()), nil))
	strip := func() {
		cfg := r.Helm()
		last, err := cfg.Releases.Last("t")
		if err != nil {
			t.Fatal(err)
		}
		rel := last.(*rel1.Release)
		rel.Manifest = regexp.MustCompile(`(?m)^# Source:.*\n`).ReplaceAllString(rel.Manifest, "")
		rel.Chart.Files = nil
		if err := cfg.Releases.Update(rel); err != nil {
			t.Fatal(err)
		}
	}
	strip()
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), rig.ConfigMap("b", nil)), nil)))
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("after the upgrade there are %v, want [a b]", got)
	}
	strip()
	out := r.MustRun(r.Uninstall())
	gone := 0
	for _, e := range out.Events {
		if e.Kind == event.KindObject && e.Status == event.Gone {
			gone++
		}
	}
	if got := r.ConfigMaps(r.Namespace); gone != 2 || len(got) > 0 {
		t.Errorf("%d objects were reported gone, want 2; remaining: %v", gone, got)
	}
}

// subcharted returns a chart with a subchart.
func subcharted() rig.Files {
	return rig.Files{
		"Chart.yaml":                       "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0}]\n",
		"templates/a.yaml":                 rig.ConfigMap("a", rig.Group("one")),
		"templates/b.yaml":                 rig.ConfigMap("b", rig.Group("two", "one")),
		"charts/sub/Chart.yaml":            "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/c.yaml":      rig.ConfigMap("c", rig.Group("three", "two")),
		"charts/sub/templates/unused.yaml": "# nothing\n",
	}
}
