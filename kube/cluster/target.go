// Package cluster does the requests of a run: it applies, deletes and watches
// objects for the engine, and tells what the API server's refusals mean.
package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/status"
)

// Session is what all targets of an operation share.
type Session struct {
	Client     *connect.Client
	Builder    *manifest.Builder
	RunWatcher RunWatcher
	// JobsComplete makes Jobs ready only once they have completed
	// (--wait-for-jobs).
	JobsComplete bool
	// Resumes means that the last run did not come to its end, and this one goes
	// on from there.
	Resumes bool
	// Warn is told of what is not as it should be, once for each message. It
	// may be called from any goroutine.
	Warn func(plan.Warning)
}

// Target is a list of objects as a stage of the engine works on it: it is the
// run.Cluster of either an apply or a removal.
type Target struct {
	s     Session
	infos map[plan.Object]*resource.Info
	send  func(*resource.Info) error // nil for a removal
	gone  Removal
	// hooks are those in the plan, by their objects; expiring are the Jobs
	// that remove themselves.
	hooks    map[plan.Object]Hook
	expiring map[plan.Object]*expiringJob

	mu       sync.Mutex
	attempts map[plan.Object]int
	reports  map[plan.Object]func(run.Observation)
	unplaced map[plan.Object]*unplaced
}

var _ run.Cluster = (*Target)(nil)

// Hook is a hook in the plan.
type Hook interface {
	// Clear deletes the object of a previous run of the hook, before it is applied.
	Clear(ctx context.Context, i *resource.Info) error
	// SetStatus records the status of the hook's object, each time it changes.
	SetStatus(event.Status)
}

// unplaced is an object that can be watched only once it is known where it is:
// under which name, where the API server makes that up, and under which plural
// and in which scope, where the cluster learns its kind on the way (R29).
type unplaced struct {
	watch func(*resource.Info) (end func())
	end   func() // of the watch that has been begun, nil for none
}

// Removal says how objects are deleted.
type Removal struct {
	Policy metav1.DeletionPropagation
	// Keep leaves objects alone whose live annotation says so; Helm has sorted
	// those out before an uninstall, not before an upgrade's removals.
	Keep bool
	// Owned leaves objects alone that do not say that they are the release's.
	Owned bool
}

// NewApply returns a target that brings a list to the cluster. send makes the
// request for one object. hooks are those in the plan, by their objects.
func NewApply(s Session, list helmkube.ResourceList, send func(*resource.Info) error, hooks map[plan.Object]Hook) *Target {
	t := newTarget(s, list)
	t.send, t.hooks = send, hooks
	return t
}

// NewRemoval returns a target that takes a list away.
func NewRemoval(s Session, list helmkube.ResourceList, how Removal) *Target {
	t := newTarget(s, list)
	t.gone = how
	return t
}

func newTarget(s Session, list helmkube.ResourceList) *Target {
	t := &Target{
		s: s, infos: make(map[plan.Object]*resource.Info, len(list)), attempts: map[plan.Object]int{},
		reports:  map[plan.Object]func(run.Observation){},
		unplaced: map[plan.Object]*unplaced{}, expiring: map[plan.Object]*expiringJob{},
	}
	for _, i := range list {
		if f := s.Builder.Fact(i); f != nil {
			t.infos[f.Resource.Object] = i
			if u, ok := i.Object.(*unstructured.Unstructured); ok && u.GetKind() == "Job" {
				if _, ttl, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished"); ttl {
					t.expiring[f.Resource.Object] = &expiringJob{}
				}
			}
		}
	}
	return t
}

// Watch observes the objects of a group.
func (t *Target) Watch(ctx context.Context, g *plan.Group, report func(run.Observation)) {
	var targets []status.Target
	report = noticing(report)
	for _, obj := range g.Objects {
		i := t.infos[obj]
		if i == nil {
			continue
		}
		if t.send != nil && owning[obj.Kind] && obj.Namespace != "" {
			t.s.RunWatcher.Signs.listen(owner{obj.Namespace, obj.Kind, obj.Name}, func() { report(run.Observation{Object: obj, Sign: true}) })
		}
		t.mu.Lock()
		t.reports[obj] = report
		t.mu.Unlock()
		f := t.s.Builder.Fact(i)
		rule := f.Rule
		rule.JobsComplete = g.JobsComplete || t.s.JobsComplete
		target := status.Target{
			Object: obj, GVR: i.Mapping.Resource, Namespaced: i.Namespaced(), Rule: rule, Labelled: !f.Hook && !f.Unlabelled,
		}
		if t.send == nil { // of what is applied a version says that it is seen as it is now
			target.Existed = manifest.Version(f.Before().Version)
		}
		if f.Generated || f.Late {
			t.watchPlaced(ctx, i, f, target, report)
			continue
		}
		targets = append(targets, target)
	}
	t.s.RunWatcher.Watcher.Watch(ctx, targets, func(ob run.Observation) { t.report(ctx, ob, report) })
}

