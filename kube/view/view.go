// Package view shows the groups of a release with the live status of their objects (View). It writes nothing to the
// cluster. Only package kube imports it.
package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/preflight"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// View publishes the live status of a release's groups and objects, as the events of an operation named watch that applies
// nothing. A group is failed if one of its objects is; ready, gone or waiting if all of them are; otherwise running. If the
// revision failed before it reached a group, that is skipped, not waiting. An object
// that the run did not wait for is never ready, and decides nothing; a group of such objects is applied (R22b). A group is
// also ready if only Jobs are gone that the cluster deletes after they have finished. An object is waiting if the operation
// that deploys the release has not reached it.
type View struct {
	client          *connect.Client
	name, namespace string
	which
	feed event.Feed
	mask *mask.Mask

	mu       sync.Mutex
	revision *revision
	groups   map[string]*group
	unseen   int           // objects of the revision that have not been observed yet
	seen     chan struct{} // closed when unseen is 0

	explainer explainer
}

// which says which revision to show.
type which struct {
	number int          // 0 for the latest
	newest atomic.Int64 // the latest one, if number is not 0
}

// revision is a revision of the release with its objects in groups. It is immutable.
type revision struct {
	rel      *rel1.Release
	builder  *manifest.Builder
	list     helmkube.ResourceList
	expiring map[plan.Object]bool    // the Jobs with ttlSecondsAfterFinished
	ran      map[string]event.Status // the groups that had started when the run of the revision ended, by ID
	phases   []event.Phase
	warnings []plan.Warning
}

// pollInterval is the time between reads of the release record, and between lookups of missing kinds.
const pollInterval = 2 * time.Second

// Prepare reads a revision of a release (0 for the latest) and puts its objects into the groups in which they were
// deployed. If they were deployed without an order, they form one group.
func Prepare(ctx context.Context, c *connect.Client, name, namespace string, number int) (*View, error) {
	v := &View{client: c, name: name, namespace: namespace, which: which{number: number}, feed: event.Feed{Bounded: true}, mask: &mask.Mask{}, explainer: newExplainer()}
	v.namespace = cmp.Or(v.namespace, c.Namespace())
	s, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	rel, exists, err := v.read(s)
	switch {
	case diagnose.LacksPermission(err):
		return nil, preflight.ExplainDenied(c, err)
	case err != nil:
		return nil, fmt.Errorf("read release %s in namespace %s: %w", name, v.namespace, err)
	case !exists:
		return nil, &release.NotFound{Name: name, Namespace: v.namespace, Revision: number}
	}
	r, err := newRevision(s, rel)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // the revision may be incomplete
		return nil, fmt.Errorf("read release %s in namespace %s: %w", name, v.namespace, context.Cause(ctx))
	}
	v.show(r)
	v.feed.Mask = v.mask.Event
	return v, nil
}

// read reads the revision to show, and all others, whose secret values may appear in the status of its objects. If one
// of the others cannot be read, it reads only that revision.
func (v *View) read(s *session.Session) (rel *rel1.Release, exists bool, err error) {
	all, found, err := release.Read(s.Releases(), v.name)
	switch {
	case v.number == 0 && found:
		return all.Last, true, nil
	case v.number == 0 || err == nil && !found:
		return nil, false, err
	case err != nil:
		return release.Get(s.Releases(), v.name, v.number)
	}
	v.newest.Store(int64(all.Last.Version))
	rel = all.Find(v.number)
	return rel, rel != nil, nil
}

// open opens a session whose requests end with ctx.
func (v *View) open(ctx context.Context) (*session.Session, error) {
	return session.Open(ctx, v.client, session.Common{Release: v.name, Namespace: v.namespace, Mask: v.mask})
}

// Refresh reads the records again, so that Mask also hides the values of revisions created since.
func (v *View) Refresh(ctx context.Context) error {
	s, err := v.open(ctx)
	if err == nil {
		_, _, err = v.read(s)
	}
	if err != nil {
		return fmt.Errorf("read release %s in namespace %s: %w", v.name, v.namespace, err)
	}
	return nil
}

// Feed returns the events of the view. Run closes the feed.
func (v *View) Feed() *event.Feed { return &v.feed }

