package overview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/parallel"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/readiness"
	"lockstep/kube/release"
	"lockstep/kube/status"
)

// stuckAfter is how long a workload of a deployed release is not ready before it counts as one that waiting will not help.
const stuckAfter = 2 * time.Minute

// Health is the state of a release's objects.
type Health struct {
	// Known is set once all objects have been seen. Ready of Of are ready; of those that are not, Failed will not become ready
	// by waiting.
	Known             bool
	Ready, Of, Failed int
	// Since is when the object in Cause became as it is, zero if that is unknown.
	Since time.Time
	// Cause says what is not ready and why, the worst object first; "" if all are ready.
	Cause string
}

// details are what the content of a record says, and the state of its objects.
type details struct {
	Details
	objects  []plan.Object
	seen     map[plan.Object]run.Observation
	unready  map[plan.Object]time.Time // when an object was first seen as not ready
	mayEnd   map[plan.Object]bool      // Jobs that the cluster deletes after they have finished
	unread   string                    // why the objects are unknown, "" if they are not
	mask     mask.Mask                 // hides the secret values of the revision in causes
	unwatch  context.CancelFunc
	replaced bool // there is a newer revision
	explained
}

// followObjects reads the wanted records and watches their objects until ctx is done.
func (o *Overview) followObjects(ctx context.Context, c *connect.Client) {
	defer o.pods.wait()
	o.startPods(ctx, c)
	hub := status.NewHub(ctx, c.Dynamic, status.Options{Metadata: c.Metadata, AllNamespaces: o.namespace == "", Span: watchSeconds * time.Second, Log: c.Log()})
	defer hub.Close()
	watcher := hub.Watcher(ctx, nil)
	defer watcher.Close()
	o.pods.running.Go(func() { o.explain(ctx, c, watcher.RuleOf) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-o.wants:
		}
		_ = parallel.Sleep(ctx, showDelay) // the view may still scroll
		for missing := o.missing(); len(missing) > 0 && ctx.Err() == nil; missing = o.missing() {
			found, err := o.read(ctx, c, missing)
			if err != nil {
				break // the releases are listed again when the API server is back
			}
			for _, r := range missing {
				o.watchObjects(ctx, c, watcher, r, found[r.key()])
			}
			signal(o.changed)
		}
	}
}

// watchObjects watches the objects of a revision, and no longer those of an older one. rel is nil if the record is damaged.
func (o *Overview) watchObjects(ctx context.Context, c *connect.Client, watcher *status.Watcher, r record, rel *rel1.Release) {
	ctx, cancel := context.WithCancel(ctx)
	d := &details{seen: map[plan.Object]run.Observation{}, unready: map[plan.Object]time.Time{}, mayEnd: map[plan.Object]bool{}, unwatch: cancel}
	var targets []status.Target
	if rel == nil {
		d.unread = "the record cannot be read"
	} else {
		d.describe(rel)
		release.Hide(&d.mask, rel)
		var err error
		if targets, err = d.targets(c, r, rel); err != nil {
			d.unread = err.Error()
		}
	}
	for _, t := range targets {
		d.objects = append(d.objects, t.Object)
	}
	o.mu.Lock()
	for key, old := range o.details {
		if key.Key == r.Key && !old.replaced {
			old.replaced = true
			old.unwatch()
		}
	}
	o.details[r.key()] = d
	o.mu.Unlock()
	watcher.Watch(ctx, targets, func(ob run.Observation) { o.observe(d, ob) })
}

// describe fills in the details from the record.
func (d *details) describe(rel *rel1.Release) {
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		d.Chart, d.Version = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version
	}
	d.By = release.AuthorOf(rel).Name
}

// targets returns the objects of a record to watch: those that a run would wait for. Of an uninstalled release there are none.
func (d *details) targets(c *connect.Client, r record, rel *rel1.Release) (targets []status.Target, err error) {
	if rel.Info == nil || rel.Info.Status == rcommon.StatusUninstalled {
		return nil, nil
	}
	operator, err := readiness.New(release.ReadinessOf(rel))
	if err != nil {
		operator = nil // a newer version wrote the record
	}
	helm, err := c.Helm(r.Namespace)
	if err != nil {
		return nil, err
	}
	b := manifest.NewBuilder(c, helm, nil, manifest.Scope{Release: r.Name, Namespace: r.Namespace, Root: d.Chart, Readiness: operator})
	list, _, err := b.BuildTarget(rel.Manifest)
	if err == nil {
		err = b.Infer(release.TreeOf(rel), list)
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || f.Generated || f.Late || f.Resource.Wait.Never {
			continue
		}
		d.mayEnd[f.Resource.Object] = cluster.Expires(i)
		targets = append(targets, status.Target{Object: f.Resource.Object, GVR: i.Mapping.Resource, Namespaced: i.Namespaced(), Rule: f.Rule, Labelled: !f.Unlabelled})
	}
	return targets, nil
}

