package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// KeepDependents removes the ownerReferences to objects that are about to be deleted from the release's objects that stay: else the
// cluster would delete these after their owners. unread are objects that stay and that this operation has not read. Call it while
// nothing is being sent.
//
// Rule R31c: what stays is not deleted because of its ownerReferences
func (s Session) KeepDependents(ctx context.Context, removed, unread []plan.Object) error {
	if len(removed) == 0 {
		return nil
	}
	stay := slices.Concat(slices.Collect(maps.Keys(s.Builder.Dependents(removed))), unread)
	for _, o := range stay {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return s.dropOwners(ctx, o, removed) })
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the ownerReferences of %s to objects that are deleted, since the cluster would delete it too: %w", o, err)
		}
	}
	return nil
}

// dropOwners removes an object's ownerReferences to removed objects, unless the object belongs to somebody else now.
func (s Session) dropOwners(ctx context.Context, o plan.Object, removed []plan.Object) error {
	target, err := s.Builder.WatchTarget(o)
	if err != nil {
		return err
	}
	objects := s.Client.Metadata.Resource(target.GVR).Namespace(o.Namespace)
	live, err := objects.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil || manifest.OwnerOf(live) != s.Builder.Scope().Owner() {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(live.OwnerReferences), func(r metav1.OwnerReference) bool {
		return slices.ContainsFunc(removed, func(owner plan.Object) bool { return manifest.Refers(o, owner)(r) })
	})
	if len(left) == len(live.OwnerReferences) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": live.ResourceVersion, "ownerReferences": left}})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: connect.FieldManager})
	return err
}
