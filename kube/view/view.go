// Package view looks at a release: its groups, with the live status of its
// objects. It writes nothing.
package view

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
)

// View is a look at a release: its groups, with the live status of its objects.
// It writes nothing. Its events are those of an operation named watch that
// applies nothing and has no end of its own: a group is ready when all its
// objects are, failed when one is, waiting where the operation has not come to
// it, running otherwise.
type View struct {
	client          *connect.Client
	name, namespace string
	number          int // of the revision, 0 for the latest
	feed            event.Feed
	mask            mask.Mask

	mu       sync.Mutex
	revision *revision
	groups   map[string]*viewGroup
	unseen   int
	seen     chan struct{} // closed when each object has been seen once

	why explainer
}

// revision is a revision of the release with its objects in order. It is not
// changed once it is made.
type revision struct {
	rel      *rel1.Release
	builder  *manifest.Builder
	list     helmkube.ResourceList
	phases   []event.Phase
	warnings []plan.Warning
}

// followEvery is how often the release's record is looked at for a new
// revision or another status.
const followEvery = 2 * time.Second

// Prepare reads a revision of a release, 0 for the latest, and orders its
// objects as they were deployed, all in one group where they were not deployed
// in order.
func Prepare(ctx context.Context, c *connect.Client, name, namespace string, number int) (*View, error) {
	v := &View{client: c, name: name, namespace: namespace, number: number, feed: event.Feed{Bounded: true}, why: newExplainer()}
	if v.namespace == "" {
		v.namespace = c.Namespace()
	}
	s, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	rel, there, err := release.Get(s.Releases(), name, number)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s in namespace %s: %w", name, v.namespace, err)
	case !there:
		return nil, fmt.Errorf("read %s in namespace %s: %w; list releases with lockstep list", name, v.namespace, driver.ErrReleaseNotFound)
	}
	r, err := newRevision(s, rel)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // what was asked since may be missing
		return nil, fmt.Errorf("read %s in namespace %s: %w", name, v.namespace, context.Cause(ctx))
	}
	v.begin(r)
	v.feed.Mask = v.mask.Event
	return v, nil
}

// open connects to the cluster. Requests end with ctx.
func (v *View) open(ctx context.Context) (*preflight.Session, error) {
	return preflight.Open(ctx, v.client, preflight.Common{Release: v.name, Namespace: v.namespace})
}

// Feed is the record of the view. It ends when Run returns.
func (v *View) Feed() *event.Feed { return &v.feed }

// Mask hides the secret values of the revisions that were looked at. All that the
// view tells has gone through it.
func (v *View) Mask() *mask.Mask { return &v.mask }

// Sequenced reports whether the revision was deployed in order.
func (v *View) Sequenced() bool { return release.TreeOf(v.shown().rel) != nil }

// Timings say how the groups fared in the run that made the revision, nil where
// that is not known.
func (v *View) Timings() []release.Timing { return release.TimingsOf(v.shown().rel) }

// shown is the revision that is looked at.
func (v *View) shown() *revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}

// Seen is closed when each object has been looked at once.
func (v *View) Seen() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen
}

// newRevision orders the objects of a revision.
func newRevision(s *preflight.Session, rel *rel1.Release) (*revision, error) {
	b := s.Builder(rel.Chart.Name())
	list, warnings, err := b.Build(rel.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of revision %d: %w", rel.Version, err)
	}
	list, more := b.Expand(s.Context, list)
	warnings = append(warnings, more...)
	order := helmclient.Ordering{Root: rel.Chart.Name()}
	planned, _, err := order.Apply(release.TreeOf(rel), b.Resources(list), nil)
	if err != nil {
		warnings = append(warnings, plan.Warning{Rule: "R28", Message: fmt.Sprintf("the order of revision %d cannot be rebuilt: %v", rel.Version, err)})
		if planned, _, err = order.Apply(nil, b.Resources(list), nil); err != nil {
			return nil, fmt.Errorf("order revision %d: %w", rel.Version, err)
		}
	}
	if err := b.Infer(release.TreeOf(rel), list); err != nil {
		return nil, fmt.Errorf("read the order of revision %d: %w", rel.Version, err)
	}
	return &revision{rel, b, list, helmclient.Phases(planned), warnings}, nil
}