// Mask hides the secret values of all revisions of the release. The feed applies it.
func (v *View) Mask() *mask.Mask { return v.mask }

// Values returns the user's values of the revision, unmasked.
func (v *View) Values() map[string]any { return v.current().rel.Config }

// Defaults returns the defaults of the revision's chart as comments.
func (v *View) Defaults() string { return charts.Defaults(v.current().rel.Chart) }

// Sequenced reports whether the revision was deployed in order.
func (v *View) Sequenced() bool { return release.TreeOf(v.current().rel) != nil }

// UnreadOrder says why nobody can tell in which order the revision was deployed, see release.UnreadOrder.
func (v *View) UnreadOrder() string { return release.UnreadOrder(v.current().rel) }

// Course returns how the run that deployed the revision went: the timings of its groups, and what was approved.
func (v *View) Course() release.Course { return release.CourseOf(v.current().rel) }

func (v *View) current() *revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}

// Seen returns a channel that is closed once every object has been observed.
func (v *View) Seen() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen
}

func newRevision(s *session.Session, rel *rel1.Release) (*revision, error) {
	b := s.Recorded(rel).Builder(rel.Chart.Name())
	list, warnings, err := b.BuildTarget(rel.Manifest)
	if err == nil {
		err = b.ResolveStored(list...)
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of revision %d: %w", rel.Version, err)
	}
	list, more := b.Expand(s.Context, list)
	warnings = append(warnings, more...)
	order := helmclient.Ordering{Root: rel.Chart.Name()}
	planned, _, err := order.PlanApply(release.TreeOf(rel), b.Resources(list), nil)
	if err != nil {
		warnings = append(warnings, plan.Warning{Rule: "R28", Message: fmt.Sprintf("the order of revision %d cannot be rebuilt, so all its objects are shown as one group: %v", rel.Version, err)})
		if planned, _, err = order.PlanApply(nil, b.Resources(list), nil); err != nil {
			return nil, fmt.Errorf("order revision %d: %w", rel.Version, err)
		}
	}
	if why := release.UnreadOrder(rel); why != "" {
		warnings = append(warnings, plan.Warning{Rule: "R28", Message: fmt.Sprintf("the order of revision %d cannot be read: %s; its objects are shown without it", rel.Version, why)})
	}
	if err := b.Infer(release.TreeOf(rel), list); err != nil {
		return nil, fmt.Errorf("read the readiness annotations of revision %d: %w", rel.Version, err)
	}
	expiring := map[plan.Object]bool{}
	for _, i := range list {
		if f := b.Fact(i); f != nil && cluster.Expires(i) {
			expiring[f.Resource.Object] = true
		}
	}
	r := &revision{rel, b, list, expiring, map[string]event.Status{}, helmclient.Phases(planned), warnings}
	for _, t := range release.CourseOf(rel).Groups {
		for _, p := range r.phases {
			if p.Name == t.Phase {
				r.ran[t.Group] = t.Status
			}
		}
	}
	return r, nil
}

// Explain diagnoses every object that is not ready, notes the ready ones with old pods, and returns when the findings are published,
// or when ctx is done. Call it while Run runs, after Seen.
func (v *View) Explain(ctx context.Context) {
	v.noteOldPods(ctx)
	v.explainer.diagnoseAll(ctx)
}

// show switches to a revision. Earlier observations of its objects count until there are new ones.
func (v *View) show(r *revision) {
	v.mask.AddNames(v.name, v.namespace)
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.groups
	v.revision, v.groups, v.unseen, v.seen = r, map[string]*group{}, 0, make(chan struct{})
	v.mask.AddPlan(r.phases)
	for g := range event.Groups(r.phases) {
		v.groups[g.ID] = newGroup(g.Group, r.mayBeGone(), before[g.ID])
		v.groups[g.ID].unapplied = r.rel.Info.Status == rcommon.StatusFailed && r.ran[g.ID] == ""
		v.unseen += len(g.Objects)
	}
	if v.unseen == 0 {
		close(v.seen)
	}
}

// Run publishes events until ctx is done. A view of the latest revision switches to newer ones, and also ends when the
// release has no revisions any more.
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
		before := v.current()
		v.show(r)
		v.announce()
		v.publishRemoved(before)
	}
}

