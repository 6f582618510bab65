package runs

import (
	"context"
	"errors"
	"sync"

	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/cli/screen"
)

// lateInspector is an inspector that is prepared when it is first asked, and again until that succeeds: at the start of
// an install the release has no record yet.
type lateInspector struct {
	inspect.ChangeSource
	prepare func(context.Context) (inspect.Cluster, error)

	mu    sync.Mutex
	ready inspect.Cluster
}

func (l *lateInspector) cluster(ctx context.Context) inspect.Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready == nil {
		ready, err := l.prepare(ctx)
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			return screen.Disconnected{ChangeSource: l.ChangeSource, Why: "the run has not written the release yet"}
		case err != nil:
			return screen.Disconnected{ChangeSource: l.ChangeSource, Why: inspect.Unavailable("cannot read the release: " + err.Error())}
		}
		l.ready = ready
	}
	return l.ready
}

func (l *lateInspector) Events(ctx context.Context, o plan.Object) ([]event.ClusterEvent, error) {
	return l.cluster(ctx).Events(ctx, o)
}

func (l *lateInspector) Pods(ctx context.Context, o plan.Object) ([]inspect.Pod, error) {
	return l.cluster(ctx).Pods(ctx, o)
}

func (l *lateInspector) Logs(ctx context.Context, o plan.Object, emit func(inspect.LogLine)) error {
	return l.cluster(ctx).Logs(ctx, o, emit)
}

func (l *lateInspector) Live(ctx context.Context, o plan.Object) (string, error) {
	return l.cluster(ctx).Live(ctx, o)
}