// Explain looks into all that is not ready, once, and returns when what has been found
// is published; that may be nothing. It is called while Run runs, when all has been
// seen, and returns early where ctx ends.
func (v *View) Explain(ctx context.Context) { v.why.settle(ctx) }

// begin begins to look at a revision. What was seen of those that
// were there before stays until it is seen again.
func (v *View) begin(r *revision) {
	v.mask.Release(r.rel)
	v.mask.Public(v.name, v.namespace)
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.groups
	v.revision, v.groups, v.unseen, v.seen = r, map[string]*viewGroup{}, 0, make(chan struct{})
	for _, p := range r.phases {
		for _, g := range p.Groups {
			v.mask.Public(g.ID)
			for _, o := range g.Objects {
				v.mask.Public(o.String())
			}
			v.groups[g.ID] = newViewGroup(g, before[g.ID])
			v.unseen += len(g.Objects)
		}
	}
	if v.unseen == 0 {
		close(v.seen)
	}
}

// Run publishes what is seen until ctx ends, or until the release is gone. A
// view of the latest revision goes on with the next one when there is one.
func (v *View) Run(ctx context.Context) error {
	defer v.feed.Close()
	s, err := v.open(ctx)
	if err != nil {
		return err
	}
	v.announce()
	for {
		next, err := v.follow(ctx, s)
		if err != nil || next == nil {
			return err
		}
		r, err := newRevision(s, next)
		if err != nil {
			return err
		}
		before := v.shown()
		v.begin(r)
		v.announce()
		v.drop(before)
	}
}

// drop tells of the objects that a new revision has not, in the groups that it
// still has.
func (v *View) drop(before *revision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range before.phases {
		for _, old := range p.Groups {
			g := v.groups[old.ID]
			if g == nil {
				continue
			}
			for _, o := range old.Objects {
				if _, planned := g.fresh[o]; !planned {
					delete(g.last, o)
					v.feed.Publish(event.Event{Kind: event.KindObject, Phase: p.Name, Group: old.ID, Object: &o,
						Status: event.Gone, Message: fmt.Sprintf("not in revision %d", v.revision.rel.Version)})
				}
			}
		}
	}
}

// follow watches one revision. It returns the release once that has changed, nil
// at the end.
func (v *View) follow(ctx context.Context, s *preflight.Session) (*rel1.Release, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	notice := func(w plan.Warning) { v.feed.Publish(event.OfWarning(w)) }
	var none *cluster.Watches
	sight, unsee, err := none.See(ctx, s.Client, notice)
	if err != nil {
		return nil, err
	}
	defer unsee()
	r := v.shown()
	// A target that applies reads the absence of a Job that removes itself as
	// its end; nothing is sent.
	session := cluster.Session{Client: s.Client, Builder: r.builder, Sight: sight, Warn: notice}
	target := cluster.NewApply(session, r.list, func(*resource.Info) error { return nil }, nil)
	late := target.Late()
	for _, p := range r.phases {
		for _, g := range p.Groups {
			target.Watch(ctx, g, func(ob run.Observation) { v.observe(p.Name, g.ID, ob) })
			for _, o := range g.Objects {
				if slices.Contains(late, o) { // what has no kind is not there
					v.observe(p.Name, g.ID, run.Observation{Object: o, Status: event.Gone})
				}
			}
		}
	}
	var beside sync.WaitGroup
	beside.Go(func() { v.why.run(ctx, v.client.Diagnose, v.explain) })
	if len(late) > 0 {
		beside.Go(func() { placeLate(ctx, target) })
	}
	defer func() { cancel(); beside.Wait() }()
	if v.number > 0 {
		<-ctx.Done()
		return nil, nil
	}
	return v.await(ctx, s, r)
}

// placeLate looks for kinds that the cluster does not know until it knows all of
// them, or ctx ends.
func placeLate(ctx context.Context, target *cluster.Target) {
	for left := true; left; left = target.PlaceLate() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(followEvery):
		}
	}
}