// watchPlaced watches an object from when it is known where it is. The engine
// knows it by what it is called in the plan.
func (t *Target) watchPlaced(ctx context.Context, i *resource.Info, f *manifest.Fact, target status.Target, report func(run.Observation)) {
	planned := target.Object
	watch := func(i *resource.Info) func() {
		ctx, cancel := context.WithCancel(ctx)
		placed := target
		placed.Object.Name, placed.Object.Namespace = i.Name, i.Namespace
		placed.GVR, placed.Namespaced = i.Mapping.Resource, i.Namespaced()
		t.s.RunWatcher.Watcher.Watch(ctx, []status.Target{placed}, func(ob run.Observation) {
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
	t.unplaced[planned] = &unplaced{watch: watch}
}

// place begins to watch an object of which it is known now where it is, unless
// that has been begun.
func (t *Target) place(obj plan.Object, i *resource.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.unplaced[obj]; u != nil && u.end == nil {
		u.end = u.watch(i)
	}
}

// displace ends the watch of what an earlier attempt made.
func (t *Target) displace(obj plan.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.unplaced[obj]; u != nil && u.end != nil {
		u.end()
		u.end = nil
	}
}

// Late are the objects of kinds that the cluster does not know, which are not
// watched yet.
func (t *Target) Late() (objects []plan.Object) {
	for obj, i := range t.infos {
		if t.s.Builder.Fact(i).Late {
			objects = append(objects, obj)
		}
	}
	return objects
}

// PlaceLate looks again for the kinds that the cluster did not know, and begins to
// watch the objects of those that it knows now, for those who apply nothing (R29).
// It reports whether some are left.
func (t *Target) PlaceLate() (left bool) {
	for _, obj := range t.Late() {
		i := t.infos[obj]
		if t.s.Builder.Resolve(i) != nil {
			left = true
			continue
		}
		t.s.Builder.Fact(i).Late = false
		t.place(obj, i)
	}
	return left
}

// createNamed creates an object with a generateName, after what an earlier
// attempt made of it is deleted, and starts to watch it (R44).
func (t *Target) createNamed(i *resource.Info, obj plan.Object) error {
	t.displace(obj)
	if i.Name != "" {
		if _, err := Delete(i, metav1.DeletePropagationBackground); err != nil {
			return fmt.Errorf("delete %s, created by the last attempt: %w", i.Name, err)
		}
		i.Name = ""
	}
	t.s.Builder.Fact(i).KeepSent(i)
	if err := manifest.CreateNamed(i); err != nil {
		return err
	}
	t.place(obj, i)
	return nil
}

// Apply sends one object. One of a kind that was not known at first is looked
// up now (R29); a Job or Pod that failed is replaced when it is tried again,
// since an apply would change nothing (R44). One that has failed in the run that
// this one continues from is tried again (R50).
func (t *Target) Apply(ctx context.Context, g *plan.Group, obj plan.Object) (run.Outcome, error) {
	i := t.infos[obj]
	if i == nil {
		return run.Outcome{}, fmt.Errorf("apply %s: not part of this operation", obj)
	}
	defer t.tellTries(i, obj)()
	f := t.s.Builder.Fact(i)
	if f.Generated {
		t.expiring[obj].begin()
		if err := t.sendLate(ctx, i, f, func(i *resource.Info) error { return t.createNamed(i, obj) }); err != nil {
			return run.Outcome{}, t.refused(ctx, obj, err)
		}
		t.expiring[obj].applied(i)
		return run.Outcome{Change: event.Created, Version: manifest.Version(i.ResourceVersion), Name: i.Name}, nil
	}
	t.mu.Lock()
	t.attempts[obj]++
	again := t.attempts[obj] > 1
	t.mu.Unlock()
	if hook := t.hooks[obj]; hook != nil {
		if err := hook.Clear(ctx, i); err != nil {
			return run.Outcome{}, err
		}
	} else if again && (obj.Kind == "Job" || obj.Kind == "Pod") {
		if err := t.s.DeleteAndWait(ctx, i); err != nil {
			return run.Outcome{}, fmt.Errorf("replace %s: %w", obj, err)
		}
	}
	t.expiring[obj].begin()
	err := t.sendLate(ctx, i, f, func(i *resource.Info) error {
		t.place(obj, i)
		f.KeepSent(i)
		return t.send(i)
	})
	if old := t.terminating(ctx, i, err); old != nil && t.hooks[obj] == nil {
		t.mu.Lock()
		t.attempts[obj]-- // which has brought nothing
		t.mu.Unlock()
		return run.Outcome{Message: old.message, Terminating: old.await}, nil
	}
	if again && diagnose.IsFieldConflict(err) {
		return t.leave(i, obj, err)
	}
	if err != nil {
		return run.Outcome{}, t.refused(ctx, obj, err)
	}
	change := f.Changed(i)
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil) // most of an answer, kept to the end, and of no more use to anybody
		if t.s.Resumes && change == event.Unchanged && !again && t.hooks[obj] == nil && HasEnded(u, f.Rule) {
			return t.Apply(ctx, g, obj) // again, which replaces it
		}
	}
	t.expiring[obj].applied(i)
	return run.Outcome{Change: change, Version: manifest.Version(i.ResourceVersion)}, nil
}

// refused says why the API server has not taken an object, and what to do.
func (t *Target) refused(ctx context.Context, obj plan.Object, err error) error {
	return t.s.Client.Diagnoser().Refused(ctx, obj, err)
}

// HasEnded reports whether an object is a Job or Pod that has failed: nothing will
// come of it any more.
func HasEnded(u *unstructured.Unstructured, rule status.Rule) bool {
	return (u.GetKind() == "Job" || u.GetKind() == "Pod") && status.Compute(u, rule, time.Now()).Status == event.Failed
}

// tellTries tells, until it is stopped, that a request for an object is answered
// with an error and tried again.
func (t *Target) tellTries(i *resource.Info, obj plan.Object) (stop func()) {
	t.mu.Lock()
	report := t.reports[obj]
	t.mu.Unlock()
	if report == nil || i.Mapping == nil {
		return func() {}
	}
	about := connect.Target{Group: i.Mapping.Resource.Group, Version: i.Mapping.Resource.Version, Resource: i.Mapping.Resource.Resource, Namespace: i.Namespace, Name: i.Name}
	return t.s.Client.Link().Listen(connect.Listener{Trying: func(of connect.Target, _ time.Time, answer string) {
		if of.Subresource = ""; of == about {
			report(run.Observation{Object: obj, Status: event.Applying, Message: "retrying: " + answer})
		}
	}})
}

// leave takes an object as somebody has changed it since it was applied, in
// order to mend it: the retry waits for it as it is (R44).
func (t *Target) leave(i *resource.Info, obj plan.Object, conflict error) (run.Outcome, error) {
	if err := i.Get(); err != nil {
		return run.Outcome{}, fmt.Errorf("read %s: %w", obj, err)
	}
	t.s.Warn(plan.Warning{Rule: "R44", Object: &obj,
		Message: fmt.Sprintf("%s keeps a change made outside the chart since it was applied: %v", obj, conflict)})
	return run.Outcome{Change: event.Unchanged, Version: manifest.Version(i.ResourceVersion)}, nil
}

// sendLate sends an object; one of a late kind after its API has been found,
// and again for as long as the API server does not serve it yet.
func (t *Target) sendLate(ctx context.Context, i *resource.Info, f *manifest.Fact, send func(*resource.Info) error) error {
	if !f.Late {
		return send(i)
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		if last = t.s.Builder.Resolve(i); last != nil {
			return false, nil
		}
		last = send(i)
		return last == nil || !apierrors.IsNotFound(last), nil
	})
	if last != nil {
		return last
	}
	f.Late = false
	return err
}

// Delete asks for the removal of one object.
func (t *Target) Delete(ctx context.Context, _ *plan.Group, obj plan.Object) (run.Outcome, error) {
	i := t.infos[obj]
	if i == nil {
		return run.Outcome{Change: event.Absent}, nil
	}
	defer t.tellTries(i, obj)()
	if t.gone.Keep {
		why, err := t.gone.whyKept(t.s.Builder.Scope(), i)
		if err != nil || why != "" {
			return run.Outcome{Change: event.Kept, Message: why}, err
		}
	}
	found, err := Delete(i, t.gone.Policy)
	switch {
	case err != nil:
		return run.Outcome{}, fmt.Errorf("delete: %w", t.refused(ctx, obj, err))
	case !found:
		return run.Outcome{Change: event.Absent}, nil
	}
	return run.Outcome{Change: event.Deleted}, nil
}
