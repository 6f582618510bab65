package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/retry"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/engine/run"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
)

// All objects of releases are written by Target.sendOwned and deleted by Session.Delete. Each request requires that the
// object is as it was last seen, so a change of its owner is never missed, however long the run has waited, and nothing is
// read twice unless the object has changed. Then it is read again, and so is its owner.

// maxLooks limits how often an object is read again because it changed before the request. The last request then only
// requires that the object was not created again, because some controllers write all the time.
const maxLooks = 5

// sendOwned sends an object if it does not exist or the release may write to it (manifest.Claims.Check).
func (t *Target) sendOwned(ctx context.Context, i *resource.Info, f *manifest.Fact) error {
	s := t.session
	if !f.Seen().Known || s.CheckOwner(i) != nil { // it may be gone, or taken over, since it was seen
		if err := s.LookAtOwner(ctx, i); err != nil {
			return err
		}
	}
	for looks := 0; ; looks++ {
		if err := s.Taken.note(s.Builder.Scope(), s.Claims, f); err != nil {
			return err
		}
		f.KeepSent(i)
		f.Require(i, looks == maxLooks)
		replaces := f.Replaces && f.Seen().Version == ""
		err := s.Applied.request(f.Resource.Object, func() error { return t.send(i) })
		conflict := hasChanged(err, i)
		if !conflict && !diagnose.IsFieldConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		notOwned := s.LookAtOwner(ctx, i)
		switch {
		case notOwned == nil && replaces && f.Seen().Version != "":
			return &createdMeanwhile{f.Resource.Object}
		case notOwned != nil, !conflict, looks == maxLooks:
			return cmp.Or(notOwned, err)
		}
	}
}

// createdMeanwhile is the error about the object of a hook that somebody else created after the previous one was deleted: the
// hook of another release, or of another run. It must not count as this hook's, which has not run.
type createdMeanwhile struct{ plan.Object }

func (e *createdMeanwhile) Error() string {
	return fmt.Sprintf("somebody else created %s after the previous one had been deleted, perhaps a hook of another release; "+
		"give the hooks different names, or try again when the other one is done", e.Object)
}

// LookAtOwner reads an object and returns CheckOwner.
func (s Session) LookAtOwner(ctx context.Context, i *resource.Info) error {
	if err := s.Builder.Look(ctx, i); err != nil {
		return err
	}
	return s.CheckOwner(i)
}

// hasChanged reports whether a request failed because the object is not as it was last seen.
func hasChanged(err error, i *resource.Info) bool {
	if isGone(err, i) {
		return true
	}
	if apierrors.IsInvalid(err) { // an apply to an object that was created again
		cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
		return found && cause.Field == "metadata.uid"
	}
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || diagnose.IsFieldConflict(err) || !errors.As(err, &status) {
		return false
	}
	// A quota that many objects use at once causes conflicts too.
	details := status.Status().Details
	return details == nil || details.Kind == i.Mapping.Resource.Resource || details.Kind == i.Mapping.GroupVersionKind.Kind
}

// isGone reports whether somebody deleted the object between two of Helm's requests for one update.
func isGone(err error, i *resource.Info) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == i.Name && details.Kind == i.Mapping.Resource.Resource
}

// CheckOwner returns a *manifest.NotOwned error if the release may not write to an object as it was last seen.
func (s Session) CheckOwner(i *resource.Info) error {
	return s.Claims.Check(s.Builder.Scope(), s.Builder.Fact(i))
}

// Removal says how objects are deleted.
type Removal struct {
	Policy metav1.DeletionPropagation
	// Awaited are the groups that others wait for: what runs pods there is gone once these are.
	Awaited map[string]bool
	// Keep also keeps objects with helm.sh/resource-policy: keep. In an uninstall Helm itself leaves them out, but not in an
	// upgrade.
	Keep bool
	// UID, if not empty, keeps another object of the same name.
	UID types.UID
	// Planned, if not empty, is the UID of the object that the plan names; another one of the same name is kept.
	Planned types.UID
	// Created reports whether a leftover may be what a revision created; nil for other objects. Others are kept.
	Created func(plan.Object, manifest.Seen) bool

	// Taken are kept too.
	Taken *TakenOver
}

// in returns how the objects of a group are deleted.
func (r Removal) in(g *plan.Group, i *resource.Info) Removal {
	if r.Awaited[g.ID] {
		r.Policy = withPods(r.Policy, i)
	}
	return r
}