// observe takes an observation of an object.
func (o *Overview) observe(d *details, ob run.Observation) {
	if ob.Status == "" || ob.Status == event.Applying {
		return
	}
	o.mu.Lock()
	d.seen[ob.Object] = ob
	switch {
	case ob.Status == event.Ready:
		delete(d.unready, ob.Object)
	case d.unready[ob.Object].IsZero():
		d.unready[ob.Object] = time.Now()
	}
	needPods := (ob.Status == event.InProgress || ob.Status == event.Failed || ob.ReadyBy == event.ByStart) && ob.Object.Namespace != ""
	o.mu.Unlock()
	if needPods {
		o.pods.need(ob.Object.Namespace)
	}
	signal(o.changed)
}

// isWorkload reports whether an object keeps pods running.
func isWorkload(o plan.Object) bool {
	return o.Group == "apps" && (o.Kind == "Deployment" || o.Kind == "StatefulSet" || o.Kind == "DaemonSet")
}

// problem is an object that is not ready.
type problem struct {
	sight
	failed bool // waiting will not help
	since  time.Time
}

// sight is an object that is not ready, and why as far as the watches tell.
type sight struct {
	object plan.Object
	cause  string
}

// problems returns the objects that are not ready, the worst first, and how many are. The caller holds the lock.
func (d *details) problems(status string, pods *podCauses, now time.Time) (problems []problem, ready int) {
	for _, object := range d.objects {
		ob := d.seen[object]
		if ob.Status == "" {
			continue
		}
		cause, failed, unready := pods.cause(object)
		switch {
		case ob.Status == event.Ready && (ob.ReadyBy != event.ByStart || !failed), // a Job that nothing waits for may never start
			ob.Status == event.Gone && d.mayEnd[object]:
			ready++
			continue
		}
		since := cmp.Or(ob.Since, unready)
		failed = failed || ob.Status == event.Failed ||
			status == rcommon.StatusDeployed.String() && isWorkload(object) && now.Sub(cmp.Or(since, d.unready[object])) > stuckAfter
		deployed := status == rcommon.StatusDeployed.String() // else it may not have been created, or an operation deletes it
		switch {
		case ob.Status == event.Gone:
			ob.Message, failed = "not in the cluster", deployed
		case ob.Status == event.Deleting && deployed:
			ob.Message, failed = phrase.BeingDeleted(ob.Message), true
		}
		problems = append(problems, problem{sight{object, cmp.Or(cause, ob.Message)}, failed, since})
	}
	slices.SortStableFunc(problems, func(a, b problem) int {
		switch {
		case a.failed == b.failed:
			return 0
		case a.failed:
			return -1
		}
		return 1
	})
	return problems, ready
}

// health summarises the objects of a revision with a status at the time now. pods say why workloads are not ready. The caller holds
// the lock.
func (d *details) health(status string, pods *podCauses, now time.Time) Health {
	if d.unread != "" {
		return Health{Cause: d.unread}
	}
	problems, ready := d.problems(status, pods, now)
	h := Health{Known: len(d.seen) == len(d.objects), Ready: ready, Of: len(d.objects)}
	for _, p := range problems {
		if p.failed {
			h.Failed++
		}
	}
	if len(problems) == 0 {
		return h
	}
	p := problems[0]
	h.Since = p.since
	if d.explained.of == p.sight {
		p.cause = cmp.Or(d.explained.cause, p.cause)
	}
	h.Cause = d.mask.Text(p.object.Kind + "/" + p.object.Name + ": " + p.cause)
	if more := len(problems) - 1; more > 0 {
		h.Cause += " (and " + text.Count(more, "more object") + ")"
	}
	return h
}
