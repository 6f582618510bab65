package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

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
		obj := ObjectOf(i)
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