// publishRemoved publishes Gone for each object that the previous revision had and the current one does not, if its group
// still exists.
func (v *View) publishRemoved(before *revision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for old, o := range event.Objects(before.phases) {
		g := v.groups[old.ID]
		if g == nil {
			continue
		}
		if _, planned := g.fresh[o]; !planned {
			delete(g.last, o)
			v.feed.Publish(event.Event{Kind: event.KindObject, Phase: old.Phase.Name, Group: old.ID, Object: &o,
				Status: event.Gone, Message: fmt.Sprintf("not in revision %d", v.revision.rel.Version)})
		}
	}
}

// follow watches one revision. It returns the release when its revision or status has changed, or nil if there are no
// revisions any more or ctx is done.
func (v *View) follow(ctx context.Context, s *session.Session) (*rel1.Release, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	notice := func(w plan.Warning) { v.feed.Publish(event.WarningEvent(w)) }
	watches, err := cluster.NewWatches(ctx, s.Client, cluster.WatchOptions{Owners: true})
	if err != nil {
		return nil, err
	}
	defer watches.Close()
	runWatcher, stopWatching, err := watches.Open(ctx, s.Client, notice)
	if err != nil {
		return nil, err
	}
	defer stopWatching()
	runWatcher.Shared = false
	r := v.current()
	// An apply target also reports signs of trouble. Its Watch writes nothing.
	session := cluster.Session{Client: s.Client, Builder: r.builder, RunWatcher: runWatcher, Warn: notice}
	target := cluster.NewObservation(session, r.list).Target
	late := target.Late()
	for g := range event.Groups(r.phases) {
		target.Watch(ctx, g.Group, func(ob run.Observation) { v.observe(g.Unit(), ob) })
	}
	for g, o := range event.Objects(r.phases) {
		if slices.Contains(late, o) { // its kind does not exist yet
			v.observe(g.Unit(), run.Observation{Object: o, Status: event.Gone})
		}
	}
	var background sync.WaitGroup
	diagnoser := diagnose.New(s.Client.Clientset, s.Client.Dynamic, s.Client.Getter).WithMask(v.mask).WithRules(runWatcher.Watcher.RuleOf)
	diagnose := func(ctx context.Context, o plan.Object) run.Finding { return diagnoser.Object(ctx, o).Finding }
	background.Go(func() { v.explainer.run(ctx, diagnose, v.explain) })
	if len(late) > 0 {
		background.Go(func() { resolveLate(ctx, target) })
	}
	defer func() { cancel(); background.Wait() }()
	if v.number > 0 {
		<-ctx.Done()
		return nil, nil
	}
	return v.await(ctx, s, r)
}

// resolveLate looks up missing kinds until the cluster has all of them, or ctx is done.
func resolveLate(ctx context.Context, target *cluster.Target) {
	for missing := true; missing; missing = target.ResolveLate() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollInterval):
		}
	}
}

// announce publishes the operation, the warnings and the plan of the current revision.
func (v *View) announce() {
	r := v.current()
	info := event.Operation{Name: "watch", Release: v.name, Namespace: v.namespace, Context: v.client.ContextName(), Revision: r.rel.Version}
	if newest := int(v.newest.Load()); newest > r.rel.Version {
		info.Newest = newest
	}
	if r.rel.Chart.Metadata != nil {
		info.Chart = r.rel.Chart.Name() + "-" + r.rel.Chart.Metadata.Version
	}
	v.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &info, Message: r.rel.Info.Status.String()})
	for _, w := range r.warnings {
		v.feed.Publish(event.WarningEvent(w))
	}
	v.feed.Publish(event.Event{Kind: event.KindPlan, Phases: r.phases})
}

// await returns the release when its revision or status has changed, or nil if it has no revisions any more or ctx is done.
func (v *View) await(ctx context.Context, s *session.Session, r *revision) (*rel1.Release, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(pollInterval):
		}
		rel, exists, err := release.Last(s.Releases(), v.name)
		switch {
		case err != nil: // the watches report outages
		case !exists:
			exit := 0
			v.feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Succeeded, Message: "the release was uninstalled", Exit: &exit})
			return nil, nil
		case rel.Version != r.rel.Version || rel.Info.Status != r.rel.Info.Status:
			return rel, nil
		}
	}
}
