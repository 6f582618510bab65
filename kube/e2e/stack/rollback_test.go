package stack

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmfile"
	"lockstep/kube/throwaway/faultproxy"
)

// TestRollbackThatFails: the API server refuses the rollback of a release. The outcome names this release with the reason, and
// the one that it needs, which therefore stays too: each fact once. The failure is held once, in the release (S5, S6).
func TestRollbackThatFails(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	stack := []release{{Name: "base", Dir: chart(t, "base")}, {Name: "a", Dir: chart(t, "a"), Needs: []string{"base"}}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"a"}}}
	b.mustUp(stack...)
	for i := range stack {
		stack[i].Values = map[string]any{"data": "two"}
	}
	stack[2].Values = unpullable(stack[2].Values)
	var applied atomic.Int32
	b.connect = func(string) (*kube.Client, error) {
		return b.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/configmaps/a") || r.URL.Query().Get("dryRun") != "" || applied.Add(1) == 1 {
				return false
			}
			faultproxy.Refuse(w, http.StatusForbidden, "Forbidden", "policy says no")
			return true
		}}, ""), nil
	}
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.RollbackOnFailure, o.Common.HoldOnFailure = true, true }, stack...)
	var held []string
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Held {
			held = append(held, e.Scope)
			s.Command(event.Command{Name: event.GiveUp, Group: e.Scope})
		}
	})
	a, base := b.id("a"), b.id("base")
	if want := []string{b.id("c"), a}; !slices.Equal(held, want) {
		t.Errorf("held were %q, want %q", held, want)
	}
	want := "rolled back 1 of 3 changed releases; " + base + " was not rolled back: " + a + ", which needs it, was not either; " +
		a + " was not rolled back: "
	if state.Exit != 1 || !strings.HasPrefix(state.Outcome, want) || strings.Count(state.Outcome, "policy says no") != 1 || strings.Contains(state.Outcome, "incomplete") {
		t.Errorf("exit %d, outcome %q", state.Exit, state.Outcome)
	}
	if got := result(state, "a"); !strings.Contains(got.Reason, "policy says no") {
		t.Errorf("the result of a is %+v", got)
	}
}

// changeCharts changes the options of all charts of a stack.
func changeCharts(o *kube.StackOptions, change func(*kube.ChartOptions)) {
	load := o.Load
	o.Load = func(ctx context.Context, r helmfile.Release) (kube.ChartOptions, error) {
		chart, err := load(ctx, r)
		change(&chart)
		return chart, err
	}
}

// TestRollbackForcesConflicts: --force-conflicts is also for the rollback of a stack, which sets a field again that the upgrade left
// to somebody else (R33, S5).
func TestRollbackForcesConflicts(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"a"}}}
	b.mustUp(stack...)
	if _, err := b.Cluster.CoreV1().ConfigMaps(b.namespaceOf("a")).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"v":"theirs"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	stack[0].Dir = rig.MakeDir(t, rig.Files{
		"Chart.yaml":            "apiVersion: v2\nname: a\nversion: 2.0.0\n",
		"templates/config.yaml": rig.ConfigMap("a", rig.Group("config"), "other: field"),
	})
	stack[1].Values = unpullable(nil)
	s, err := b.prepare(false, func(o *kube.StackOptions) {
		o.Common.RollbackOnFailure = true
		changeCharts(o, func(c *kube.ChartOptions) { c.ForceConflicts = true })
	}, stack...)
	state, _ := b.run(s, err, nil)
	if got := b.history("a", "c"); !slices.Equal(got, []string{"a 3 deployed", "c 3 deployed"}) {
		t.Errorf("%v, outcome %q", got, state.Outcome)
	}
	if got := b.in("a").ConfigMapData("a"); got["v"] != "one" {
		t.Errorf("ConfigMap/a has %v", got)
	}
}

