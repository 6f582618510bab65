package kube

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// target is the engine's view of a list of Infos: what a stage works on.
type target struct {
	o     *ordered
	infos map[plan.Object]*resource.Info
	send  func(*resource.Info) error // nil for a removal
	gone  *removal
	// scoped are the hooks in the plan, by their objects; passing are the Jobs
	// that remove themselves.
	scoped  map[plan.Object]*scopedHook
	passing map[plan.Object]*passing

	mu     sync.Mutex
	tries  map[plan.Object]int
	unborn map[plan.Object]*unborn
}

// unborn is an object that is watched once it has a name.
type unborn struct {
	watch func(name string) (end func())
	end   func() // of what an earlier attempt made
}

// removal says how objects are deleted.
type removal struct {
	policy metav1.DeletionPropagation
	// keep leaves objects alone whose live annotation says so; Helm has sorted
	// those out before an uninstall, not before an upgrade's removals.
	keep bool
}

func newTarget(o *ordered, list helmkube.ResourceList, send func(*resource.Info) error, gone *removal) *target {
	t := &target{
		o: o, infos: make(map[plan.Object]*resource.Info, len(list)), send: send, gone: gone, tries: map[plan.Object]int{},
		unborn: map[plan.Object]*unborn{}, scoped: map[plan.Object]*scopedHook{}, passing: map[plan.Object]*passing{},
	}
	for _, i := range list {
		if f := o.builder.fact(i); f != nil {
			if f.scoped != nil {
				t.scoped[f.resource.Object] = f.scoped
			}
			t.infos[f.resource.Object] = i
			if u, ok := i.Object.(*unstructured.Unstructured); ok && u.GetKind() == "Job" {
				if _, ttl, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished"); ttl {
					t.passing[f.resource.Object] = &passing{}
				}
			}
		}
	}
	return t
}

// Watch observes the objects of a group.
func (t *target) Watch(ctx context.Context, g *plan.Group, report func(run.Observation)) {
	var targets []status.Target
	for _, obj := range g.Objects {
		i := t.infos[obj]
		if i == nil {
			continue
		}
		f := t.o.builder.fact(i)
		rule := f.rule
		rule.JobsComplete = g.JobsComplete || t.o.opts.waitForJobs
		target := status.Target{
			Object: obj, GVR: i.Mapping.Resource, Namespaced: i.Namespaced(), Rule: rule, Labelled: f.hook == nil && !f.bare,
		}
		if f.generate {
			t.watchNamed(ctx, i, target, report)
			continue
		}
		targets = append(targets, target)
	}
	t.o.watcher.Watch(ctx, targets, func(ob run.Observation) { t.tell(ctx, ob, report) })
}

