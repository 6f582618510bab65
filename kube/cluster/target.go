// Package cluster sends the requests of a run: a Target applies, deletes and watches objects for the engine. Watches are
// shared by runs; Signs report the first signs of trouble. Package kube and the packages below it may import it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// Session is shared by all targets of an operation.
type Session struct {
	Client     *connect.Client
	Builder    *manifest.Builder
	RunWatcher RunWatcher
	// KeepBrokenPods keeps the pods that block a StatefulSet, see Target.replaceBroken.
	KeepBrokenPods bool
	// Resumes means that this run continues one that failed or was interrupted (R50).
	Resumes bool
	// Claims are the existing objects that the release may write to without owning them.
	Claims manifest.Claims
	// Taken are the objects of others that the release has taken over.
	Taken *TakenOver
	// Applied records the objects that are applied.
	Applied *Applied
	// Replaces are the objects that are deleted and created again if they cannot be updated.
	Replaces map[plan.Object]Replacement
	// BeforeWrite, if set, is called before each request that writes an object of a group. The object fails with its error.
	BeforeWrite func(ctx context.Context, g *plan.Group, o plan.Object, removes bool) error
	// Gone, if set, is called when an object that was applied is gone, and the run has not deleted it as a hook. It must not block.
	Gone func()
	// Warn is called with each warning, from any goroutine.
	Warn func(plan.Warning)
}

// Diagnoser returns a Diagnoser that uses the connection of the session.
func (s Session) Diagnoser() *diagnose.Diagnoser {
	return diagnose.New(s.Client.Clientset, s.Client.Dynamic, s.Client.Getter)
}

func (s Session) beforeWrite(ctx context.Context, g *plan.Group, o plan.Object, removes bool) error {
	if s.BeforeWrite == nil {
		return nil
	}
	return s.BeforeWrite(ctx, g, o, removes)
}

// Target is the run.Cluster of a stage that applies or deletes a list of objects.
type Target struct {
	// DryRun, if set, returns an object as its apply would leave the live one.
	DryRun func(i *resource.Info, live *unstructured.Unstructured) (*unstructured.Unstructured, error)

	session  Session
	infos    map[plan.Object]*resource.Info
	send     func(*resource.Info) error // applies an object; nil for a removal
	observes bool                       // applies nothing, see Observation
	removal  Removal
	hooks    map[plan.Object]Hook         // the hooks in the plan
	expiring map[plan.Object]*expiringJob // the Jobs with ttlSecondsAfterFinished
	attempts map[plan.Object]*attempts    // to apply the objects of the list

	mu       sync.Mutex
	reports  map[plan.Object]func(run.Observation)
	deferred map[plan.Object]*deferredWatch
	labelled map[plan.Object]*labelled
}

// attempts are the attempts to apply an object, without those that had no effect.
type attempts struct {
	mu       sync.Mutex // held while the object is sent, which changes its Info
	count    atomic.Int32
	replaces atomic.Bool  // an earlier object was deleted for the one that is applied
	refused  atomic.Bool  // the last one was, or that of an object of its group, so that this one may never be sent
	reported atomic.Int64 // observations of the object
	existed  atomic.Bool  // it was observed
}

var _ run.Cluster = (*Target)(nil)

// Hook is a hook in the plan.
type Hook interface {
	// SetSent records that the hook's object is about to be applied.
	SetSent()
	// SetRefused records that the API server refused the hook's object.
	SetRefused()
	// SetStatus records each change of the status of the hook's object.
	SetStatus(event.Status)
}

// deferredWatch is the watch of an object that cannot be watched from the start: its name is generated, or its kind is not
// served yet, so its resource and scope are unknown (R29).
type deferredWatch struct {
	watch func(*resource.Info) (stop func())
	stop  func() // nil if the watch is not running
}

// NewApply returns a target that applies a list; send applies one object.
func NewApply(s Session, list helmkube.ResourceList, send func(*resource.Info) error, hooks map[plan.Object]Hook) *Target {
	t := newTarget(s, list)
	t.send, t.hooks = send, hooks
	return t
}