// TestRollbackLeavesWhatStackDidNotChange: while a stack runs, somebody changes an object that one of its releases has left unchanged,
// gives one that it has changed to another release, and creates another one again. The rollback of the stack leaves all of them, and
// takes the rest of the release back (R31a, R33, S5).
func TestRollbackLeavesWhatStackDidNotChange(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.Meddles = "somebody changes an object of a release"
	dir := func(v string) string {
		return rig.DirOf(t, rig.ConfigMap("a", nil, "v: v"+v), rig.ConfigMap("same", nil, "v: v"), rig.ConfigMap("given", nil, "v: v"+v), rig.ConfigMap("again", nil, "v: v"+v))
	}
	stack := []release{{Name: "a", Dir: dir("1")}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"a"}}}
	b.mustUp(stack...)
	stack[0].Dir = dir("2")
	stack[1].Values = unpullable(nil)
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.RollbackOnFailure = true }, stack...)
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Scope == b.id("c") && e.Status == event.Failed {
			in := b.in("a")
			in.PatchConfigMap("same", `{"data":{"v":"theirs"}}`)
			in.PatchConfigMap("given", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			if err := b.Cluster.CoreV1().ConfigMaps(in.Namespace).Delete(t.Context(), "again", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			in.Create(rig.ConfigMap("again", nil, "w: theirs"))
		}
	})
	if got := b.history("a", "c"); !slices.Equal(got, []string{"a 3 deployed", "c 3 deployed"}) {
		t.Errorf("%v, outcome %q", got, state.Outcome)
	}
	got := map[string]string{}
	for _, name := range []string{"a", "same", "given", "again"} {
		data := b.in("a").ConfigMapData(name)
		got[name] = data["v"] + data["w"]
	}
	if want := map[string]string{"a": "v1", "same": "theirs", "given": "v2", "again": "theirs"}; !maps.Equal(got, want) {
		t.Errorf("the ConfigMaps have %v, want %v", got, want)
	}
}

// TestTakenOverIsKept: the rollback of a stack keeps an object that a release had taken over, and the outcome says so (R31a).
func TestTakenOverIsKept(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.TakesOver = []string{"configmaps/a"}
	b.Create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {theirs: \"1\"}\n")
	stack := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "c", Dir: chart(t, "c"), Needs: []string{"a"}, Values: unpullable(nil)}}
	s, err := b.prepare(false, func(o *kube.StackOptions) {
		o.Common.RollbackOnFailure = true
		changeCharts(o, func(c *kube.ChartOptions) { c.TakeOwnership = true })
	}, stack...)
	state, _ := b.run(s, err, nil)
	want := "rolled back; 2 releases uninstalled; " + b.id("a") + ": kept what existed before this release took it over: ConfigMap/a (of no release)"
	if state.Outcome != want {
		t.Errorf("outcome %q, want %q", state.Outcome, want)
	}
	if got := b.ConfigMapData("a"); got["theirs"] != "1" {
		t.Errorf("ConfigMap/a has %v", got)
	}
	if left := b.ConfigMaps(b.Namespace); slices.Contains(left, "c") {
		t.Errorf("left %v", left)
	}
}

// TestStackNamesClaimsThatStay: the outcome of a stack's rollback names the claims of the StatefulSets that it deletes, also of a
// release whose own operation rolls it back (S5, R31).
func TestStackNamesClaimsThatStay(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	var releases []release
	for _, name := range []string{"a", "b"} {
		set := `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: ` + name + `, annotations: {helm.sh/resource-group: db}}, spec: {serviceName: db, selector: {matchLabels: {app: ` + name + `}}, template: {metadata: {labels: {app: ` + name + `}}, spec: {containers: [{name: c, image: "x:1"}]}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`
		last := rig.ConfigMap(name, rig.Group("last-"+name, "db"))
		releases = append(releases, release{Name: name, Dir: rig.DirOf(t, set, last)})
	}
	releases[1].Needs = []string{"a"}
	var lists atomic.Int64
	b.connect = func(string) (*kube.Client, error) {
		return b.ConnectThrough(rig.Interceptor{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/persistentvolumeclaims") && r.URL.Query().Get("watch") == "" {
				lists.Add(1)
			}
			return false
		}}, ""), nil
	}
	s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.BreakOn = []string{"last-b"} }, releases...)
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" {
			lists.Store(0)
			s.Command(event.Command{Name: event.Rollback})
		}
	})
	for _, name := range []string{"a", "b"} {
		if want := b.id(name) + ": kept: PersistentVolumeClaim/data-" + name + "-0 (made by StatefulSet/" + name + "; it may hold data)"; !strings.Contains(state.Outcome, want) {
			t.Errorf("the outcome is %q, want %q", state.Outcome, want)
		}
	}
	if n := lists.Load(); n != 3 { // before and after the uninstall of a, and after b's own rollback
		t.Errorf("the claims were listed %d times", n)
	}
}
