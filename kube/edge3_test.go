package kube

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// TestWaitStrategies deploys by every strategy of R27: watcher waits for all of
// it, with --wait-for-jobs for the end of Jobs too, hookOnly for nothing.
func TestWaitStrategies(t *testing.T) {
	const slow = 1500 * time.Millisecond
	tests := []struct {
		wait  string
		jobs  bool
		waits bool
	}{
		{"watcher", false, true}, {"true", false, true}, {"watcher", true, true}, {"legacy", false, true}, {"legacy", true, true},
		{"hookOnly", false, false}, {"none", true, false}, {"false", false, false}, {"ordered", false, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s jobs %v", tt.wait, tt.jobs), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			workload, duration := deployment("slow", nil, slow.String()), "30s"
			if tt.jobs {
				workload, duration = deployment("quick", nil, "0s"), slow.String()
			}
			op, err := r.install("plain", use(one(t, workload, deployment("paused", nil, "0s", "  paused: true"), job("work", nil, duration), configMap("a", nil)),
				func(i *Install) { i.Wait, i.WaitForJobs, i.WaitAll = tt.wait, tt.jobs, tt.wait == "ordered" }))
			start := time.Now()
			out := r.mustRun(op, err)
			if took := time.Since(start); tt.waits != (took > slow) || took > 20*time.Second {
				t.Errorf("it took %s; it should wait for what takes %s: %v", took, slow, tt.waits)
			}
			if n := len(out.state.Phases[0].Groups); n != 1 {
				t.Errorf("%d groups, want one", n)
			}
			if got := r.status(); got != rcommon.StatusDeployed {
				t.Errorf("the release is %s", got)
			}
		})
	}
}

// stripper is a post-renderer that loses all comments, and where bare also the
// annotation by which Helm finds out afterwards which file an object is from.
type stripper struct{ bare bool }

func (s stripper) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAll(in.Bytes(), nil)
	if s.bare {
		text = regexp.MustCompile(`(?m)^\s*postrenderer.helm.sh/postrender-filename:.*\n`).ReplaceAll(text, nil)
	}
	return bytes.NewBuffer(text), nil
}

// subcharted is a chart with a subchart.
func subcharted() files {
	return files{
		"Chart.yaml":                       "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0}]\n",
		"templates/a.yaml":                 configMap("a", group("one")),
		"templates/b.yaml":                 configMap("b", group("two", "one")),
		"charts/sub/Chart.yaml":            "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/c.yaml":      configMap("c", group("three", "two")),
		"charts/sub/templates/unused.yaml": "# nothing\n",
	}
}

// TestPostRendererThatLosesTheSource counts everything as the root chart's,
// with a warning (R6); one that keeps Helm's annotation loses nothing.
func TestPostRendererThatLosesTheSource(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprint(bare), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			chart := makeChart(t, subcharted())
			out := r.deploy("plain", use(chart, func(i *Install) { i.PostRenderer = stripper{bare} }))
			sub, root := out.state.Find(phaseApply, "edge/sub:(unsequenced)"), out.state.Find(phaseApply, "edge:three")
			if bare && (root == nil || len(root.After) != 1 || !out.says("R6", "ConfigMap/c")) {
				t.Errorf("c is not counted as the root chart's, with a warning: %+v, %v", root, out.state.Warnings)
			}
			if !bare && (sub == nil || out.says("R6")) {
				t.Errorf("c is not its subchart's")
			}
			r.mustRun(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.PostRenderer = stripper{bare} })))
			op, err := r.uninstall()
			out = r.mustRun(op, err)
			if got := r.configMaps(r.namespace); len(got) > 0 || len(out.state.Phases[0].Groups) < 2 {
				t.Errorf("left are %v, after %d groups", got, len(out.state.Phases[0].Groups))
			}
		})
	}
}

// TestManifestWithoutSources takes a release whose stored manifest has no
// comments at all, as Helm 3 leaves it with a post-renderer: what is gone from
// the chart is removed, and an uninstallation waits and tells.
func TestManifestWithoutSources(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(makeChart(t, subcharted()), nil))
	strip := func() {
		cfg := r.helm()
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
	r.mustRun(r.upgrade("plain", useUp(one(t, configMap("a", nil), configMap("b", nil)), nil)))
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("after the upgrade there are %v, want [a b]", got)
	}
	strip()
	op, err := r.uninstall()
	out := r.mustRun(op, err)
	gone := 0
	for _, e := range out.events {
		if e.Kind == event.KindObject && e.Status == event.Gone {
			gone++
		}
	}
	if got := r.configMaps(r.namespace); gone != 2 || len(got) > 0 {
		t.Errorf("%d objects were told to be gone; left are %v", gone, got)
	}
}

