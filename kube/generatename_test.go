package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/helmclient"
)

// TestGenerateName creates objects without a name by POST (Helm 4.3.1 cannot),
// tells their names, makes them anew with each revision, and removes those that
// went before.
func TestGenerateName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	generated := func(doc string) string { return strings.Replace(doc, "  name: ", "  generateName: ", 1) }
	chart := one(t, generated(job("work-", group("a"), "500ms")), generated(configMap("made-", group("b", "a"))), configMap("after", group("c", "b")))
	jobs := func() (names []string) {
		list, err := r.cluster.BatchV1().Jobs(r.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range list.Items {
			names = append(names, j.Name)
		}
		return names
	}
	out := r.deploy("plain", use(chart, func(i *Install) { i.WaitForJobs = true }))
	first := jobs()
	if len(first) != 1 || !strings.HasPrefix(first[0], "work-") || len(r.configMaps(r.namespace)) != 2 {
		t.Fatalf("Jobs %v, ConfigMaps %v", first, r.configMaps(r.namespace))
	}
	g := out.state.Find(helmclient.PhaseApply, "edge:a")
	if len(g.Objects) != 1 || g.Objects[0].Object.Name != first[0] || g.Objects[0].Status != event.Ready || g.Done != 1 {
		t.Errorf("the events draw %+v, want only the Job %s, ready", g.Objects[0], first[0])
	}
	if d := out.at("edge:b", event.Running).Sub(out.at("edge:a", event.Running)); d < 500*time.Millisecond {
		t.Errorf("the group after the Job started %s after it, before it can have been complete", d)
	}
	// Somebody else's object with such a name is none of ours.
	if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), "made-stranger", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made-stranger","generateName":"made-"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	r.mustRun(r.upgrade("plain", useUp(chart, nil)))
	second := jobs()
	if len(second) != 1 || second[0] == first[0] || len(r.configMaps(r.namespace)) != 3 {
		t.Errorf("after the upgrade there are Jobs %v (before: %v) and ConfigMaps %v", second, first, r.configMaps(r.namespace))
	}
	r.mustRun(r.rollback(1))
	if third := jobs(); len(third) != 1 || third[0] == second[0] {
		t.Errorf("after the rollback there are Jobs %v", third)
	}
	op, err := r.uninstall()
	r.mustRun(op, err)
	if got := r.configMaps(r.namespace); len(jobs()) > 0 || !slices.Equal(got, []string{"made-stranger"}) {
		t.Errorf("left are Jobs %v and ConfigMaps %v", jobs(), got)
	}
	if n := len(op.Phases()[0].Groups); n != 3 {
		t.Errorf("the uninstallation was planned in %d groups, want 3", n)
	}
}

// TestGeneratedNameOfAHook runs a hook without a name, and deletes what it made.
func TestGeneratedNameOfAHook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hook := map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-succeeded"}
	out := r.deploy("plain", use(one(t, strings.Replace(job("hook-", hook, "300ms"), "  name: ", "  generateName: ", 1), configMap("a", nil)), nil))
	named := slices.ContainsFunc(out.events, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Phase == "pre-install" && len(e.Object.Name) > len("hook-") && e.Status == event.Ready
	})
	if !named {
		t.Errorf("no event names the hook's Job, ready")
	}
	r.eventually("the hook's Job is deleted", func() bool {
		list, err := r.cluster.BatchV1().Jobs(r.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// TestRetryOfAGeneratedName deletes what the failed attempt made (R44).
func TestRetryOfAGeneratedName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fails := strings.Replace(job("work-", group("a"), "100ms", "  backoffLimit: 0"), "{sandbox/run-duration: 100ms}", `{sandbox/run-duration: 100ms, sandbox/exit-code: "1"}`, 1)
	op, err := r.install("plain", use(one(t, strings.Replace(fails, "  name: ", "  generateName: ", 1), configMap("after", group("b", "a"))),
		func(i *Install) { i.WaitForJobs, i.HoldOnFailure = true, true }))
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	r.run(op, func(e event.Event) {
		if e.Kind == event.KindObject && e.Status == event.Failed {
			failed = append(failed, e.Object.Name)
		}
		if e.Kind == event.KindRun && e.Status == event.Held {
			op.Command(event.Command{Name: map[bool]event.CommandName{true: event.Retry, false: event.GiveUp}[len(failed) < 2]})
		}
	})
	list, err := r.cluster.BatchV1().Jobs(r.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(failed) != 2 || failed[0] == failed[1] || len(list.Items) != 1 || list.Items[0].Name != failed[1] {
		t.Errorf("failed were %v, %d Jobs are left", failed, len(list.Items))
	}
}

// TestOneGenerateNameTwice has one generateName twice in a group, and once more
// in another: all are created and waited for, each revision makes all anew and
// removes those before, and all are removed in the order of their groups.
func TestOneGenerateNameTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	chart := one(t, generated(job("work-", group("a"), "300ms")), generated(job("work-", group("a"), "1s")),
		generated(job("work-", group("b", "a"), "300ms")), configMap("after", group("c", "b")))
	out := r.deploy("plain", use(chart, func(i *Install) { i.WaitForJobs = true }))
	first := r.jobsByGroup()
	if len(first["a"]) != 2 || len(first["b"]) != 1 || out.says("R13") {
		t.Fatalf("Jobs by group: %v, warnings %v", first, out.state.Warnings)
	}
	a := out.state.Find(helmclient.PhaseApply, "edge:a")
	for _, o := range a.Objects {
		if o.Status != event.Ready || !slices.Contains(first["a"], o.Object.Name) {
			t.Errorf("the events draw %+v, want the Jobs %v, ready", o, first["a"])
		}
	}
	posts := r.posts("jobs")
	for _, name := range first["a"] {
		if done := r.timeline("lockstep").lastStatus(t, "Job/"+name); len(posts) != 3 || posts[2].Before(done) || a.Done != 2 {
			t.Errorf("Jobs were created at %v, %s of a was complete at %s; %d are done", posts, name, done, a.Done)
		}
	}

	r.mustRun(r.upgrade("plain", useUp(chart, func(u *Upgrade) { u.WaitForJobs = true })))
	second := r.jobsByGroup()
	if len(second["a"]) != 2 || len(second["b"]) != 1 || slices.ContainsFunc(second["a"], func(s string) bool { return slices.Contains(first["a"], s) }) {
		t.Errorf("after the upgrade there are %v, before it there were %v", second, first)
	}

	start := time.Now()
	op, err := r.uninstall()
	out = r.mustRun(op, err)
	if got := out.ended(); !slices.Equal(got, []string{"edge:c", "edge:b", "edge:a"}) || len(r.jobs()) > 0 {
		t.Errorf("removed %v, left are %v", got, r.jobs())
	}
	tl := r.timeline("lockstep").since(start)
	of := func(names []string) (jobs []string) {
		for _, name := range names {
			jobs = append(jobs, "Job/"+name)
		}
		return jobs
	}
	gone, _ := tl.deleted(t, of(second["b"]))
	next, _ := tl.firstDelete(t, of(second["a"]))
	if gone.IsZero() || next.Before(gone) {
		t.Errorf("the Jobs of a were deleted from %s on, that of b at %s", clock(next), clock(gone))
	}
}

// jobsByGroup are the names of the Jobs in the namespace, by resource-group.
func (r *rig) jobsByGroup() map[string][]string {
	r.t.Helper()
	list, err := r.cluster.BatchV1().Jobs(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, j := range list.Items {
		g := j.Annotations[plan.AnnotationGroup]
		out[g] = append(out[g], j.Name)
	}
	return out
}
