package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/manifest"
	"lockstep/kube/status"
)

// Watch observes the objects of a group.
func (t *Target) Watch(ctx context.Context, g *plan.Group, report func(run.Observation)) {
	var targets []status.Target
	report = withStatusSigns(report)
	for _, obj := range g.Objects {
		i := t.infos[obj]
		if i == nil {
			continue
		}
		if t.send != nil && troubleKinds[obj.Kind] && obj.Namespace != "" {
			t.session.RunWatcher.Signs.listen(owner{obj.Namespace, obj.Kind, obj.Name}, listener{
				onTrouble: func() { report(run.Observation{Object: obj, Trouble: true}) },
				onPods: func(p run.Pods) {
					if !status.IsBuiltIn(obj.Group) { // its kind decides which of its pods must be ready
						p.Unready = 0
					}
					report(run.Observation{Object: obj, Pods: &p})
				},
			})
		}
		t.mu.Lock()
		t.reports[obj] = report
		t.mu.Unlock()
		f := t.session.Builder.Fact(i)
		rule := f.Rule
		rule.JobsComplete = g.JobsComplete
		rule.FirstStatus = t.send != nil && !f.Late && t.session.Builder.HasStatus(i.Mapping)
		mayLackLabel := f.Seen().Version != "" && f.Seen().Owner == ""
		target := status.Target{
			Object: obj, GVR: i.Mapping.Resource, Namespaced: i.Namespaced(), Rule: rule, Labelled: !f.Rule.Hook && !f.Unlabelled && !mayLackLabel,
		}
		if t.send != nil {
			target.Judge = t.judge(i, f)
		}
		if t.send == nil { // an apply returns the version in its Response
			target.Existed = status.ParseVersion(f.Before().Version)
		}
		if f.Generated || f.Late {
			t.watchLater(ctx, i, f, target, report)
			continue
		}
		targets = append(targets, target)
		if target.Labelled && t.send != nil {
			named := target
			named.Labelled = false
			t.mu.Lock()
			t.labelled[obj] = &labelled{watchByName: func() {
				t.session.RunWatcher.Watcher.Watch(ctx, []status.Target{named}, func(ob run.Observation) { t.report(ctx, ob, report) })
			}}
			t.mu.Unlock()
		}
	}
	t.session.RunWatcher.Watcher.Watch(ctx, targets, func(ob run.Observation) {
		if t.isLabelled(ob) {
			t.report(ctx, ob, report)
		}
	})
}

// judge returns Target.Judge of an object that is applied.
func (t *Target) judge(i *resource.Info, f *manifest.Fact) func(*unstructured.Unstructured, *run.Observation) {
	drift := func(*unstructured.Unstructured) []event.Drift { return nil }
	if t.observes {
		drift = driftOf(i, f, t.session.Builder.Scope())
	}
	return func(live *unstructured.Unstructured, ob *run.Observation) {
		if ob.Drift = drift(live); t.session.Applied.Replaced(t.session.Builder.Scope(), f.Resource.Object, live) {
			*ob = run.Observation{Status: event.Gone, Version: ob.Version, Message: "deleted and created again by somebody else"}
		}
	}
}

// labelled is an object that is watched together with the others that have Helm's label.
type labelled struct {
	seen bool
	// watchByName starts to watch it by its name instead, nil once that was started.
	watchByName func()
}

// isLabelled reports whether an observation by the watch of labelled objects counts. An object that is gone from that watch
// may have lost its label, or never had it: then it is watched by its name.
func (t *Target) isLabelled(ob run.Observation) bool {
	t.mu.Lock()
	l := t.labelled[ob.Object]
	if l == nil {
		t.mu.Unlock()
		return true
	}
	gone, counts := ob.Status == event.Gone, l.watchByName != nil
	doubtful := gone && (t.observes || l.seen)
	l.seen = l.seen || !gone
	t.mu.Unlock()
	if doubtful {
		t.lostLabel(ob.Object)
	}
	return counts && !doubtful
}

// lostLabel watches an object by its name from now on, because the API server has stored it without Helm's label: an admission
// policy or an operator sets its own.
func (t *Target) lostLabel(obj plan.Object) {
	t.mu.Lock()
	l := t.labelled[obj]
	var watch func()
	if l != nil {
		watch, l.watchByName = l.watchByName, nil
	}
	t.mu.Unlock()
	if watch != nil {
		watch()
	}
}

// watchLater watches an object as soon as its name, resource and scope are known. It reports the object under its name in
// the plan.
func (t *Target) watchLater(ctx context.Context, i *resource.Info, f *manifest.Fact, target status.Target, report func(run.Observation)) {
	planned := target.Object
	watch := func(i *resource.Info) func() {
		ctx, cancel := context.WithCancel(ctx)
		known := target
		known.Object.Name, known.Object.Namespace = i.Name, i.Namespace
		known.GVR, known.Namespaced = i.Mapping.Resource, i.Namespaced()
		known.Rule.FirstStatus = t.send != nil && t.session.Builder.HasStatus(i.Mapping)
		t.session.RunWatcher.Watcher.Watch(ctx, []status.Target{known}, func(ob run.Observation) {
			ob.Object = planned
			t.report(ctx, ob, report)
		})
		return cancel
	}
	if i.Name != "" && !f.Late {
		watch(i)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deferred[planned] = &deferredWatch{watch: watch}
}

// startDeferred starts the deferred watch of an object, if it has one that is not running. i has the object's name, resource
// and scope.
func (t *Target) startDeferred(obj plan.Object, i *resource.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.deferred[obj]; d != nil && d.stop == nil {
		d.stop = d.watch(i)
	}
}

// stopDeferred stops watching the object that an earlier attempt created.
func (t *Target) stopDeferred(obj plan.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.deferred[obj]; d != nil && d.stop != nil {
		d.stop()
		d.stop = nil
	}
}

// Late returns the objects of kinds that the cluster does not serve yet. They are not watched.
func (t *Target) Late() (objects []plan.Object) {
	for obj, i := range t.infos {
		if t.session.Builder.Fact(i).Late {
			objects = append(objects, obj)
		}
	}
	return objects
}

// ResolveLate looks up the kinds of late objects again, and starts to watch the objects whose kind is served now (R29). It is
// for callers that apply nothing. It reports whether late objects remain.
func (t *Target) ResolveLate() (remain bool) {
	for _, obj := range t.Late() {
		i := t.infos[obj]
		f := t.session.Builder.Fact(i)
		if f.Late = t.session.Builder.Resolve(i) != nil; f.Late {
			_ = t.session.Builder.ResolveStored(i) // on an error it stays late
		}
		if remain = remain || f.Late; !f.Late {
			t.startDeferred(obj, i)
		}
	}
	return remain
}