// TestGroupsChange renames groups, moves an object between groups and removes a
// group: the new plan's order holds, nothing is deleted and made again.
func TestGroupsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("a", group("one")), configMap("b", group("two", "one")), configMap("c", group("two", "one")), configMap("d", group("three", "two"))), nil))
	uids := func() map[string]string {
		list, err := r.cluster.CoreV1().ConfigMaps(r.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, c := range list.Items {
			out[c.Name] = string(c.UID)
		}
		return out
	}
	before, start := uids(), time.Now()
	// one is first now, two is last; c moves from two to first; three and d go.
	op, err := r.upgrade("plain", useUp(one(t, configMap("b", group("first"), "v: new"), configMap("c", group("first"), "v: new"), configMap("a", group("last", "first"), "v: new")), nil))
	out := r.mustRun(op, err)
	after := uids()
	for _, name := range []string{"a", "b", "c"} {
		if before[name] != after[name] {
			t.Errorf("%s was deleted and made again", name)
		}
	}
	tl := r.timeline("lockstep").since(start)
	first, _ := tl.firstWrite(t, []string{"ConfigMap/a"})
	last, _ := tl.lastWriteIfAny(t, []string{"ConfigMap/b", "ConfigMap/c"})
	gone, _ := tl.firstDelete(t, []string{"ConfigMap/d"})
	if first.Before(last) || gone.Before(first) || after["d"] != "" {
		t.Errorf("b and c were written until %s, a at %s, d was deleted at %s", clock(last), clock(first), clock(gone))
	}
	if n := len(out.state.Phases); n != 2 || len(out.state.Phases[1].Groups) != 1 {
		t.Errorf("%d phases", n)
	}
}

// TestRollbackToUnsequenced goes back all at once to a revision that was not
// sequenced: by its wait strategy, or since Helm made it (R32).
func TestRollbackToUnsequenced(t *testing.T) {
	docs := []string{configMap("a", group("one")), configMap("b", group("two", "one"))}
	first := map[string]func(*rig){
		"hookOnly": func(r *rig) { r.deploy("plain", use(one(r.t, docs...), func(i *Install) { i.Wait = "hookOnly" })) },
		"helm": func(r *rig) {
			in := action.NewInstall(r.helm())
			in.ReleaseName, in.Namespace, in.WaitStrategy = "t", r.namespace, helmkube.HookOnlyStrategy
			plain := map[string]string{plan.AnnotationGroup: "one"}
			c, err := one(r.t, configMap("a", plain), configMap("b", map[string]string{plan.AnnotationGroup: "two"})).Helm()
			if err == nil {
				_, err = in.Run(c, nil)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		},
	}
	for name, install := range first {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			install(r)
			op, err := r.upgrade("plain", useUp(one(t, append(docs, configMap("c", group("three", "two")))...), nil))
			if out := r.mustRun(op, err); len(out.state.Phases[0].Groups) != 3 {
				t.Errorf("the upgrade has %d groups, want 3", len(out.state.Phases[0].Groups))
			}
			op, err = r.rollback(1)
			out := r.mustRun(op, err)
			if n, m := len(out.state.Phases[0].Groups), len(out.state.Phases[1].Groups); n != 1 || m != 1 {
				t.Errorf("the rollback applies %d groups and removes %d, want all at once, then c", n, m)
			}
			op, err = r.uninstall()
			if out := r.mustRun(op, err); len(out.state.Phases[0].Groups) != 1 {
				t.Errorf("what was not sequenced is removed in %d groups", len(out.state.Phases[0].Groups))
			}
		})
	}
}