// watchNamed watches an object with a generateName, from when it has a name on.
// The engine knows it by the name it has in the plan.
func (t *target) watchNamed(ctx context.Context, i *resource.Info, target status.Target, report func(run.Observation)) {
	planned := target.Object
	watch := func(name string) func() {
		ctx, cancel := context.WithCancel(ctx)
		named := target
		named.Object.Name = name
		t.o.watcher.Watch(ctx, []status.Target{named}, func(ob run.Observation) {
			ob.Object = planned
			t.tell(ctx, ob, report)
		})
		return cancel
	}
	if i.Name != "" {
		watch(i.Name)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unborn[planned] = &unborn{watch: watch}
}

// createNamed creates an object with a generateName, after what an earlier
// attempt made of it is deleted, and starts to watch it (R44).
func (t *target) createNamed(i *resource.Info, obj plan.Object) error {
	t.mu.Lock()
	u := t.unborn[obj]
	t.mu.Unlock()
	if u != nil && u.end != nil {
		u.end()
	}
	if i.Name != "" {
		if _, err := deleteObject(i, metav1.DeletePropagationBackground); err != nil {
			return fmt.Errorf("delete %s, which the last attempt made: %w", i.Name, err)
		}
		i.Name = ""
	}
	t.o.builder.fact(i).keepSent(i)
	if err := create(i); err != nil {
		return err
	}
	if u != nil {
		u.end = u.watch(i.Name)
	}
	return nil
}

// Apply sends one object. One of a kind that was not known at first is looked
// up now (R29); a Job or Pod that failed is replaced when it is tried again,
// since an apply would change nothing (R44).
func (t *target) Apply(ctx context.Context, _ *plan.Group, obj plan.Object) (run.Outcome, error) {
	i := t.infos[obj]
	if i == nil {
		return run.Outcome{}, fmt.Errorf("apply %s: it is not part of this operation", obj)
	}
	f := t.o.builder.fact(i)
	if f.generate {
		t.passing[obj].begin()
		if err := t.sendLate(ctx, i, f, func(i *resource.Info) error { return t.createNamed(i, obj) }); err != nil {
			return run.Outcome{}, explain(err)
		}
		t.passing[obj].applied(i)
		return run.Outcome{Change: event.Created, Version: version(i.ResourceVersion), Name: i.Name}, nil
	}
	t.mu.Lock()
	t.tries[obj]++
	again := t.tries[obj] > 1
	t.mu.Unlock()
	if f.scoped != nil {
		if err := f.scoped.clear(ctx, t.o, i); err != nil {
			return run.Outcome{}, err
		}
	} else if again && (obj.Kind == "Job" || obj.Kind == "Pod") {
		if err := t.o.deleteAndWait(ctx, i); err != nil {
			return run.Outcome{}, fmt.Errorf("replace %s: %w", obj, err)
		}
	}
	t.passing[obj].begin()
	f.keepSent(i)
	err := t.sendLate(ctx, i, f, t.send)
	if again && isFieldConflict(err) {
		return t.leave(i, obj, err)
	}
	if err != nil {
		return run.Outcome{}, explain(err)
	}
	t.passing[obj].applied(i)
	return run.Outcome{Change: f.change(i), Version: version(i.ResourceVersion)}, nil
}

// leave takes an object as somebody has changed it since it was applied, in
// order to mend it: the retry waits for it as it is (R44).
func (t *target) leave(i *resource.Info, obj plan.Object, conflict error) (run.Outcome, error) {
	if err := i.Get(); err != nil {
		return run.Outcome{}, fmt.Errorf("look at %s: %w", obj, err)
	}
	t.o.engine.Publish(event.Event{Kind: event.KindWarning, Rule: "R44", Object: &obj,
		Message: fmt.Sprintf("%s stays as it has been changed since it was applied, which the chart does not know of: %v", obj, conflict)})
	return run.Outcome{Change: event.Unchanged, Version: version(i.ResourceVersion)}, nil
}

// keepSent keeps the object as it is about to be sent, or puts it back.
func (f *fact) keepSent(i *resource.Info) {
	switch u, ok := i.Object.(*unstructured.Unstructured); {
	case f.sent != nil:
		i.Object = f.sent.DeepCopy()
	case ok:
		f.sent = u.DeepCopy()
	}
}

// sendLate sends an object; one of a late kind after its API has been found,
// and again for as long as the API server does not serve it yet.
func (t *target) sendLate(ctx context.Context, i *resource.Info, f *fact, send func(*resource.Info) error) error {
	if !f.late {
		return send(i)
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		if last = t.o.builder.resolve(i); last != nil {
			return false, nil
		}
		last = send(i)
		return last == nil || !apierrors.IsNotFound(last), nil
	})
	if last != nil {
		return last
	}
	f.late = false
	return err
}

// resolve looks a kind up that the cluster did not know at Build.
func (b *builder) resolve(i *resource.Info) error {
	mapper, err := b.client.getter.ToRESTMapper()
	if err != nil {
		return err
	}
	gvk := i.Mapping.GroupVersionKind
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		meta.MaybeResetRESTMapper(mapper)
		mapping, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return fmt.Errorf("%w; no CRD for it is in the cluster", err)
	}
	i.Mapping = mapping
	return nil
}