// NewRemoval returns a target that deletes a list.
func NewRemoval(s Session, list helmkube.ResourceList, how Removal) *Target {
	t := newTarget(s, list)
	t.removal, t.removal.Taken = how, s.Taken
	return t
}

func newTarget(s Session, list helmkube.ResourceList) *Target {
	t := &Target{
		session: s, infos: make(map[plan.Object]*resource.Info, len(list)), attempts: map[plan.Object]*attempts{},
		reports: map[plan.Object]func(run.Observation){}, labelled: map[plan.Object]*labelled{},
		deferred: map[plan.Object]*deferredWatch{}, expiring: map[plan.Object]*expiringJob{},
	}
	for _, i := range list {
		if f := s.Builder.Fact(i); f != nil {
			t.infos[f.Resource.Object] = i
			t.attempts[f.Resource.Object] = &attempts{}
			if Expires(i) {
				t.expiring[f.Resource.Object] = &expiringJob{}
			}
		}
	}
	return t
}

// createGenerated creates an object with a generateName and starts to watch it. It first deletes the object that an earlier
// attempt created and that is not ready (R44).
func (t *Target) createGenerated(ctx context.Context, i *resource.Info, obj plan.Object) error {
	t.stopDeferred(obj)
	if i.Name != "" {
		if _, _, err := t.session.Delete(ctx, i, Removal{Policy: metav1.DeletePropagationBackground}); err != nil {
			return fmt.Errorf("delete %s, which the last attempt created: %w", i.Name, err)
		}
		i.Name = ""
	}
	t.session.Builder.Fact(i).KeepSent(i)
	if err := t.session.Applied.request(obj, func() error { return manifest.CreateGenerated(i) }); err != nil {
		return err
	}
	t.startDeferred(obj, i)
	return nil
}

// Apply applies one object. It looks up a late kind again (R29). It replaces a Job or Pod on a retry, and one that failed in
// the run that this run resumes, because applying it again would not restart it (R44, R50).
func (t *Target) Apply(ctx context.Context, g *plan.Group, obj plan.Object) (run.Response, error) {
	i := t.infos[obj]
	if i == nil {
		return run.Response{}, fmt.Errorf("apply %s: not part of this operation", obj)
	}
	a := t.attempts[obj]
	a.mu.Lock()
	defer a.mu.Unlock()
	out, err := t.apply(ctx, g, obj, i)
	t.noteRefusal(g, obj, err)
	return out, err
}

func (t *Target) apply(ctx context.Context, g *plan.Group, obj plan.Object, i *resource.Info) (run.Response, error) {
	if err := t.session.beforeWrite(ctx, g, obj, false); err != nil {
		return run.Response{}, err
	}
	defer t.reportRetries(i, obj)()
	f := t.session.Builder.Fact(i)
	if out, stays, err := t.stays(ctx, i, f, obj); stays || err != nil {
		return out, err
	}
	if f.Generated {
		return t.applyGenerated(ctx, i, f, obj)
	}
	t.session.Applied.sending(obj)
	hook := t.hooks[obj]
	retry, out, err := t.beginAttempt(ctx, i, f, obj)
	if err != nil || out.WaitGone != nil {
		return out, err
	}
	err = t.sendLate(ctx, i, f, func(i *resource.Info) error {
		t.startDeferred(obj, i)
		return t.sendOwned(ctx, i, f)
	})
	if out, terminating := t.terminating(ctx, i, err); terminating {
		t.attempts[obj].count.Add(-1)
		return out, nil
	}
	if t.session.Resumes && !retry && hook == nil && len(diagnose.Immutable(err)) > 0 && t.hasFailed(ctx, i, f) {
		return t.apply(ctx, g, obj, i) // a retry, which replaces it
	}
	if r, planned := t.session.Replaces[obj]; planned && !r.Failed && hook == nil && len(diagnose.Immutable(err)) > 0 {
		return t.replace(ctx, g, i, r, err)
	}
	if retry && diagnose.IsFieldConflict(err) && t.session.Applied.UID(obj) != "" {
		return t.keepEdited(i, obj, err)
	}
	if notOwned := (*manifest.NotOwned)(nil); errors.As(err, &notOwned) && t.session.Claims.Skip {
		t.session.Warn(plan.Warning{Rule: "R31a", Object: &obj, Message: "not rolled back: " + err.Error()})
		return run.Response{Change: event.Kept, Message: notOurs(notOwned.Owner), Version: status.ParseVersion(f.Seen().Version)}, nil
	}
	if err != nil {
		if hook != nil && !connect.MayHaveArrived(err) {
			hook.SetRefused()
		}
		return run.Response{}, t.refused(ctx, obj, err)
	}
	out, again := t.accepted(ctx, i, f, obj, retry)
	if again {
		return t.apply(ctx, g, obj, i) // a retry, which replaces it
	}
	return out, nil
}

