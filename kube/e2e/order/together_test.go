package order

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// brokenLater is a run in which somebody breaks Deployment/web after its group was ready, while the run is paused before the
// last unit.
type brokenLater struct {
	*rig.Rig
	op         *kube.Operation
	brk, again func() // breaks web, and reacts when its group is no longer ready; again may be nil
	onHold     event.CommandName
	broken     bool
	once       [4]sync.Once
}

// on continues the run once it has seen that web is no longer ready.
func (b *brokenLater) on(e event.Event) {
	switch {
	case e.Kind == event.KindRun && e.Status == event.Paused:
		b.once[0].Do(func() { b.broken = true; b.brk() })
	case b.broken && e.Kind == event.KindObject && e.Object.Name == "web" && e.Status == event.InProgress:
		b.once[1].Do(func() { b.op.Command(event.Command{Name: event.Resume}) })
	case e.Kind == event.KindGroup && e.Group == "edge:a" && e.Status == event.Running && e.Object != nil && b.again != nil:
		b.once[2].Do(b.again)
	case e.Kind == event.KindRun && e.Status == event.Held:
		b.once[3].Do(func() { b.op.Command(event.Command{Name: b.onHold}) })
	}
}

// statusesOfA returns the statuses of group a in the apply phase, without those of an earlier run.
func statusesOfA(out rig.Outcome) (all []event.Status) {
	for _, e := range out.Events {
		if e.Kind == event.KindGroup && e.Group == "edge:a" && e.Phase == helmclient.PhaseApply {
			all = append(all, e.Status)
		}
	}
	return all
}

// TestReadyAtTheSameTime: a group breaks after it was ready, while the run is busy with a later group or with a post hook. The
// outcome waits for it once more, for its readiness timeout, and then the operation fails with the cause, and the record never
// says deployed (R21).
func TestReadyAtTheSameTime(t *testing.T) {
	t.Parallel()
	chart := func(data string) []string {
		return []string{rig.Deployment("web", rig.Group("a"), "0s"), rig.ConfigMap("last", rig.Group("b", "a"), "version: "+data)}
	}
	hook := rig.ConfigMap("hook", map[string]string{"helm.sh/hook": "post-install,post-upgrade,post-rollback"})
	const again = "again"
	cases := []struct {
		name, operation, breaks string
		then                    string // what makes web ready again: again or a command, else nothing
		pauseBefore             string
	}{
		{"deleted", "install", "delete", "", "edge:b"},
		{"failing", "install", "image", "", "edge:b"},
		{"failing during a post hook", "install", "image", "", "post-install:ConfigMap/hook"},
		{"recovers", "install", "image", again, "edge:b"},
		{"retried", "install", "delete", string(event.Retry), "edge:b"},
		{"failing", "upgrade", "image", "", "edge:b"},
		{"recovers during a post hook", "upgrade", "image", again, "post-upgrade:ConfigMap/hook"},
		{"deleted", "rollback", "delete", "", "edge:b"},
	}
	for _, c := range cases {
		t.Run(c.operation+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			docs := chart("one")
			if strings.Contains(c.pauseBefore, "hook") {
				docs = append(docs, hook)
			}
			common := r.Common()
			common.ReadinessTimeout, common.BreakOn, common.HoldOnFailure = 8*time.Second, []string{c.pauseBefore}, c.then == string(event.Retry)
			if c.then == again {
				common.ReadinessTimeout = time.Minute
			}
			if c.operation != "install" {
				r.Deploy("plain", rig.UseChart(rig.ChartOf(t, docs...), nil))
				docs[1] = chart("two")[1]
			}
			b := &brokenLater{Rig: r, onHold: event.CommandName(c.then)}
			var err error
			switch c.operation {
			case "install":
				b.op, err = r.Install("plain", rig.UseChart(rig.ChartOf(t, docs...), func(i *kube.Deploy) { i.Common = common }))
			case "upgrade":
				b.op, err = r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, docs...), func(u *kube.Deploy) { u.Common = common }))
			case "rollback":
				r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, docs...), nil)))
				b.op, err = r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: common, Revision: 1})
			}
			if err != nil {
				t.Fatal(err)
			}
			deployments := r.Cluster.AppsV1().Deployments(r.Namespace)
			image := func(name string) func() {
				return func() {
					patch := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"` + name + `"}]}}}}`
					if _, err := deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
			b.brk = image("example/no-such-image:1")
			if c.breaks == "delete" {
				b.brk = func() {
					if err := deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
			}
			if c.then == again {
				b.again = image("example/app:1.0")
			}
			out := r.Run(b.op, b.on)
			want := []event.Status{event.Running, event.Ready, event.Running, event.Ready}
			if c.then != "" {
				if c.then == string(event.Retry) {
					want = append(want[:3], event.Failed, event.Running, event.Ready)
				}
				if out.State.Exit != 0 || r.Status() != "deployed" {
					t.Errorf("exit %d, the release is %s: %s", out.State.Exit, r.Status(), phrase.Reason(&out.State))
				}
			} else {
				want[3] = event.Failed
				cause := map[string]string{"image": "no-such-image", "delete": "deleted by somebody else"}[c.breaks]
				if s := out.State; s.Exit != 1 || s.Release != "failed" || r.Status() != "failed" || !strings.Contains(phrase.Reason(&s), cause) {
					t.Errorf("exit %d, the release is %s (%s): %s", s.Exit, s.Release, r.Status(), phrase.Reason(&s))
				}
			}
			if got := statusesOfA(out); !slices.Equal(got, want) {
				t.Errorf("group a was %v, want %v", got, want)
			}
		})
	}
}
