package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// kindInterval is how often the run asks for a kind that the cluster does not serve.
const kindInterval = 2 * time.Second

// WatchOutside reports the objects from outside the release for which a group waits, until ctx is done. It only reads.
func (s Session) WatchOutside(ctx context.Context, g *plan.Group, report func(run.Observation)) {
	report = withStatusSigns(report)
	for _, o := range g.WaitFor {
		s.RunWatcher.Watcher.Go(ctx, func(untilClosed context.Context) {
			if target, served := s.awaitKind(untilClosed, o, report); served {
				s.RunWatcher.Watcher.Watch(ctx, []status.Target{target}, report)
			}
		})
	}
}

// awaitKind waits until the cluster serves the kind of an object. It reports why it waits.
func (s Session) awaitKind(ctx context.Context, o plan.Object, report func(run.Observation)) (target status.Target, served bool) {
	for {
		target, err := s.Builder.WatchTarget(o)
		if err == nil {
			return target, true
		}
		message := err.Error()
		if meta.IsNoMatchError(err) {
			message = status.NoKind(schema.GroupKind{Group: o.Group, Kind: o.Kind})
		}
		report(run.Observation{Object: o, Status: event.InProgress, Message: status.CleanText(message)})
		select {
		case <-ctx.Done():
			return target, false
		case <-time.After(kindInterval):
		}
	}
}
