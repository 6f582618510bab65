package order

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// TestGenerateName creates objects with a generateName by POST (Helm 4.3.1 cannot), reports
// their names, creates new ones with each revision, and removes the old ones.
func TestGenerateName(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.WithGenerateName(rig.Job("work-", rig.Group("a"), "500ms")), rig.WithGenerateName(rig.ConfigMap("made-", rig.Group("b", "a"))), rig.ConfigMap("after", rig.Group("c", "b")))
	jobs := func() (names []string) {
		list, err := r.Cluster.BatchV1().Jobs(r.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range list.Items {
			names = append(names, j.Name)
		}
		return names
	}
	out := r.Deploy("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs }))
	first := jobs()
	if len(first) != 1 || !strings.HasPrefix(first[0], "work-") || len(r.ConfigMaps(r.Namespace)) != 2 {
		t.Fatalf("Jobs %v, ConfigMaps %v", first, r.ConfigMaps(r.Namespace))
	}
	g := out.State.Find(helmclient.PhaseApply, "edge:a")
	if len(g.Objects) != 1 || g.Objects[0].Object.Name != first[0] || g.Objects[0].Status != event.Ready || g.Done != 1 {
		t.Errorf("the state has %+v, want only the Job %s, ready", g.Objects[0], first[0])
	}
	if d := out.StatusTime("edge:b", event.Running).Sub(out.StatusTime("edge:a", event.Running)); d < 500*time.Millisecond {
		t.Errorf("the group after the Job started %s after it, before it can have been complete", d)
	}
	// lockstep must not delete this object, although its name matches.
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "made-stranger", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made-stranger","generateName":"made-"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, nil)))
	second := jobs()
	if len(second) != 1 || second[0] == first[0] || len(r.ConfigMaps(r.Namespace)) != 3 {
		t.Errorf("after the upgrade there are Jobs %v (before: %v) and ConfigMaps %v", second, first, r.ConfigMaps(r.Namespace))
	}
	r.MustRun(r.Rollback(1))
	if third := jobs(); len(third) != 1 || third[0] == second[0] {
		t.Errorf("after the rollback there are Jobs %v", third)
	}
	op, err := r.Uninstall()
	r.MustRun(op, err)
	if got := r.ConfigMaps(r.Namespace); len(jobs()) > 0 || !slices.Equal(got, []string{"made-stranger"}) {
		t.Errorf("remaining Jobs: %v and ConfigMaps %v", jobs(), got)
	}
	if n := len(op.Phases()[0].Groups); n != 3 {
		t.Errorf("the uninstall was planned in %d groups, want 3", n)
	}
}

// TestGeneratedNameOfAHook runs a hook with a generateName and deletes its object.
func TestGeneratedNameOfAHook(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	hook := map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-succeeded"}
	out := r.Deploy("plain", rig.UseChart(rig.ChartOf(t, strings.Replace(rig.Job("hook-", hook, "300ms"), "  name: ", "  generateName: ", 1), rig.ConfigMap("a", nil)), nil))
	named := slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Phase == "pre-install" && len(e.Object.Name) > len("hook-") && e.Status == event.Ready
	})
	if !named {
		t.Errorf("no event names the hook's Job, ready")
	}
	r.Eventually("the hook's Job is deleted", func() bool {
		list, err := r.Cluster.BatchV1().Jobs(r.Namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// TestRetryOfAGeneratedName deletes the object of the failed attempt (R44).
func TestRetryOfAGeneratedName(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	fails := strings.Replace(rig.Job("work-", rig.Group("a"), "100ms", "  backoffLimit: 0"), "{sandbox/run-duration: 100ms}", `{sandbox/run-duration: 100ms, sandbox/exit-code: "1"}`, 1)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, strings.Replace(fails, "  name: ", "  generateName: ", 1), rig.ConfigMap("after", rig.Group("b", "a"))),
		func(i *kube.Deploy) { i.WaitForJobs, i.HoldOnFailure = kube.AllJobs, true }))
	if err != nil {
		t.Fatal(err)
	}
	out, _ := r.RunHeld(op, event.GiveUp, nil)
	var failed []string
	for _, e := range out.Events {
		if e.Kind == event.KindObject && e.Status == event.Failed {
			failed = append(failed, e.Object.Name)
		}
	}
	list, err := r.Cluster.BatchV1().Jobs(r.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(failed) != 2 || failed[0] == failed[1] || len(list.Items) != 1 || list.Items[0].Name != failed[1] {
		t.Errorf("failed were %v, %d Jobs are left", failed, len(list.Items))
	}
}

// TestOneGenerateNameTwice has one generateName twice in a group and once in another: all
// objects are created and waited for, each revision replaces all of them, and all are removed
// in the order of their groups.
func TestOneGenerateNameTwice(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.WithGenerateName(rig.Job("work-", rig.Group("a"), "300ms")), rig.WithGenerateName(rig.Job("work-", rig.Group("a"), "1s")),
		rig.WithGenerateName(rig.Job("work-", rig.Group("b", "a"), "300ms")), rig.ConfigMap("after", rig.Group("c", "b")))
	out := r.Deploy("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs }))
	first := jobsByGroup(r)
	if len(first["a"]) != 2 || len(first["b"]) != 1 || out.HasWarning("R13") {
		t.Fatalf("Jobs by group: %v, warnings %v", first, out.State.Warnings)
	}
	a := out.State.Find(helmclient.PhaseApply, "edge:a")
	for _, o := range a.Objects {
		if o.Status != event.Ready || !slices.Contains(first["a"], o.Object.Name) {
			t.Errorf("the state has %+v, want the Jobs %v, ready", o, first["a"])
		}
	}
	created := posts(r, "jobs")
	for _, name := range first["a"] {
		if done := r.Timeline("lockstep").LastStatus(t, "Job/"+name); len(created) != 3 || created[2].Before(done) || a.Done != 2 {
			t.Errorf("Jobs were created at %v, %s of a was complete at %s; %d are done", created, name, done, a.Done)
		}
	}

	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.WaitForJobs = kube.AllJobs })))
	second := jobsByGroup(r)
	if len(second["a"]) != 2 || len(second["b"]) != 1 || slices.ContainsFunc(second["a"], func(s string) bool { return slices.Contains(first["a"], s) }) {
		t.Errorf("after the upgrade there are %v, before it there were %v", second, first)
	}

	start := time.Now()
	out = r.MustRun(r.Uninstall())
	if got := out.EndedGroups(); !slices.Equal(got, []string{"edge:c", "edge:b", "edge:a"}) || len(r.Jobs()) > 0 {
		t.Errorf("removed %v, remaining: %v", got, r.Jobs())
	}
	tl := r.Timeline("lockstep").Since(start)
	of := func(names []string) (jobs []string) {
		for _, name := range names {
			jobs = append(jobs, "Job/"+name)
		}
		return jobs
	}
	gone, _ := tl.LastDelete(t, of(second["b"]))
	next, _ := tl.FirstDelete(t, of(second["a"]))
	if gone.IsZero() || next.Before(gone) {
		t.Errorf("the Jobs of a were deleted from %s on, that of b at %s", rig.Clock(next), rig.Clock(gone))
	}
}

