package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// Info names the operation: what is done to which release, and where.
func (op *Operation) Info() event.Operation { return op.info }

// View is a look at a release: its groups, with the live status of its objects.
// It writes nothing. Its events are those of an operation named watch that
// applies nothing and has no end of its own: a group is ready when all its
// objects are, failed when one is, waiting where the operation has not come to
// it, running otherwise.
type View struct {
	client          *Client
	name, namespace string
	revision        int // 0 for the latest
	feed            event.Feed
	rel             *rel1.Release
	pass            *pass
	phases          []event.Phase
	target          *target
	warns           []plan.Warning

	mu     sync.Mutex
	groups map[string]*viewGroup
	unseen int
	seen   chan struct{} // closed when each object has been seen once
}

// viewGroup is a group with what was last seen of its objects, in an earlier
// revision, too; fresh are those that were seen in this one.
type viewGroup struct {
	*plan.Group
	last   map[plan.Object]run.Observation
	fresh  map[plan.Object]bool
	status event.Status
	said   string
}

// followEvery is how often the release's record is looked at for a new
// revision or another status.
const followEvery = 2 * time.Second

// PrepareView reads a revision of a release, 0 for the latest, and orders its
// objects as they were deployed, all in one group where they were not deployed
// in order.
func (c *Client) PrepareView(ctx context.Context, name, namespace string, revision int) (*View, error) {
	v := &View{client: c, name: name, namespace: namespace, revision: revision}
	if v.namespace == "" {
		v.namespace = c.Namespace()
	}
	p, err := c.planner(Common{Release: name, Namespace: v.namespace}, name)
	if err != nil {
		return nil, err
	}
	rel, err := v.read(p)
	if err != nil {
		return nil, fmt.Errorf("look at %s in namespace %s: %w; lockstep list shows which releases there are", name, v.namespace, err)
	}
	if err := v.plan(ctx, rel); err != nil {
		return nil, err
	}
	return v, nil
}

// Feed is the record of the view. It ends when Run returns.
func (v *View) Feed() *event.Feed { return &v.feed }

// Sequenced reports whether the revision was deployed in order.
func (v *View) Sequenced() bool { return treeOf(v.rel) != nil }

// Timings say how the groups fared in the run that made the revision, nil where
// that is not known. It is not to be called while Run goes on.
func (v *View) Timings() []Timing { return timingsOf(v.rel) }

// Seen is closed when each object has been looked at once.
func (v *View) Seen() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen
}

func (v *View) read(p *pass) (*rel1.Release, error) {
	if v.revision > 0 {
		x, err := p.cfg.Releases.Get(v.name, v.revision)
		if err != nil {
			return nil, err
		}
		return asV1(x)
	}
	x, err := p.cfg.Releases.Last(v.name)
	if err != nil {
		return nil, err
	}
	return asV1(x)
}

// plan orders the objects of a revision and makes them what is looked at.
func (v *View) plan(ctx context.Context, rel *rel1.Release) error {
	p, err := v.client.planner(Common{Release: v.name, Namespace: v.namespace}, rel.Chart.Name())
	if err != nil {
		return err
	}
	list, warns, err := p.ord.builder.build(rel.Manifest)
	if err != nil {
		return fmt.Errorf("read the manifest of revision %d: %w", rel.Version, err)
	}
	list = p.ord.expand(ctx, list)
	phases, err := p.ord.applyPhase(treeOf(rel), list)
	if err != nil {
		warns = append(warns, plan.Warning{Rule: "R28", Message: fmt.Sprintf("the order of revision %d cannot be rebuilt: %v", rel.Version, err)})
		if phases, err = p.ord.applyPhase(nil, list); err != nil {
			return fmt.Errorf("order revision %d: %w", rel.Version, err)
		}
	}
	v.rel, v.pass, v.phases, v.warns = rel, p, phases, append(warns, p.ord.warned()...)
	// A target that applies reads the absence of a Job that removes itself as
	// its end; nothing is sent.
	v.target = newTarget(p.ord, list, func(*resource.Info) error { return nil }, nil)
	v.reset()
	return nil
}