// accepted returns the response for an object that the API server has accepted; again is true if a Job or Pod is unchanged and has
// failed in the run that this run resumes.
func (t *Target) accepted(ctx context.Context, i *resource.Info, f *manifest.Fact, obj plan.Object, retry bool) (out run.Response, again bool) {
	hook, sameGeneration := t.hooks[obj], f.KeepsGeneration(i)
	change := f.Changed(i) // records the write
	if change == event.Created && hook == nil && t.attempts[obj].replaces.Load() {
		change = event.Replaced
	}
	if change == event.Unchanged {
		t.session.Applied.changedNothing(obj)
	}
	out = run.Response{Change: change, Version: status.ParseVersion(i.ResourceVersion)}
	out.StatusBefore = t.statusBefore(i, sameGeneration || change == event.Unchanged)
	t.session.Builder.LearnStatus(i)
	if u, ok := i.Object.(*unstructured.Unstructured); ok {
		if u.GetLabels()[manifest.ManagedByKey] != "Helm" {
			t.lostLabel(obj)
		}
		u.SetManagedFields(nil) // saves most of the memory
		t.session.Applied.answered(obj, u, f.Rule.Hook)
		if t.session.Resumes && change == event.Unchanged && !retry && hook == nil && status.HasFailed(u, f.Rule) {
			return out, true
		}
	}
	t.expiring[obj].applied(i)
	if change != event.Created && hook == nil {
		out.Deleted = t.replaceBroken(ctx, i, obj)
		out.Note = t.oldPods(ctx, i, obj)
	}
	return out, false
}

// statusBefore returns Response.StatusBefore of an object that the API server has accepted. A status from before the apply
// stays valid if the apply changed nothing that it is about; but a run that resumes another one (R50) does not know whether
// that one changed the object after its last status.
func (t *Target) statusBefore(i *resource.Info, sameGeneration bool) string {
	u, ok := i.Object.(*unstructured.Unstructured)
	if ok && t.session.Builder.HasStatus(i.Mapping) && (!sameGeneration || t.session.Resumes && manifest.StatusIsOlder(u)) {
		return status.StatusWrite(u)
	}
	return ""
}

// beginAttempt counts an attempt to apply an object, and reports whether it is a retry. It first deletes the previous object
// of a hook and, on a retry, a Job or Pod that has to run again. The response has WaitGone if that object still exists.
func (t *Target) beginAttempt(ctx context.Context, i *resource.Info, f *manifest.Fact, obj plan.Object) (retry bool, out run.Response, err error) {
	retry = t.attempts[obj].count.Add(1) > 1
	again := f.Replaces
	if retry && !again {
		if again, err = t.runsAgain(ctx, i, f, obj); err != nil {
			return retry, out, err
		}
	}
	if again {
		out, err = t.deletePrevious(ctx, i, obj)
		switch {
		case err != nil:
			return retry, out, fmt.Errorf("delete the previous %s: %w", obj, err)
		case out.WaitGone != nil:
			t.attempts[obj].count.Add(-1)
			return retry, out, nil
		case f.Replaces:
			f.SetAbsent()
		}
	}
	if hook := t.hooks[obj]; hook != nil {
		hook.SetSent()
	}
	t.expiring[obj].begin()
	return retry, out, nil
}

