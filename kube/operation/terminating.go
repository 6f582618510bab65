package operation

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/helmclient"
)

// warnOfTerminating warns about removed objects that are still being deleted at the end of
// an operation that does not wait for them (R30).
func (a *attempt) warnOfTerminating() {
	if a.spec.uninstalling {
		return
	}
	ctx, cancel := a.finalContext()
	defer cancel()
	for _, o := range notYetGone(a.op.feed.Events()) {
		why, still := a.op.client.Diagnoser().Terminating(ctx, o)
		if !still {
			continue
		}
		a.engine.Publish(event.WarningEvent(plan.Warning{Rule: "R30", Object: &o, Message: fmt.Sprintf(
			"%s is still being deleted; not waiting for it: %s", o, why)}))
	}
}

// notYetGone returns the deleted objects that still existed at their last event, in the
// order of deletion.
func notYetGone(events []event.Event) (objects []plan.Object) {
	going := map[plan.Object]bool{}
	for _, e := range events {
		if e.Kind != event.KindObject || e.Object == nil || !strings.HasPrefix(strings.TrimPrefix(e.Phase, event.RollbackPrefix), helmclient.PhaseRemove) {
			continue
		}
		if _, known := going[*e.Object]; !known && e.Status == event.Deleting {
			objects = append(objects, *e.Object)
		}
		going[*e.Object] = e.Status == event.Deleting
	}
	return slices.DeleteFunc(objects, func(o plan.Object) bool { return !going[o] })
}