// reset begins to look at the groups of a plan. What was seen of those that
// were there before stays until it is seen again.
func (v *View) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.groups
	v.groups, v.unseen, v.seen = map[string]*viewGroup{}, 0, make(chan struct{})
	for _, p := range v.phases {
		for _, g := range p.Groups {
			now := &viewGroup{Group: g, last: map[plan.Object]run.Observation{}, fresh: map[plan.Object]bool{}}
			if old := before[g.ID]; old != nil {
				now.last, now.status, now.said = old.last, old.status, old.said
			}
			v.groups[g.ID] = now
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
	v.open()
	for {
		next, err := v.look(ctx)
		if err != nil || next == nil {
			return err
		}
		before := v.phases
		if err := v.plan(ctx, next); err != nil {
			return err
		}
		v.open()
		v.drop(before)
	}
}

// drop tells of the objects that a new revision has not, in the groups that it
// still has.
func (v *View) drop(before []event.Phase) {
	for _, p := range before {
		for _, old := range p.Groups {
			g := v.groups[old.ID]
			for _, o := range old.Objects {
				if g != nil && !slices.Contains(g.Objects, o) {
					delete(g.last, o)
					v.feed.Publish(event.Event{Kind: event.KindObject, Phase: p.Name, Group: old.ID, Object: &o,
						Status: event.Gone, Message: fmt.Sprintf("not in revision %d", v.rel.Version)})
				}
			}
		}
	}
}

// look watches one revision. It returns the release once that has changed, nil
// at the end.
func (v *View) look(ctx context.Context) (*rel1.Release, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher := status.NewWatcher(ctx, v.client.dynamic, status.Options{Notice: func(w plan.Warning) { v.feed.Publish(warningEvent(w)) }})
	defer watcher.Close()
	v.pass.ord.watcher = watcher
	for _, p := range v.phases {
		for _, g := range p.Groups {
			v.target.Watch(ctx, g, func(ob run.Observation) { v.take(p.Name, g.ID, ob) })
		}
	}
	var explaining sync.WaitGroup
	explaining.Go(func() { v.explain(ctx) })
	defer func() { cancel(); explaining.Wait() }()
	if v.revision > 0 {
		<-ctx.Done()
		return nil, nil
	}
	return v.await(ctx)
}

// explainEvery is how often it is looked up why objects are not ready.
const explainEvery = 5 * time.Second

// explain tells why objects are not ready, at most a few at a time, until ctx
// ends.
func (v *View) explain(ctx context.Context) {
	told := map[plan.Object]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(explainEvery):
		}
		for _, e := range v.unwell(3) {
			summary, lines := v.client.diagnose(ctx, *e.Object)
			if ctx.Err() == nil && summary != "" && summary != told[*e.Object] {
				told[*e.Object] = summary
				e.Kind, e.Message, e.Lines = event.KindDiagnosis, summary, lines
				v.feed.Publish(e)
			}
		}
	}
}

// unwell are the first objects that were seen not to be ready.
func (v *View) unwell(most int) (out []event.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if st := v.groups[g.ID].last[o].Status; (st == event.InProgress || st == event.Failed) && len(out) < most {
					out = append(out, event.Event{Phase: p.Name, Group: g.ID, Object: &o})
				}
			}
		}
	}
	return out
}

// open publishes what is looked at.
func (v *View) open() {
	info := event.Operation{Name: "watch", Release: v.name, Namespace: v.namespace, Context: v.client.ContextName(), Revision: v.rel.Version}
	if v.rel.Chart.Metadata != nil {
		info.Chart = v.rel.Chart.Name() + "-" + v.rel.Chart.Metadata.Version
	}
	v.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &info, Message: v.rel.Info.Status.String()})
	for _, w := range v.warns {
		v.feed.Publish(warningEvent(w))
	}
	v.feed.Publish(event.Event{Kind: event.KindPlan, Phases: v.phases})
}

// await waits until the record of the release is another one.
func (v *View) await(ctx context.Context) (*rel1.Release, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(followEvery):
		}
		rel, err := v.read(v.pass)
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			exit := 0
			v.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Message: "the release has been uninstalled", Exit: &exit})
			return nil, nil
		case err != nil: // the watches tell about an outage
		case rel.Version != v.rel.Version || rel.Info.Status != v.rel.Info.Status:
			return rel, nil
		}
	}
}

// take takes in what was seen of an object.
func (v *View) take(phase, id string, ob run.Observation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	g := v.groups[id]
	if g == nil {
		return
	}
	if ob.Status == event.Gone {
		ob.Status, ob.Message = absent(v.rel.Info.Status)
	}
	was, known := g.last[ob.Object]
	g.last[ob.Object] = ob
	st, message := g.judge()
	tell := func(st event.Status, message string) {
		g.status, g.said = st, message
		v.feed.Publish(event.Event{Kind: event.KindGroup, Phase: phase, Group: id, Status: st, Message: message})
	}
	if st != event.Waiting && (g.status == "" || g.status == event.Waiting) { // so that it has a beginning
		tell(event.Running, "")
	}
	if !known || was.Status != ob.Status || was.Message != ob.Message {
		v.feed.Publish(event.Event{Kind: event.KindObject, Phase: phase, Group: id, Object: &ob.Object, Status: ob.Status, Message: ob.Message})
	}
	if st != g.status || message != g.said {
		tell(st, message)
	}
	if !g.fresh[ob.Object] && slices.Contains(g.Objects, ob.Object) {
		g.fresh[ob.Object] = true
		if v.unseen--; v.unseen == 0 {
			close(v.seen)
		}
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

// judge derives the status of a group from its objects.
func (g *viewGroup) judge() (event.Status, string) {
	ready, gone, waiting := 0, 0, 0
	for _, o := range g.Objects {
		switch ob := g.last[o]; ob.Status {
		case event.Failed:
			return event.Failed, o.String() + ": " + ob.Message
		case event.Ready:
			ready++
		case event.Gone:
			gone++
		case event.Waiting:
			waiting++
		}
	}
	switch len(g.Objects) {
	case ready:
		return event.Ready, ""
	case gone:
		return event.Gone, ""
	case waiting:
		return event.Waiting, ""
	}
	return event.Running, ""
}