// jobsByGroup returns the names of the Jobs in the namespace, by resource-group.
func jobsByGroup(r *rig.Rig) map[string][]string {
	r.T.Helper()
	list, err := r.Cluster.BatchV1().Jobs(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	out := map[string][]string{}
	for _, j := range list.Items {
		g := j.Annotations[plan.AnnotationGroup]
		out[g] = append(out[g], j.Name)
	}
	return out
}

// posts returns the times at which lockstep created objects of a resource, in order.
func posts(r *rig.Rig, resource string) (at []time.Time) {
	r.T.Helper()
	for _, e := range r.Audit() {
		if e.Object.Namespace == r.Namespace && e.Object.Resource == resource && e.Verb == "create" && e.UserAgent == "lockstep" {
			at = append(at, e.Received)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// TestGeneratedNameIsKeptByARollback: the rollback of an upgrade that failed before it reached an object with a generateName neither
// deletes the existing one nor creates another, also if several objects have that generateName (R33).
func TestGeneratedNameIsKeptByARollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(first string) func(*kube.Deploy) {
		made := rig.WithGenerateName(rig.ConfigMap("made-", rig.Group("b", "a")))
		shared := rig.WithGenerateName(rig.ConfigMap("shared-", rig.Group("b", "a")))
		return rig.UseChart(rig.ChartOf(t, first, made, shared, shared), func(d *kube.Deploy) { d.RollbackOnFailure = true })
	}
	r.Deploy("plain", chart(rig.ConfigMap("first", rig.Group("a"))))
	before := r.ConfigMaps(r.Namespace)
	op := r.Must(r.Upgrade("plain", chart(rig.UnpullableDeployment("fails", rig.Impatient(rig.Group("a"))))))
	if out := r.Run(op, nil); out.State.Exit != 1 {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
	if after := r.ConfigMaps(r.Namespace); !slices.Equal(after, before) {
		t.Errorf("ConfigMaps %v, before %v", after, before)
	}
}
