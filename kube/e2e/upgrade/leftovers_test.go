package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestLeftoversOfFailedRevisions fails twice, each time with additional objects. The next
// operation of any kind removes them, as planned, in reverse order of their creation, if the
// release still owns them (R32a).
func TestLeftoversOfFailedRevisions(t *testing.T) {
	good := rig.ChartOf(t, rig.ConfigMap("a", nil), rig.ConfigMap("before", nil))
	tests := map[string]struct {
		do    func(*rig.Rig) (*kube.Operation, error)
		goes  []string // "phase group: object …", in order
		stays []string
	}{
		"upgrade": {func(r *rig.Rig) (*kube.Operation, error) {
			return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil))
		},
			[]string{"remove-3 edge:fails: fails", "remove-3 edge/sub:second: d", "remove-3 edge/sub:first: c", "remove-2 edge/sub:second: b", "remove edge:(unsequenced): before"},
			[]string{"a", "taken"}},
		"rollback": {func(r *rig.Rig) (*kube.Operation, error) { return r.Rollback(1) },
			[]string{"remove edge:fails: fails", "remove edge/sub:second: d", "remove edge/sub:first: c", "remove-2 edge/sub:second: b"},
			[]string{"a", "before", "taken"}},
		"uninstall": {(*rig.Rig).Uninstall,
			[]string{"remove edge:fails: fails", "remove edge/sub:(unsequenced): a", "remove edge/sub:second: d", "remove edge/sub:first: c", "remove-2 edge/sub:second: b", "remove-1 edge:(unsequenced): before"},
			[]string{"taken"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Deploy("plain", rig.UseChart(good, nil))
			for _, c := range []*charts.Chart{rig.FailingChart(t, "taken", "b"), rig.FailingChart(t, "c", "d")} {
				r.MustFail(r.Upgrade("plain", rig.UseChart(c, nil)))
			}
			r.PatchConfigMap("taken", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`)
			op := r.Must(tt.do(r))
			var planned []string
			for _, p := range op.Phases() {
				for _, g := range p.Groups {
					if p.Kind == event.PhaseRemove && g.ID != "edge:never" {
						text := p.Name + " " + g.ID + ":"
						for _, o := range g.Objects {
							text += " " + o.Name
						}
						planned = append(planned, text)
					}
				}
			}
			if !slices.Equal(planned, tt.goes) {
				t.Errorf("planned are\n%s\nwant\n%s", strings.Join(planned, "\n"), strings.Join(tt.goes, "\n"))
			}
			out := r.MustRun(op, nil)
			var ran []string
			for _, e := range out.Events {
				if e.Kind == event.KindGroup && e.Status == event.Running && strings.HasPrefix(e.Phase, "remove") && e.Group != "edge:never" {
					ran = append(ran, e.Phase+" "+e.Group)
				}
			}
			for i, text := range tt.goes {
				if id, _, _ := strings.Cut(text, ": "); i >= len(ran) || ran[i] != id {
					t.Fatalf("ran %v", ran)
				}
			}
			if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, tt.stays) || len(r.Jobs()) > 0 {
				t.Errorf("ConfigMaps %v, Jobs %v, want %v", got, r.Jobs(), tt.stays)
			}
		})
	}
}

// failUpgrade upgrades to some documents and a Job that fails.
func failUpgrade(r *rig.Rig, rollBack bool, docs ...string) rig.Outcome {
	r.T.Helper()
	op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(r.T, append(docs, rig.FailingJob(nil))...), func(u *kube.Deploy) { u.RollbackOnFailure, u.WaitForJobs = rollBack, plan.AllJobs })))
	out := r.Run(op, nil)
	if out.State.Exit != event.ExitFailed {
		r.T.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	return out
}

// createAgain creates a ConfigMap with the marks of the release, in the place of one that may exist, in another second than
// what happened before: objects have the time of their creation in seconds.
func createAgain(r *rig.Rig, name string) {
	r.T.Helper()
	now := time.Now().Truncate(time.Second)
	r.Eventually("the next second", func() bool { return time.Now().Truncate(time.Second).After(now) })
	configMaps := r.Cluster.CoreV1().ConfigMaps(r.Namespace)
	_ = configMaps.Delete(r.T.Context(), name, metav1.DeleteOptions{}) // it may be gone
	r.Create(rig.Object("v1/ConfigMap/"+name, map[string]string{"meta.helm.sh/release-name": "t", "meta.helm.sh/release-namespace": r.Namespace},
		"  labels: {app.kubernetes.io/managed-by: Helm}"))
}

// TestLeftoverIsWhatTheRevisionCreated: somebody creates an object again that only a failed revision had, with the marks of the
// release. Neither an upgrade nor the rollback of the next one that fails deletes it, and the plan says so (R32a).
func TestLeftoverIsWhatTheRevisionCreated(t *testing.T) {
	t.Parallel()
	a, b := rig.ConfigMap("a", nil), rig.ConfigMap("b", nil)
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a), nil))
	failUpgrade(r, false, a, b)
	createAgain(r, "b")
	if lines, _ := r.Changes(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil))); !slices.Contains(lines, "edge:(unsequenced) ConfigMap/b keep") {
		t.Errorf("the plan is %q", lines)
	}
	out := r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	if !slices.ContainsFunc(out.Events, func(e event.Event) bool { return e.Object != nil && e.Object.Name == "b" && e.Change == event.Kept }) {
		t.Error("no event says that the upgrade keeps b")
	}
	failUpgrade(r, true, a, b)
	r.MustRun(r.Uninstall())
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"b"}) {
		t.Errorf("left are %v, want [b]", got)
	}
}

// TestLeftoverNamespace: a namespace that only a failed revision had stays while something in it is from outside the release, whoever
// removes it: an upgrade, or the rollback of the upgrade that created it (R31a). Then it goes.
func TestLeftoverNamespace(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	extra := r.Namespace + "-extra"
	a, namespace := rig.ConfigMap("a", nil), "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+extra+"}\n"
	inside := rig.ConfigMap("inside", nil)
	inside = strings.Replace(inside, "  name: inside", "  name: inside\n  namespace: "+extra, 1)
	good := rig.UseChart(rig.ChartOf(t, a), nil)
	terminating := func() bool {
		ns, err := r.Cluster.CoreV1().Namespaces().Get(t.Context(), extra, metav1.GetOptions{})
		return err != nil || ns.DeletionTimestamp != nil
	}
	r.Deploy("plain", good)
	failUpgrade(r, false, a, namespace, inside)
	precious := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "precious"}}
	if _, err := r.Cluster.CoreV1().ConfigMaps(extra).Create(t.Context(), precious, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, changes := r.Changes(r.Upgrade("plain", good))
	if c := changes["Namespace/"+extra]; c.Action != "keep" || c.Message != "it contains 1 object not of this release: ConfigMap/precious" {
		t.Errorf("the plan says %s: %s", c.Action, c.Message)
	}
	out := r.MustRun(r.Upgrade("plain", good))
	if !slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Object != nil && e.Object.Name == extra && e.Change == event.Kept && strings.Contains(e.Message, "ConfigMap/precious")
	}) {
		t.Error("no event says that the upgrade keeps the namespace")
	}
	failUpgrade(r, true, a, namespace)
	if terminating() {
		t.Fatal("the namespace is deleted, although it contains an object of somebody else")
	}
	if err := r.Cluster.CoreV1().ConfigMaps(extra).Delete(t.Context(), "precious", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Upgrade("plain", good))
	if !terminating() {
		t.Error("the namespace is left, although nothing is in it")
	}
}

// TestNamespaceWithObjectsOfOtherReleases: a namespace stays while it has an object of another release, in whatever namespace the
// records of that release are, or a claim or Secret that a hook has made. The Job and the account of a hook do not count (R31a).
func TestNamespaceWithObjectsOfOtherReleases(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	extra := r.Namespace + "-guest"
	a, namespace := rig.ConfigMap("a", nil), "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+extra+"}\n"
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a, namespace), nil))
	guest := strings.Replace(rig.ConfigMap("guest", nil), "  name: guest", "  name: guest\n  namespace: "+extra, 1)
	r.MustHelm("install", "other", rig.DirOf(t, guest))
	_, changes := r.Changes(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	if c := changes["Namespace/"+extra]; c.Action != "keep" || c.Message != "it contains objects of release other" {
		t.Errorf("the plan says %s: %s", c.Action, c.Message)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	if got := r.ConfigMaps(extra); !slices.Contains(got, "guest") {
		t.Errorf("the namespace has %v", got)
	}
	r.MustHelm("uninstall", "other")
	hook := func(object, rest string) string {
		text := rig.Object(object, map[string]string{"helm.sh/hook": "pre-install"}, rest)
		return strings.Replace(text, "metadata:\n", "metadata:\n  namespace: "+extra+"\n", 1)
	}
	job := hook("batch/v1/Job/prepare", "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: example/app:1.0}]}}}")
	r.MustHelm("install", "other", rig.DirOf(t, rig.ConfigMap("b", nil), hook("v1/ServiceAccount/prepare", ""), job, hook("v1/Secret/generated", "stringData: {password: x}")))
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a, namespace), func(u *kube.Deploy) { u.TakeOwnership = true })))
	_, changes = r.Changes(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	if c := changes["Namespace/"+extra]; c.Action != "keep" || c.Message != "it contains 1 object not of this release: Secret/generated" {
		t.Errorf("the plan says %s: %s", c.Action, c.Message)
	}
	if err := r.Cluster.CoreV1().Secrets(extra).Delete(t.Context(), "generated", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, changes = r.Changes(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), nil)))
	if c := changes["Namespace/"+extra]; c.Action != "delete" {
		t.Errorf("the plan says %s: %s", c.Action, c.Message)
	}
}

// TestRollbackAnnouncesLeftovers: the rollback of a failed upgrade deletes what an earlier failed revision left. Its plan has the
// phase, so the log, the screen and the counts have the objects (R32a).
func TestRollbackAnnouncesLeftovers(t *testing.T) {
	t.Parallel()
	a := rig.ConfigMap("a", nil)
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a), nil))
	failUpgrade(r, false, a, rig.ConfigMap("b", nil))
	out := failUpgrade(r, true, a, rig.ConfigMap("c", nil))
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"a"}) {
		t.Errorf("left are %v, want [a]", got)
	}
	var gone []string
	for _, p := range out.State.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if o.Status == event.Gone {
					gone = append(gone, p.Name+" "+o.Object.Name)
				}
			}
		}
	}
	if want := "rollback/remove-2 b"; !slices.Contains(gone, want) {
		t.Errorf("the state has %q, want %q", gone, want)
	}
}

// TestLeftoversOfPrunedRevisions: the limit of the history deletes the records of failed revisions. What they created is still removed
// by the next upgrade that succeeds, or the uninstall, even if Helm has upgraded the release in between, and has deleted the
// records; what somebody else has created again stays (R32a).
func TestLeftoversOfPrunedRevisions(t *testing.T) {
	t.Parallel()
	a := rig.ConfigMap("a", nil)
	for _, operation := range []string{"upgrade", "uninstall", "helm", "helm-prunes"} {
		limit := 2
		if operation == "helm-prunes" {
			limit = 10
		}
		r := rig.NewNamed(t, "pruned-"+operation)
		r.Deploy("plain", rig.UseChart(rig.ChartOf(t, a), nil))
		for _, name := range []string{"b", "c", "d", "e"} {
			op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a, rig.ConfigMap(name, nil), rig.FailingJob(nil)), func(u *kube.Deploy) {
				u.WaitForJobs, u.HistoryMax = plan.AllJobs, limit
			}))
			r.MustFail(op, err)
		}
		createAgain(r, "c")
		if strings.HasPrefix(operation, "helm") {
			r.MustHelm("upgrade", "t", rig.DirOf(t, a), "--history-max=3")
		}
		want := []string{"a", "c"}
		if operation == "uninstall" {
			r.MustRun(r.Uninstall())
			want = []string{"c"}
		} else {
			r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, a), func(u *kube.Deploy) { u.HistoryMax = 2 })))
		}
		if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, want) || len(r.Jobs()) > 0 {
			t.Errorf("%s: left are %v and the Jobs %v, want %v", operation, got, r.Jobs(), want)
		}
	}
}
