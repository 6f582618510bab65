package operation

import (
	"errors"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// TestFailedRollbackNamesTheFailureFirst: the failure of the operation is not the reason why its rollback ended.
func TestFailedRollbackNamesTheFailureFirst(t *testing.T) { // R43
	for _, c := range []struct {
		stop *event.Command
		want string
	}{
		{nil, "Job/a: exit code 1; the rollback also failed: refused; the release is marked failed"},
		{&event.Command{Name: event.Stop, Via: "ctrl-c", KnowsRollback: true}, "Job/a: exit code 1; the rollback was stopped by ctrl-c; the release is marked failed"},
	} {
		op := newOperation(&connect.Client{}, task{prepared: &session.Prepared{}})
		r := &runner{op: op, engine: op.start(nil)}
		if err := r.engine.StartRollback(event.Operation{Name: "uninstall"}, "it failed"); err != nil {
			t.Fatal(err)
		}
		if c.stop != nil {
			r.engine.Command(*c.stop)
		}
		r.closeFailedRollback(run.End{Status: event.Failed, Exit: 1}, errors.New("Job/a: exit code 1"), errors.New("refused"), []string{"the release is marked failed"})
		events := op.feed.Events()
		if got := events[len(events)-1].Message; got != c.want {
			t.Errorf("the closing event says %q, want %q", got, c.want)
		}
	}
}

// TestRollbackLeavesWhatWasNotSent: an object that failed before a request, for example because it was not as approved, or that was not
// deleted for that reason, is as others want it.
func TestRollbackLeavesWhatWasNotSent(t *testing.T) { // R33, R55
	op := newOperation(&connect.Client{}, task{prepared: &session.Prepared{}})
	engine, o := op.start(nil), plan.Object{Kind: "ConfigMap", Name: "a"}
	for _, status := range []event.Status{event.Applying, event.Deleting, event.Failed} {
		engine.Publish(event.Event{Kind: event.KindObject, Object: &o, Status: status})
	}
	op.attempts = []*attempt{{session: cluster.Session{Applied: cluster.NewApplied()}}}
	rel := &rel1.Release{Version: 1, Info: &rel1.Info{Status: rcommon.StatusSuperseded}}
	if untouched := op.untouched(&release.Revisions{All: []*rel1.Release{rel}}, rel); untouched == nil || !untouched(o) {
		t.Error("the rollback would write an object about which no request was sent")
	}
}

// TestLeftBehind: an object that is being deleted still exists, until the run sees that it is gone.
func TestLeftBehind(t *testing.T) { // R43
	object := func(name string, st event.Status, change event.Change) event.Event {
		return event.Event{Kind: event.KindObject, Object: &plan.Object{Kind: "ConfigMap", Name: name}, Status: st, Change: change}
	}
	events := []event.Event{
		object("kept", event.Ready, event.Created), object("hangs", event.Ready, event.Created), object("gone", event.Ready, event.Created),
		object("hook", event.Ready, event.Created), object("hook", event.Ready, event.Deleted), // by its delete policy
		object("old", event.Deleting, event.Deleted), object("restored", event.Gone, event.Deleted), object("restored", event.Ready, event.Created),
		object("hangs", event.Deleting, event.Deleted), object("gone", event.Deleting, event.Deleted), object("gone", event.Gone, ""),
	}
	if x := effectsOf(events); firstTen(x.deleting) != "ConfigMap/hangs" || firstTen(x.left) != "ConfigMap/kept" {
		t.Errorf("being deleted: %v, left: %v", x.deleting, x.left)
	}
	if x := effectsOf(append(events, object("hangs", event.Gone, ""), object("kept", event.Gone, ""))); len(x.deleting)+len(x.left) > 0 {
		t.Errorf("being deleted: %v, left: %v, although all objects are gone", x.deleting, x.left)
	}
}