// Delete asks for the removal of one object.
func (t *target) Delete(ctx context.Context, _ *plan.Group, obj plan.Object) (run.Outcome, error) {
	i := t.infos[obj]
	if i == nil {
		return run.Outcome{Change: event.Absent}, nil
	}
	if t.gone.keep {
		why, err := t.o.whyKept(i)
		if err != nil || why != "" {
			return run.Outcome{Change: event.Kept, Message: why}, err
		}
	}
	found, err := deleteObject(i, t.gone.policy)
	switch {
	case err != nil:
		return run.Outcome{}, fmt.Errorf("delete: %w", err)
	case !found:
		return run.Outcome{Change: event.Absent}, nil
	}
	return run.Outcome{Change: event.Deleted}, nil
}

// whyKept says why an upgrade leaves an object that is gone from the chart, ""
// where it does not: the live object has helm.sh/resource-policy: keep, or
// another release has taken it over.
func (o *ordered) whyKept(i *resource.Info) (string, error) {
	live, err := resource.NewHelper(i.Client, i.Mapping).Get(i.Namespace, i.Name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", i.ObjectName(), err)
	}
	m, err := meta.Accessor(live)
	if err != nil {
		return "", err
	}
	if by := ownerOf(m); o.taken(by) {
		return "kept: it belongs to " + by + " now", nil
	}
	if m.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy {
		return "kept: helm.sh/resource-policy", nil
	}
	return "", nil
}

// deleteObject deletes an object and reports whether there was one. That its
// kind is gone means that it is gone too.
func deleteObject(i *resource.Info, policy metav1.DeletionPropagation) (bool, error) {
	_, err := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(fieldManager).
		DeleteWithOptions(i.Namespace, i.Name, &metav1.DeleteOptions{PropagationPolicy: &policy})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// deleteAndWait deletes an object and waits until it is gone.
func (o *ordered) deleteAndWait(ctx context.Context, i *resource.Info) error {
	found, err := deleteObject(i, metav1.DeletePropagationBackground)
	if err != nil || !found {
		return err
	}
	return o.gone(ctx, helmkube.ResourceList{i})
}

// waitGone waits until the objects of a hook are gone.
func (o *ordered) waitGone(list helmkube.ResourceList, timeout time.Duration) error {
	ctx := o.requests()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return o.gone(ctx, list)
}

// gone waits until all objects of a list are gone.
func (o *ordered) gone(ctx context.Context, list helmkube.ResourceList) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := map[plan.Object]bool{}
	var targets []status.Target
	for _, i := range list {
		obj := plan.Object{Group: i.Mapping.GroupVersionKind.Group, Kind: i.Mapping.GroupVersionKind.Kind, Namespace: i.Namespace, Name: i.Name}
		left[obj] = true
		targets = append(targets, status.Target{Object: obj, GVR: i.Mapping.Resource, Namespaced: i.Namespaced()})
	}
	seen := make(chan run.Observation)
	o.watcher.Watch(ctx, targets, func(ob run.Observation) {
		select {
		case seen <- ob:
		case <-ctx.Done():
		}
	})
	var last run.Observation
	for len(left) > 0 {
		select {
		case ob := <-seen:
			if ob.Status == event.Gone {
				delete(left, ob.Object)
			} else {
				last = ob
			}
		case <-ctx.Done():
			return fmt.Errorf("%s is not gone: %s: %w", last.Object, last.Message, context.Cause(ctx))
		}
	}
	return nil
}

// change says what an apply did, as far as the object's version before it is
// known.
func (f *fact) change(i *resource.Info) event.Change {
	before, known := f.before, f.known
	f.before, f.known = i.ResourceVersion, true
	switch {
	case known && before == "":
		return event.Created
	case before == i.ResourceVersion:
		return event.Unchanged
	}
	return event.Configured
}

// version is a resourceVersion as a number, 0 where it is none.
func version(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
