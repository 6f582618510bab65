package stack

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/journal"
	kuberelease "lockstep/kube/release"
)

// TestNextPodCannotPlan (S13, R33): a pod is killed. Before the next one starts, somebody else takes an object that the run
// applies, so that one cannot plan. It ends the run as the first pod would have: as failed, and rolled back if asked to.
func TestNextPodCannotPlan(t *testing.T) {
	t.Parallel()
	for _, rollback := range []bool{false, true} {
		t.Run(fmt.Sprintf("rollback %t", rollback), func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			chart := func(objects ...string) string {
				return rig.DirOf(t, objects...)
			}
			own := rig.ConfigMap("{{ .Release.Name }}", rig.Group("one"))
			good := chart(own)
			more := chart(own, rig.ConfigMap("{{ .Release.Name }}-more", rig.Group("one")))
			bad := chart(own, rig.Deployment("{{ .Release.Name }}", rig.Group("two", "one"), "1h"))
			stack := func(first, second string) []release {
				return []release{{Name: "a", Dir: first}, {Name: "b", Dir: second, Needs: []string{"a"}}, {Name: "c", Dir: good, Needs: []string{"b"}}}
			}
			b.mustUp(stack(good, good)[:2]...)
			store := &memory{forgets: true}
			pod := b.pods(store)
			s, err := pod(false, false, stack(more, bad)...)
			b.run(s, err, nil)
			theirs := []byte(`{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			if _, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Patch(t.Context(), "a-more", types.MergePatchType, theirs, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			s, err = pod(false, rollback, stack(more, bad)...)
			state, _ := b.run(s, err, nil)
			want := []string{"a 2 deployed", "b 2 failed"}
			if rollback {
				want = []string{"a 3 deployed", "b 3 deployed"}
			}
			if got := b.history("a", "b"); state.Exit != 1 || !strings.Contains(phrase.Reason(state), "a-more") || !slices.Equal(got[:2], want) {
				t.Errorf("exit %d, history %v, want %v: %s", state.Exit, got, want, phrase.Reason(state))
			}
			if !slices.Contains(b.ConfigMaps(b.Namespace), "a-more") {
				t.Error("the object of the other release was deleted")
			}
		})
	}
}

// TestNextPodPassesWhatIsDeployed (S13): the first pod of a Job has deployed a, whose chart renders random values. The next pod
// does not deploy it again.
func TestNextPodPassesWhatIsDeployed(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	random := rig.DirOf(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {password: {{ randAlphaNum 20 }}}\n")
	pod := b.pods(&memory{forgets: true})
	for _, second := range []string{bad, good} {
		s, err := pod(false, false, release{Name: "a", Dir: random}, release{Name: "b", Dir: second, Needs: []string{"a"}})
		state, _ := b.run(s, err, nil)
		if got := b.history("a"); got[0] != "a 1 deployed" || (state.Exit == 0) != (second == good) || state.Results[0].Result != event.Deployed {
			t.Errorf("exit %d, history %v, results %v: %s", state.Exit, got, state.Results, phrase.Reason(state))
		}
	}
}

// TestTakenBeforeItStarts (S13, R51b): the first pod of a Job is killed before it starts b. Somebody else upgrades b before the
// next pod starts. As in a run without a kill, that revision is not overwritten, and a is rolled back.
func TestTakenBeforeItStarts(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	stack := func(first, v string) []release {
		return []release{{Name: "a", Dir: first}, {Name: "b", Dir: good, Needs: []string{"a"}, Values: map[string]any{"v": v}}}
	}
	b.mustUp(stack(good, "one")...)
	pod := b.pods(&memory{forgets: true})
	s, err := pod(false, false, stack(bad, "two")...)
	b.run(s, err, nil)
	b.mustUp(release{Name: "b", Dir: good, Values: map[string]any{"v": "theirs"}})
	s, err = pod(false, true, stack(good, "two")...)
	state, _ := b.run(s, err, nil)
	if got := b.history("a", "b"); state.Exit != 1 || got[0] != "a 3 deployed" || got[1] != "b 2 deployed" || !strings.Contains(phrase.Reason(state), "somebody else created") {
		t.Errorf("exit %d, history %v: %s", state.Exit, got, phrase.Reason(state))
	}
}

// TestNextPodCannotKeep (S13, R34): a pod was killed, and the next one cannot write the journal, because a policy refuses that now. It
// ends the run as failed: no release stays pending, no lock is left, and it does not say that nothing was written.
func TestNextPodCannotKeep(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.ChartOf(t, rig.Deployment("app", nil, "1h"))
	refuses := func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "lockstep-t-journal", errors.New("frozen by a policy"))
	}
	pend := func(name string) {
		records := b.Helm().Releases
		stored, err := records.Last(name)
		if err != nil {
			t.Fatal(err)
		}
		killed := stored.(*rel1.Release)
		if killed.Info.Status = rcommon.StatusPendingInstall; records.Update(killed) != nil {
			t.Fatalf("revision %d of %s cannot be written", killed.Version, name)
		}
	}
	check := func(state *event.State, releases ...string) {
		t.Helper()
		leases, err := b.Cluster.CoordinationV1().Leases(b.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.history(releases...); state.Exit != 1 || state.Code == event.NothingWritten || !strings.Contains(phrase.Reason(state), "frozen by a policy") || slices.ContainsFunc(got, func(h string) bool { return strings.Contains(h, "pending") }) || len(leases.Items) > 0 {
			t.Errorf("exit %d (%s), history %v, %d leases: %s", state.Exit, state.Code, got, len(leases.Items), phrase.Reason(state))
		}
	}
	for _, rollback := range []bool{false, true} {
		store := &memory{forgets: true}
		for _, next := range []bool{false, true} {
			j := rig.OpenJournal(t, store)
			op, err := b.Install("plain", rig.UseChart(bad, func(i *kube.Deploy) {
				i.Journal, i.Job, i.ReadinessTimeout, i.RollbackOnFailure = j.Entry(""), b.Namespace+"/job", 2*time.Second, rollback && next
			}))
			if err != nil {
				t.Fatal(err)
			}
			out := b.Run(op, nil)
			if next {
				check(&out.State, "t")
				continue
			}
			pend("t")
			store.refuses = refuses
		}
		store = &memory{forgets: true}
		pod := b.pods(store)
		stack := []release{{Name: "a", Dir: good}, {Name: "b", Dir: rig.DirOf(t, rig.Deployment("b", nil, "1h")), Needs: []string{"a"}}}
		s, err := pod(false, false, stack...)
		b.run(s, err, nil)
		pend("b")
		store.refuses = refuses
		s, err = pod(false, rollback, stack...)
		state, _ := b.run(s, err, nil)
		check(state, "a", "b")
	}
}

// TestNextPodLostTheJournal (S13): somebody has deleted the Secret with the journal. A pod that replaces another ends the run as failed:
// it cannot know which values were accepted. The first pod runs.
func TestNextPodLostTheJournal(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	lost := journal.Lost(apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "lockstep-t-journal"))
	pod := func(j *journal.Journal, job string, docs ...string) (*kube.Operation, error) {
		return b.Upgrade("plain", rig.UseChart(rig.ChartOf(t, docs...), func(u *kube.Deploy) {
			u.Install, u.Journal, u.Job, u.ReadinessTimeout = true, j.Entry(""), b.Namespace+"/"+job, 2*time.Second
		}))
	}
	b.MustRun(pod(lost, "first", rig.ConfigMap("a", nil)))
	op, err := pod(rig.OpenJournal(t, &memory{}), "second", rig.Deployment("app", nil, "1h"))
	if err != nil {
		t.Fatal(err)
	}
	b.Run(op, nil)
	records := b.Helm().Releases
	stored, err := records.Last("t")
	if err != nil {
		t.Fatal(err)
	}
	killed := stored.(*rel1.Release)
	if killed.Info.Status = rcommon.StatusPendingUpgrade; records.Update(killed) != nil {
		t.Fatal("revision 2 cannot be written")
	}
	if op, err = pod(lost, "second", rig.ConfigMap("a", nil)); err != nil {
		t.Fatal(err)
	}
	out := b.Run(op, nil)
	if got := b.history("t"); out.State.Exit != 1 || got[0] != "t 2 failed" || !strings.Contains(phrase.Reason(&out.State), "what this run has kept for its next pod is lost") {
		t.Errorf("exit %d, history %v: %s", out.State.Exit, got, phrase.Reason(&out.State))
	}
}

// TestNextPodOfAStackLostTheJournal is TestNextPodLostTheJournal for a stack (S13).
func TestNextPodOfAStackLostTheJournal(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	lost := journal.Lost(apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "lockstep-stack-journal"))
	pod := func(j *journal.Journal, job, delay string) *event.State {
		s, err := b.prepare(false, func(o *kube.StackOptions) {
			o.Journal, o.Common.Job, o.Common.ReadinessTimeout = j, b.Namespace+"/"+job, 2*time.Second
		}, release{Name: "a", Dir: rig.DirOf(t, rig.ConfigMap("a", nil, "job: "+job))}, release{Name: "b", Dir: rig.DirOf(t, rig.Deployment("b", nil, delay)), Needs: []string{"a"}})
		state, _ := b.run(s, err, nil)
		return state
	}
	if state := pod(lost, "first", "0s"); state.Exit != 0 {
		t.Fatalf("the first pod: exit %d: %s", state.Exit, phrase.Reason(state))
	}
	pod(rig.OpenJournal(t, &memory{}), "second", "1h")
	records := b.Helm().Releases
	stored, err := records.Last("b")
	if err != nil {
		t.Fatal(err)
	}
	killed := stored.(*rel1.Release)
	if killed.Info.Status = rcommon.StatusPendingUpgrade; records.Update(killed) != nil {
		t.Fatal("revision 2 of b cannot be written")
	}
	state := pod(lost, "second", "0s")
	if got := b.history("a", "b"); state.Exit != 1 || !slices.Equal(got, []string{"a 2 deployed", "b 2 failed"}) || strings.Count(phrase.Reason(state), "what this run has kept for its next pod is lost") != 1 {
		t.Errorf("exit %d, history %v: %s", state.Exit, got, phrase.Reason(state))
	}
}

// TestNextPodCannotLoad (S13, R33) is TestNextPodCannotPlan with a chart that can no longer be loaded: that of a release of a
// stack, or of the only release.
func TestNextPodCannotLoad(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	gone := filepath.Join(t.TempDir(), "gone")
	stack := func(second, v string) []release {
		return []release{{Name: "a", Dir: good, Values: map[string]any{"v": v}}, {Name: "b", Dir: second, Needs: []string{"a"}}}
	}
	b.mustUp(stack(good, "one")...)
	pod := b.pods(&memory{forgets: true})
	s, err := pod(false, false, stack(bad, "two")...)
	b.run(s, err, nil)
	s, err = pod(false, true, stack(gone, "two")...)
	state, _ := b.run(s, err, nil)
	if got := b.history("a", "b"); state.Exit != 1 || !slices.Equal(got, []string{"a 3 deployed", "b 3 deployed"}) || !strings.Contains(phrase.Reason(state), gone) {
		t.Errorf("exit %d, history %v: %s", state.Exit, got, phrase.Reason(state))
	}

	store := &memory{forgets: true}
	for _, notLoaded := range []error{nil, errors.New("the registry no longer has the chart")} {
		j := rig.OpenJournal(t, store)
		op, err := b.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("mine", rig.Group("one")), rig.Deployment("app", rig.Group("two", "one"), "1h")), func(i *kube.Deploy) {
			if i.RollbackOnFailure = notLoaded != nil; notLoaded != nil {
				i.ChartOptions = kube.ChartOptions{NotLoaded: notLoaded}
			}
			i.Journal, i.Job, i.ReadinessTimeout = j.Entry(""), b.Namespace+"/job", 2*time.Second
		}))
		if err != nil {
			t.Fatal(err)
		}
		if out := b.Run(op, nil); out.State.Exit != 1 || notLoaded != nil && !strings.Contains(phrase.Reason(&out.State), notLoaded.Error()) {
			t.Errorf("exit %d: %s", out.State.Exit, phrase.Reason(&out.State))
		}
	}
	if got := b.history("t"); got[0] != "t none" || slices.Contains(b.ConfigMaps(b.Namespace), "mine") {
		t.Errorf("the next pod leaves %v, %v", got, b.ConfigMaps(b.Namespace))
	}
}

// TestNextPodBreaksOnADeployedRelease (S13): the first pod of a Job deployed a, which alone has the groups of --break-on, one of
// which is a hook of the installation, and was killed. The next pod passes a as unchanged, and goes on.
func TestNextPodBreaksOnADeployedRelease(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	chart := func(group, delay string) string {
		annotations := rig.Group(group)
		if delay != "0s" {
			annotations[plan.AnnotationReadinessTimeout] = "2s"
		}
		return rig.MakeDir(t, rig.Files{
			"templates/all.yaml":  rig.Deployment("{{ .Release.Name }}", annotations, delay),
			"templates/hook.yaml": rig.ConfigMap("{{ .Release.Name }}-hook", map[string]string{"helm.sh/hook": "pre-install"}),
		})
	}
	store := &memory{forgets: true}
	for _, delay := range []string{"1h", "0s"} {
		j := rig.OpenJournal(t, store)
		s, err := b.prepare(false, func(o *kube.StackOptions) {
			o.Journal, o.Common.Job, o.Common.BreakOn = j, b.Namespace+"/job", []string{"early", "a/pre-install:ConfigMap/a-hook"}
		}, release{Name: "a", Dir: chart("early", "0s")}, release{Name: "b", Dir: chart("late", delay), Needs: []string{"a"}})
		state, _ := b.run(s, err, func(e event.Event) {
			if e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" {
				s.Command(event.Command{Name: event.Resume})
			}
		})
		if (state.Exit == 0) != (delay == "0s") {
			t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
		}
	}
}

// TestNextPodLeavesWhatHelmBegins (S13, R51b): the first pod of a Job failed, and was killed before it could mark revision 2 of a
// as failed. After the next pod has planned, Helm begins revision 3 of b. The next pod marks its own revision, not Helm's.
func TestNextPodLeavesWhatHelmBegins(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.Meddles = "begins an upgrade of b"
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	stack := func(second, v string) []release {
		return []release{{Name: "a", Dir: good, Values: map[string]any{"v": v}}, {Name: "b", Dir: second, Needs: []string{"a"}}}
	}
	b.mustUp(stack(good, "one")...)
	pod := b.pods(&memory{})
	s, err := pod(false, false, stack(bad, "two")...)
	b.run(s, err, nil)
	records := b.Helm().Releases
	stored, err := records.Get("a", 2)
	if err != nil {
		t.Fatal(err)
	}
	killed := stored.(*rel1.Release)
	if killed.Info.Status = rcommon.StatusPendingUpgrade; records.Update(killed) != nil {
		t.Fatal("revision 2 of a cannot be written")
	}
	s, err = pod(false, false, stack(bad, "two")...)
	begun := &rel1.Release{Name: "b", Namespace: b.Namespace, Version: 3, Chart: killed.Chart, Info: &rel1.Info{Status: rcommon.StatusPendingUpgrade}}
	if err := records.Create(begun); err != nil {
		t.Fatal(err)
	}
	state, _ := b.run(s, err, nil)
	if got := b.history("a", "b"); state.Exit != 1 || got[0] != "a 2 failed" || got[1] != "b 3 pending-upgrade" || strings.Count(phrase.Reason(state), "newer revision 3") != 1 {
		t.Errorf("exit %d, history %v: %s", state.Exit, got, phrase.Reason(state))
	}
}

// TestInstalledByAWrongClock is TestTakenBeforeItStarts for a release that somebody else has uninstalled and installed again: its
// revision is known by its record, because their clock may be wrong.
func TestInstalledByAWrongClock(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	stack := func(first, v string) []release {
		return []release{{Name: "a", Dir: first}, {Name: "b", Dir: good, Needs: []string{"a"}, Values: map[string]any{"v": v}}}
	}
	b.mustUp(stack(good, "one")...)
	b.mustUp(stack(good, "two")...)
	pod := b.pods(&memory{forgets: true})
	s, err := pod(false, false, stack(bad, "three")...)
	b.run(s, err, nil)
	b.MustHelm("uninstall", "b")
	b.MustHelm("install", "b", good)
	records := b.Helm().Releases
	theirs, found, err := kuberelease.Get(records, "b", 1)
	if err != nil || !found {
		t.Fatal(err)
	}
	theirs.Info.LastDeployed = theirs.Info.LastDeployed.Add(-time.Hour)
	if err := records.Update(theirs); err != nil {
		t.Fatal(err)
	}
	s, err = pod(false, false, stack(good, "three")...)
	state, _ := b.run(s, err, nil)
	if got := b.history("b"); state.Exit == 0 || got[0] != "b 1 deployed" || !strings.Contains(phrase.Reason(state), "somebody else created") {
		t.Errorf("exit %d, history %v: %s", state.Exit, got, phrase.Reason(state))
	}
}

// TestNextPodCannotPlanARelease is TestNextPodCannotPlan for an installation.
func TestNextPodCannotPlanARelease(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	bad := rig.ChartOf(t, rig.ConfigMap("mine", rig.Group("one")), rig.Deployment("app", rig.Group("two", "one"), "1h"), rig.ConfigMap("theirs", rig.Group("three", "two")))
	store := &memory{forgets: true}
	for _, rollback := range []bool{false, true} {
		j := rig.OpenJournal(t, store)
		op, err := b.Install("plain", rig.UseChart(bad, func(i *kube.Deploy) {
			i.RollbackOnFailure = rollback
			i.Journal, i.Job, i.ReadinessTimeout = j.Entry(""), b.Namespace+"/job", 2*time.Second
		}))
		if err != nil {
			t.Fatal(err)
		}
		out := b.Run(op, nil)
		if out.Err == nil || rollback && (out.State.Exit != 1 || !strings.Contains(phrase.Reason(&out.State), "theirs already exists")) {
			t.Errorf("exit %d: %s", out.State.Exit, phrase.Reason(&out.State))
		}
		if !rollback {
			theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
			if _, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := b.ConfigMaps(b.Namespace); slices.Contains(got, "mine") || !slices.Contains(got, "theirs") {
		t.Errorf("the next pod leaves ConfigMaps %v", got)
	}
}
