package helmclient

import (
	"context"

	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// sparer finds the objects whose apply would change nothing, so that it need not be
// sent. What it goes by is read after the group has started: what the groups before
// it have changed, it sees.
type sparer struct {
	live      *manifest.Live
	builder   *manifest.Builder
	rewritten func(*resource.Info) bool // the revision that is deployed has it otherwise
}

func newSparer(ctx context.Context, c *connect.Client, b *manifest.Builder, rewritten func(*resource.Info) bool) *sparer {
	return &sparer{live: manifest.NewLive(ctx, c), builder: b, rewritten: rewritten}
}

// spare reports whether an object of a group is proven to be as it is to be; it takes
// then the place of the answer to its apply. For what the chart has otherwise than
// the deployed revision nothing is listed.
func (s *sparer) spare(ctx context.Context, g *plan.Group, i *resource.Info) bool {
	f := s.builder.Fact(i)
	if f == nil || s.rewritten(i) || f.Late || f.Generated || f.Before().Version == "" || !manifest.Lasting(i) {
		return false
	}
	live := s.live.Object(ctx, g.ID, func() (n int) {
		for _, o := range g.Objects {
			if o.Kind == i.Mapping.GroupVersionKind.Kind && o.Namespace == i.Namespace {
				n++
			}
		}
		return n
	}, i)
	if live == nil || !s.live.Unchanged(i, live) {
		return false
	}
	f.Seen(live.GetResourceVersion())
	return i.Refresh(live, true) == nil
}