// applyGenerated creates an object whose name the API server generates.
func (t *Target) applyGenerated(ctx context.Context, i *resource.Info, f *manifest.Fact, obj plan.Object) (run.Response, error) {
	t.expiring[obj].begin()
	if err := t.sendLate(ctx, i, f, func(i *resource.Info) error { return t.createGenerated(ctx, i, obj) }); err != nil {
		return run.Response{}, t.refused(ctx, obj, err)
	}
	t.expiring[obj].applied(i)
	return run.Response{Change: event.Created, Version: status.ParseVersion(i.ResourceVersion), Name: i.Name}, nil
}

// refused adds to an error why the API server refused an object, and what to do.
func (t *Target) refused(ctx context.Context, obj plan.Object, err error) error {
	return t.session.Diagnoser().ExplainRefusal(ctx, obj, err)
}

// reportRetries reports the retries of requests for an object until stop is called.
func (t *Target) reportRetries(i *resource.Info, obj plan.Object) (stop func()) {
	t.mu.Lock()
	report := t.reports[obj]
	t.mu.Unlock()
	if report == nil || i.Mapping == nil {
		return func() {}
	}
	about := connect.Target{Group: i.Mapping.Resource.Group, Version: i.Mapping.Resource.Version, Resource: i.Mapping.Resource.Resource, Namespace: i.Namespace, Name: i.Name}
	return t.session.Client.Link().Listen(connect.Listener{Retrying: func(requested connect.Target, _ time.Time, reason string) {
		if requested.Subresource = ""; requested == about {
			report(run.Observation{Object: obj, Status: event.Applying, Trouble: true, Message: diagnose.RetryReason(reason)})
		}
	}})
}

// keepEdited accepts a change that somebody made to an object after this run had applied it, to fix it. The retry then waits until the
// object is ready (R44).
func (t *Target) keepEdited(i *resource.Info, obj plan.Object, conflict error) (run.Response, error) {
	if err := i.Get(); err != nil {
		return run.Response{}, fmt.Errorf("read %s: %w", obj, err)
	}
	t.session.Warn(plan.Warning{Rule: "R44", Object: &obj,
		Message: fmt.Sprintf("lockstep kept a change that was made to %s after it was applied: %v; "+
			"add it to the chart so that the next upgrade does not conflict with it", obj, conflict)})
	return run.Response{Change: event.Unchanged, Version: status.ParseVersion(i.ResourceVersion)}, nil
}

// sendLate sends an object. If its kind is late, it first waits up to 10 seconds until the API server serves the kind.
func (t *Target) sendLate(ctx context.Context, i *resource.Info, f *manifest.Fact, send func(*resource.Info) error) error {
	if !f.Late {
		return send(i)
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		if last = t.session.Builder.Resolve(i); last != nil {
			return false, nil
		}
		if i.Name != "" {
			t.session.Builder.ReadLate(ctx, i)
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

// Delete deletes one object.
func (t *Target) Delete(ctx context.Context, g *plan.Group, obj plan.Object) (run.Response, error) {
	i := t.infos[obj]
	if i == nil {
		return run.Response{Change: event.Absent}, nil
	}
	if err := t.session.beforeWrite(ctx, g, obj, true); err != nil {
		return run.Response{}, err
	}
	if err := t.session.Builder.Fact(i).Before().Err; err != nil {
		return run.Response{Change: event.Kept, Message: diagnose.Unreadable("its owner", err)}, nil
	}
	defer t.reportRetries(i, obj)()
	found, kept, err := t.session.Delete(ctx, i, t.removal.in(g, i))
	switch {
	case kept != "":
		if obj.Kind == "CustomResourceDefinition" && obj.Group == crds.Group && t.session.whyKept(t.session.Builder.Fact(i), t.removal) == "" {
			t.session.Warn(CRDWarning(obj, kept, false))
		}
		return run.Response{Change: event.Kept, Message: kept}, t.session.giveBack(i, t.session.Builder.Fact(i))
	case err != nil:
		return run.Response{}, fmt.Errorf("delete: %w", t.refused(ctx, obj, err))
	case !found:
		return run.Response{Change: event.Absent}, nil
	}
	t.startDeferred(obj, i) // its kind was late
	return run.Response{Change: event.Deleted}, nil
}
