package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

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

// Removal says how objects are deleted.
type Removal struct {
	Policy metav1.DeletionPropagation
	// Keep keeps the objects for which WhyKept has a reason. In an uninstall Helm itself leaves them out, but not in an
	// upgrade.
	Keep bool
	// OnlyOwned also keeps objects that are not labelled as part of a release.
	OnlyOwned bool
}

// WhyKept returns why a live object that is no longer in the chart is kept, "" if it is deleted.
func (r Removal) WhyKept(scope manifest.Scope, live metav1.Object) string {
	switch by := manifest.OwnerOf(live); {
	case scope.OwnedByOther(by):
		return "it belongs to " + by + " now"
	case r.OnlyOwned && by == "":
		return "not labelled as part of the release"
	case live.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy:
		return "helm.sh/resource-policy: keep"
	}
	return ""
}

// readWhyKept reads an object and returns WhyKept.
func (r Removal) readWhyKept(scope manifest.Scope, i *resource.Info) (string, error) {
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
	return r.WhyKept(scope, m), nil
}

// Delete deletes an object and reports whether it existed. An object whose kind the cluster does not serve did not exist.
func Delete(i *resource.Info, policy metav1.DeletionPropagation) (bool, error) {
	_, err := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(connect.FieldManager).
		DeleteWithOptions(i.Namespace, i.Name, &metav1.DeleteOptions{PropagationPolicy: &policy})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// DeleteAndWait deletes an object and waits until it is gone. See AwaitGone for report.
func (s Session) DeleteAndWait(ctx context.Context, i *resource.Info, report func(run.Observation)) error {
	found, err := Delete(i, metav1.DeletePropagationBackground)
	if err != nil || !found {
		return err
	}
	return s.AwaitGone(ctx, helmkube.ResourceList{i}, report)
}

// existsDespiteWatch reports whether an object exists although the watches report it as gone: shared watches may lag behind.
func (s Session) existsDespiteWatch(ctx context.Context, i *resource.Info) bool {
	if i == nil || !s.RunWatcher.Shared || ctx.Err() != nil {
		return false
	}
	_, err := s.Client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	return err == nil
}

// AwaitGone waits until all objects of a list are gone. It calls report each time that it knows more about why one still
// exists.
func (s Session) AwaitGone(ctx context.Context, list helmkube.ResourceList, report func(run.Observation)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := map[plan.Object]*resource.Info{}
	var targets []status.Target
	for _, i := range list {
		obj := plan.Object{Group: i.Mapping.GroupVersionKind.Group, Kind: i.Mapping.GroupVersionKind.Kind, Namespace: i.Namespace, Name: i.Name}
		left[obj] = i
		targets = append(targets, status.Target{Object: obj, GVR: i.Mapping.Resource, Namespaced: i.Namespaced()})
	}
	seen := make(chan run.Observation)
	s.RunWatcher.Watcher.Watch(ctx, targets, func(ob run.Observation) {
		select {
		case seen <- ob:
		case <-ctx.Done():
		}
	})
	messages := map[plan.Object]string{}
	for len(left) > 0 {
		select {
		case ob := <-seen:
			if ob.Status == event.Gone && !s.existsDespiteWatch(ctx, left[ob.Object]) {
				delete(left, ob.Object)
			} else if text := ": " + ob.Message; ob.Status == event.Deleting && ob.Message != "" && messages[ob.Object] != text {
				messages[ob.Object] = text
				report(ob)
			}
		case <-ctx.Done():
			first := slices.MinFunc(slices.Collect(maps.Keys(left)), plan.Object.Compare)
			return fmt.Errorf("%s still exists%s: %w", first, messages[first], context.Cause(ctx))
		}
	}
	return nil
}