// TestTwoFamilies are allowed in two charts of a release (R20).
func TestTwoFamilies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	weight := func(w string) map[string]string { return map[string]string{plan.AnnotationWeight: w} }
	sub := func(name string) string { return "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n" }
	chart := makeChart(t, files{
		"Chart.yaml":                "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: layers, version: 1.0.0}\n- {name: weights, version: 1.0.0, depends-on: [layers]}\n",
		"charts/layers/Chart.yaml":  sub("layers"),
		"charts/weights/Chart.yaml": sub("weights"),
		"charts/layers/templates/all.yaml": job("work", map[string]string{plan.AnnotationLayer: "a"}, "500ms") + "\n---\n" +
			configMap("after", map[string]string{plan.AnnotationLayer: "b", plan.AnnotationLayerDependsOn: "a"}),
		"charts/weights/templates/all.yaml": configMap("heavy", weight("1")) + "\n---\n" + configMap("light", weight("-1")),
		"templates/all.yaml":                configMap("root", group("x")),
	})
	out := r.deploy("plain", use(chart, nil))
	order := []string{"edge/layers:a", "edge/layers:b", "edge/weights:-1", "edge/weights:1"}
	for i, id := range order[1:] {
		if at, before := out.at(id, event.Running), out.at(order[i], event.Running); !at.After(before) {
			t.Errorf("%s started at %s, %s at %s", id, clock(at), order[i], clock(before))
		}
	}
	r.mustRun(r.uninstall())
}

// TestManyObjects installs 2,000 objects and measures what the record of the
// plan adds to the release's Secret (R28).
func TestManyObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := "{{- range $i := until 2000 }}\n---\n" + strings.ReplaceAll(configMap("c-NUMBER", map[string]string{plan.AnnotationGroup: "g-TENS"}, "more: {{ sha256sum (toString $i) }}"),
		"NUMBER", "{{ $i }}") + "\n{{- end }}\n"
	body = strings.ReplaceAll(body, `"g-TENS"`, `"g-{{ div $i 500 }}"
    helm.sh/depends-on/resource-groups: '{{ if ge $i 500 }}["g-{{ sub (div $i 500) 1 }}"]{{ else }}[]{{ end }}'`)
	start := time.Now()
	out := r.deploy("plain", use(one(t, body), nil))
	took := time.Since(start)
	if n := out.state.Count().Total; n != 2000 || len(out.state.Phases[0].Groups) != 4 {
		t.Errorf("%d objects in %d groups", n, len(out.state.Phases[0].Groups))
	}
	secret, err := r.cluster.CoreV1().Secrets(r.namespace).Get(t.Context(), "sh.helm.release.v1.t.v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	with := len(secret.Data["release"])
	last, err := r.helm().Releases.Last("t")
	if err != nil {
		t.Fatal(err)
	}
	rel := last.(*rel1.Release)
	dropFile(rel, recordFile)
	dropFile(rel, timingsFile)
	data, err := json.Marshal(rel)
	if err != nil {
		t.Fatal(err)
	}
	without, err := encodedSize(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("2,000 objects in %s: the release takes %d bytes, without the record %d", took.Round(10*time.Millisecond), with, without)
	if with > maxStored/4 || with-without > 2048 {
		t.Errorf("the release takes %d bytes, of which the record is %d", with, with-without)
	}
}

// TestReleaseTooLarge is refused before anything is written; where only the
// record of the plan is too much, the release works without the chart tree.
func TestReleaseTooLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	noise := func(n int) string {
		b := make([]byte, n/2)
		_, _ = rand.Read(b)
		return hex.EncodeToString(b)
	}
	_, err := r.install("plain", use(one(t, configMap("a", nil, "noise: "+noise(500_000)), configMap("b", nil, "noise: "+noise(500_000))), nil))
	if err == nil || !strings.Contains(err.Error(), "1 MiB") || !strings.Contains(err.Error(), "release t") {
		t.Errorf("error %v", err)
	}
	if w := r.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
	// A tree that is itself as large as that.
	rel := &rel1.Release{Name: "t", Chart: mustHelm(t, makeChart(t, subcharted()))}
	tree := &plan.Chart{Path: "edge"}
	for range 100 {
		tree.Subcharts = append(tree.Subcharts, plan.Subchart{Name: noise(20_000)})
	}
	rec, warnings, err := fitRecord(rel, &record{Version: recordVersion, Sequenced: true, Tree: tree})
	if err != nil || len(warnings) != 1 || !rec.Sequenced || len(rec.Tree.Subcharts) != 0 {
		t.Errorf("%v, %v, %+v", err, warnings, rec)
	}
}

func mustHelm(t *testing.T, c *charts.Chart) *chart.Chart {
	t.Helper()
	h, err := c.Helm()
	if err != nil {
		t.Fatal(err)
	}
	return h
}
