package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// scopedChart has subchart app after db after base; db has hooks of its own
// around its turn, and the root chart has one around everything. change changes
// the annotations of db's hook after its turn.
func scopedChart(change func(map[string]string)) files {
	hook := func(event, weight string) map[string]string {
		return map[string]string{"helm.sh/hook": event, plan.AnnotationHookScope: plan.HookScopeSubchart, "helm.sh/hook-weight": weight}
	}
	post := hook("post-install,post-upgrade", "0")
	post["helm.sh/hook-delete-policy"] = "before-hook-creation,hook-succeeded,hook-failed"
	if change != nil {
		change(post)
	}
	return files{
		"Chart.yaml": "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies:\n- {name: base, version: 1.0.0}\n- {name: db, version: 1.0.0, depends-on: [base]}\n" +
			"- {name: app, version: 1.0.0, depends-on: [db]}\n",
		"templates/hook.yaml":             job("root", map[string]string{"helm.sh/hook": "pre-install"}, "0s"),
		"charts/base/Chart.yaml":          "apiVersion: v2\nname: base\nversion: 1.0.0\n",
		"charts/base/templates/all.yaml":  configMap("base", nil),
		"charts/db/Chart.yaml":            "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/all.yaml":    strings.Join([]string{configMap("one", group("one")), configMap("two", group("two", "one"))}, "\n---\n"),
		"charts/db/templates/first.yaml":  job("first", hook("pre-install", "-1"), "300ms"),
		"charts/db/templates/second.yaml": job("second", hook("pre-install,pre-upgrade", "1"), "300ms"),
		"charts/db/templates/post.yaml":   job("post", post, "300ms"),
		"charts/app/Chart.yaml":           "apiVersion: v2\nname: app\nversion: 1.0.0\n",
		"charts/app/templates/all.yaml":   configMap("app", nil),
	}
}

// ended lists the groups of the phases in the order in which they ended.
func (out outcome) ended() (ids []string) {
	for _, e := range out.events {
		if e.Kind == event.KindGroup && e.Status.Over() && !slices.Contains(ids, e.Group) {
			ids = append(ids, e.Group)
		}
	}
	return ids
}

// TestHooksAroundASubchart runs hooks with lockstep/hook-scope around the turn
// of their subchart.
func TestHooksAroundASubchart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := makeChart(t, scopedChart(nil))
	lines, _ := r.changes(r.install("plain", use(c, nil)))
	if !slices.Contains(lines, "pre-install:Job/first Job/first hook") {
		t.Errorf("the plan has %q", lines)
	}
	out := r.mustRun(r.install("plain", use(c, nil)))
	want := []string{"pre-install:Job/root", "edge/base:(unsequenced)", "pre-install:Job/first", "pre-install:Job/second", "edge/db:one", "edge/db:two",
		"post-install:Job/post", "edge/app:(unsequenced)"}
	if got := out.ended(); !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
	// The audit log says the same: a Job is over with its last status.
	tl := r.timeline("lockstep")
	base, _ := tl.firstWrite(t, []string{"ConfigMap/base"})
	first, _ := tl.firstWrite(t, []string{"Job/first"})
	second, _ := tl.firstWrite(t, []string{"Job/second"})
	one, _ := tl.firstWrite(t, []string{"ConfigMap/one"})
	post, _ := tl.firstWrite(t, []string{"Job/post"})
	app, _ := tl.firstWrite(t, []string{"ConfigMap/app"})
	order := []time.Time{base, first, tl.lastStatus(t, "Job/first"), second, tl.lastStatus(t, "Job/second"), one, post, app}
	if !slices.IsSortedFunc(order, time.Time.Compare) {
		t.Errorf("the audit log has %v", order)
	}
	if got := r.jobs(); !slices.Equal(got, []string{"first", "root", "second"}) {
		t.Errorf("by their delete policies stay %v", got)
	}
	if hooks := r.mustHelm("get", "hooks", "t"); strings.Count(hooks, plan.AnnotationHookScope) != 3 {
		t.Errorf("the release has hooks %s", hooks)
	}

	out = r.mustRun(r.upgrade("plain", useUp(c, nil)))
	want = []string{"edge/base:(unsequenced)", "pre-upgrade:Job/second", "edge/db:one", "edge/db:two", "post-upgrade:Job/post", "edge/app:(unsequenced)"}
	if got := out.ended(); !slices.Equal(got, want) {
		t.Errorf("the upgrade ran %q, want %q", got, want)
	}
	r.mustRun(r.uninstall())
}

// TestHookAroundASubchartFails ends the operation before what waits for the
// subchart.
func TestHookAroundASubchartFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fs := scopedChart(nil)
	fs["charts/db/templates/second.yaml"] = strings.Replace(fs["charts/db/templates/second.yaml"], "sandbox/run-duration: 300ms", "sandbox/run-duration: 100ms, sandbox/exit-code: \"1\"", 1)
	fs["charts/db/templates/second.yaml"] = strings.Replace(fs["charts/db/templates/second.yaml"], "spec:\n", "spec:\n  backoffLimit: 0\n", 1)
	op, err := r.install("plain", use(makeChart(t, fs), nil))
	r.mustFail(op, err, "Job/second", "never started", "edge/app:(unsequenced)")
}

// TestScopeOfAHook warns of what cannot be: the hook then runs as Helm has it.
func TestScopeOfAHook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fs := scopedChart(func(m map[string]string) { m[plan.AnnotationHookScope] = "chart" })
	op, err := r.install("plain", use(makeChart(t, fs), nil))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return strings.Contains(w.Message, `"chart" is not known`) }) {
		t.Errorf("warnings %v", op.Warnings())
	}
	if last := op.Phases()[len(op.Phases())-1]; last.Name != "post-install" {
		t.Errorf("the last phase is %s", last.Name)
	}
}

// lastStatus is when an object's status was written last.
func (tl *timeline) lastStatus(t *testing.T, object string) (at time.Time) {
	t.Helper()
	for _, e := range tl.of(t, object) {
		if e.Object.Subresource == "status" {
			at = e.Received
		}
	}
	return at
}

// jobs are the names of the Jobs in the namespace that are there to stay.
func (r *rig) jobs() (names []string) {
	r.t.Helper()
	list, err := r.cluster.BatchV1().Jobs(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	for _, j := range list.Items {
		names = append(names, j.Name)
	}
	return names
}