// announce publishes what is looked at.
func (v *View) announce() {
	r := v.shown()
	info := event.Operation{Name: "watch", Release: v.name, Namespace: v.namespace, Context: v.client.ContextName(), Revision: r.rel.Version}
	if r.rel.Chart.Metadata != nil {
		info.Chart = r.rel.Chart.Name() + "-" + r.rel.Chart.Metadata.Version
	}
	v.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &info, Message: r.rel.Info.Status.String()})
	for _, w := range r.warnings {
		v.feed.Publish(event.OfWarning(w))
	}
	v.feed.Publish(event.Event{Kind: event.KindPlan, Phases: r.phases})
}

// await waits until the record of the release is another one.
func (v *View) await(ctx context.Context, s *preflight.Session, r *revision) (*rel1.Release, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(followEvery):
		}
		rel, there, err := release.Last(s.Releases(), v.name)
		switch {
		case err != nil: // the watches tell about an outage
		case !there:
			exit := 0
			v.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Message: "the release was uninstalled", Exit: &exit})
			return nil, nil
		case rel.Version != r.rel.Version || rel.Info.Status != r.rel.Info.Status:
			return rel, nil
		}
	}
}

// observe takes in what was seen of an object.
func (v *View) observe(phase, id string, ob run.Observation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.take(event.Unit{Phase: phase, Group: id}, ob)
}

// take is observe, with the lock held.
func (v *View) take(unit event.Unit, ob run.Observation) {
	g := v.groups[unit.Group]
	if g == nil {
		return
	}
	if ob.Sign {
		v.why.sign(unwell{unit, ob.Object})
	}
	if ob.Status == "" || ob.Status == event.Applying {
		return
	}
	if ob.Status == event.Gone {
		ob.Status, ob.Message = absent(v.revision.rel.Info.Status)
	}
	why := v.why.saw(unwell{unit, ob.Object}, ob.Status == event.InProgress || ob.Status == event.Failed)
	if why != "" && ob.Status == event.InProgress {
		ob.Status, ob.Message = event.Failed, why
	}
	was, known := g.see(ob)
	st, message := g.judge()
	tell := func(st event.Status, message string) {
		g.status, g.said = st, message
		v.feed.Publish(event.Event{Kind: event.KindGroup, Phase: unit.Phase, Group: unit.Group, Status: st, Message: message})
	}
	if st != event.Waiting && (g.status == "" || g.status == event.Waiting) { // so that it has a beginning
		tell(event.Running, "")
	}
	if !known || was.Status != ob.Status || was.Message != ob.Message {
		v.feed.Publish(event.Event{Kind: event.KindObject, Phase: unit.Phase, Group: unit.Group, Object: &ob.Object, Status: ob.Status, Message: ob.Message})
	}
	if st != g.status || message != g.said {
		tell(st, message)
	}
	if fresh, planned := g.fresh[ob.Object]; planned && !fresh {
		g.fresh[ob.Object] = true
		if v.unseen--; v.unseen == 0 {
			close(v.seen)
		}
	}
}

// explain tells why an object is not ready. One whose pods fail fails here: in an
// operation it is waited for until that gives up, but here nobody waits, and it would
// be in progress for ever.
func (v *View) explain(of unwell, found run.Finding) {
	v.feed.Publish(event.Event{Kind: event.KindDiagnosis, Phase: of.Phase, Group: of.Group, Object: &of.object,
		Message: found.Cause, Cause: found.Cause, Evidence: found.Evidence, Lines: found.Lines})
	v.mu.Lock()
	defer v.mu.Unlock()
	if g := v.groups[of.Group]; g != nil && g.last[of.object].Status == event.InProgress && found.Fails {
		v.take(of.Unit, run.Observation{Object: of.object, Status: event.InProgress})
	}
}

// absent is the status of an object that is not in the cluster, by that of its
// release.
func absent(release rcommon.Status) (event.Status, string) {
	switch {
	case release.IsPending():
		return event.Waiting, "not in the cluster yet"
	case release == rcommon.StatusFailed: // the operation may never have come to it
		return event.Waiting, "not in the cluster"
	case release == rcommon.StatusUninstalled, release == rcommon.StatusUninstalling:
		return event.Gone, ""
	}
	return event.Failed, "not in the cluster"
}
