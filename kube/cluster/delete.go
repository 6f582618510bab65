package cluster

import (
	"context"
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/status"
)

// WhyKept says why an upgrade leaves an object that is gone from the chart, ""
// where it does not: the live object has helm.sh/resource-policy: keep, or
// another release has taken it over.
func WhyKept(scope manifest.Scope, live metav1.Object) string { return Removal{}.why(scope, live) }

func (r Removal) whyKept(scope manifest.Scope, i *resource.Info) (string, error) {
	live, err := resource.NewHelper(i.Client, i.Mapping).Get(i.Namespace, i.Name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", i.ObjectName(), err)
	}
	m, err := meta.Accessor(live)
	if err != nil {
		return "", err
	}
	return r.why(scope, m), nil
}

func (r Removal) why(scope manifest.Scope, live metav1.Object) string {
	if by := manifest.OwnerOf(live); scope.Taken(by) {
		return "kept: it belongs to " + by + " now"
	} else if r.Owned && by == "" {
		return "kept: not labeled as part of the release"
	}
	if live.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy {
		return "kept: helm.sh/resource-policy"
	}
	return ""
}

// Delete deletes an object and reports whether there was one. That its
// kind is gone means that it is gone too.
func Delete(i *resource.Info, policy metav1.DeletionPropagation) (bool, error) {
	_, err := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(connect.FieldManager).
		DeleteWithOptions(i.Namespace, i.Name, &metav1.DeleteOptions{PropagationPolicy: &policy})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// DeleteAndWait deletes an object and waits until it is gone.
func (s Session) DeleteAndWait(ctx context.Context, i *resource.Info) error {
	found, err := Delete(i, metav1.DeletePropagationBackground)
	if err != nil || !found {
		return err
	}
	return s.AwaitGone(ctx, helmkube.ResourceList{i})
}

// there reports whether an object that is not seen is there all the same: by watches
// that others share nothing may have been seen of it yet. Then it will be.
func (s Session) there(ctx context.Context, o plan.Object, list helmkube.ResourceList) bool {
	if !s.RunWatcher.Shared || ctx.Err() != nil {
		return false
	}
	for _, i := range list {
		if i.Namespace == o.Namespace && i.Name == o.Name && i.Mapping.GroupVersionKind.Kind == o.Kind {
			_, err := s.Client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
			return err == nil
		}
	}
	return false
}

// AwaitGone waits until all objects of a list are gone.
func (s Session) AwaitGone(ctx context.Context, list helmkube.ResourceList) error {
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
	s.RunWatcher.Watcher.Watch(ctx, targets, func(ob run.Observation) {
		select {
		case seen <- ob:
		case <-ctx.Done():
		}
	})
	var last run.Observation
	for len(left) > 0 {
		select {
		case ob := <-seen:
			if ob.Status == event.Gone && !s.there(ctx, ob.Object, list) {
				delete(left, ob.Object)
			} else if ob.Status != event.Gone {
				last = ob
			}
		case <-ctx.Done():
			return fmt.Errorf("%s still exists: %s: %w", last.Object, last.Message, context.Cause(ctx))
		}
	}
	return nil
}