// withPods returns how to delete an object that must not be gone before its pods: they run on for their grace period.
func withPods(policy metav1.DeletionPropagation, i *resource.Info) metav1.DeletionPropagation {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok || policy != metav1.DeletePropagationBackground {
		return policy
	}
	if _, runs := refs.FindPods(ObjectOf(i), u.Object); !runs {
		return policy
	}
	return metav1.DeletePropagationForeground
}

// WhyKept returns why an object is kept as it was last seen, "" if it is deleted.
func (r Removal) WhyKept(scope manifest.Scope, claims manifest.Claims, f *manifest.Fact) string {
	s := f.Seen()
	switch other := scope.Other(s); {
	case scope.OwnedByOther(s.Owner):
		return notOurs(s.Owner)
	case r.UID != "" && s.UID != r.UID, r.Planned != "" && s.UID != r.Planned:
		return "created again by somebody else"
	case r.UID == "" && !claims.Removes(scope, f):
		return notOurs(other)
	case r.Taken.has(f.Resource.Object, s.UID):
		return "it existed before this release took it over"
	case claims.InCRDs(f.Resource.Object):
		return "crds/ of the chart has it"
	case claims.WhyNeeded(f.Resource.Object) != "":
		return claims.WhyNeeded(f.Resource.Object)
	case r.Created != nil && !r.Created(f.Resource.Object, s):
		return "somebody else created it: the failed revision did not"
	case r.Keep && s.Keep:
		return "helm.sh/resource-policy: keep"
	}
	return ""
}

// notOurs says who owns an object that is kept, "" for nobody.
func notOurs(owner string) string {
	if owner == "" {
		return "not owned by this release"
	}
	return "it belongs to " + owner + " now"
}

// Delete deletes an object, unless WhyKept or WhyInUse says why it is kept. found is false if it does not exist. An object whose
// kind the cluster does not serve, in any version, does not exist.
func (s Session) Delete(ctx context.Context, i *resource.Info, how Removal) (found bool, kept string, err error) {
	f := s.Builder.Fact(i)
	if f == nil {
		return false, "", fmt.Errorf("delete %s: not part of this operation", i.ObjectName())
	}
	if err := s.Builder.ResolveStored(i); err != nil || f.Late {
		return false, "", err
	}
	for looks := 0; ; looks++ {
		if looks > 0 || f.Seen().Version == "" || s.whyKept(f, how) != "" { // it may have been created, or returned
			if err := s.Builder.Look(ctx, i); err != nil {
				return false, "", err
			}
		}
		if f.Seen().Version == "" {
			return false, "", nil
		}
		if kept := s.whyKept(f, how); kept != "" {
			return true, kept, nil
		}
		if used, err := WhyInUse(ctx, s.Client, s.Builder.Scope(), s.Claims, f.Resource.Object); err != nil || used != "" {
			return true, used, err
		}
		options := &metav1.DeleteOptions{PropagationPolicy: &how.Policy, Preconditions: f.Preconditions(looks == maxLooks)}
		err := s.Applied.request(f.Resource.Object, func() error {
			_, err := resource.NewHelper(i.Client, i.Mapping).WithFieldManager(connect.FieldManager).DeleteWithOptions(i.Namespace, i.Name, options)
			return err
		})
		switch {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
			return false, "", nil
		case !hasChanged(err, i) || looks == maxLooks:
			return err == nil, "", err
		}
	}
}

// whyKept returns WhyKept for the object of a hook, or of the release.
func (s Session) whyKept(f *manifest.Fact, how Removal) string {
	if f.Rule.Hook && how.UID == "" && s.Claims.Check(s.Builder.Scope(), f) == nil {
		return ""
	}
	return how.WhyKept(s.Builder.Scope(), s.Claims, f)
}

// DeleteAndWait deletes an object and waits until it is gone, with its pods. It leaves an object that Removal keeps. See AwaitGone for
// report.
func (s Session) DeleteAndWait(ctx context.Context, i *resource.Info, how Removal, report func(run.Observation)) error {
	how.Policy = withPods(how.Policy, i)
	found, kept, err := s.Delete(ctx, i, how)
	if err != nil || !found || kept != "" {
		return err
	}
	return s.AwaitGone(ctx, []*resource.Info{i}, report)
}

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
