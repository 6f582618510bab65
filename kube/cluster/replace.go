package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/utils/ptr"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/status"
)

// Replacement is an object that cannot be updated, so the operation deletes it and creates it again.
type Replacement struct {
	plan.Object
	// UID is that of the object which was planned; "" for the one that the release owns by then.
	UID types.UID
	// Message says why it is replaced, and What what is deleted with it; the message ends with that.
	Message, What string
	// Failed means that it is a failed Job or Pod: it is replaced, whatever --replace says, while it is failed (R50).
	Failed bool
}

// replace deletes an object that cannot be updated, and applies it again once it is gone. If the run is killed in between, the
// object is missing, and the next run creates it.
//
// Rule R30b: only what the plan names is replaced.
func (t *Target) replace(ctx context.Context, g *plan.Group, i *resource.Info, r Replacement, refusal error) (run.Response, error) {
	failed := func(why any) (run.Response, error) {
		return run.Response{}, fmt.Errorf("%s; it cannot be replaced: %v", strings.Join(diagnose.Immutable(refusal), ", "), why)
	}
	live, err := t.read(ctx, i)
	if err != nil && !apierrors.IsNotFound(err) {
		return failed(err)
	}
	if err == nil {
		why, err := WhyNotReplaced(ctx, t.session.Client, r.Object, live)
		switch {
		case err != nil:
			return failed(err)
		case why != "":
			return failed(why)
		}
		next, _ := i.Object.(*unstructured.Unstructured)
		policy, what := Deletion(r.Object, live, next)
		if r.UID != "" && r.What != what {
			return failed("it has changed since it was planned, and now " + what)
		}
		found, kept, err := t.session.Delete(ctx, i, Removal{Policy: policy, Planned: r.UID, Taken: t.session.Taken})
		switch {
		case kept != "":
			return failed(kept)
		case err != nil:
			return failed(err)
		case found:
			t.attempts[r.Object].replaces.Store(true)
		}
	}
	t.attempts[r.Object].count.Add(-1)
	t.session.Builder.Fact(i).SetAbsent()
	if out := t.stillThere(ctx, i); out.WaitGone != nil {
		return out, nil
	}
	return t.apply(ctx, g, r.Object, i)
}

var setKind = plan.GroupKind{Group: "apps", Kind: "StatefulSet"}

// Deletion returns how an object is deleted before next is created in its place, and what goes along.
func Deletion(o plan.Object, live, next *unstructured.Unstructured) (policy metav1.DeletionPropagation, what string) {
	_, hasPods := refs.FindPods(o, live.Object)
	switch kind := o.GroupKind(); {
	case kind == setKind:
		return deletionOfSet(asStatefulSet(live), asStatefulSet(next))
	case kind == plan.GroupKind{Kind: "PersistentVolumeClaim"}, kind == plan.GroupKind{Kind: "PersistentVolume"}:
		what = "its data is deleted with it, unless the reclaim policy of its volume is Retain"
	case kind == plan.GroupKind{Kind: "Namespace"}:
		what = "everything in it is deleted with it"
	case kind == plan.GroupKind{Kind: "Service"}:
		what = "its cluster IP and the address of its load balancer may change"
	case hasPods && o.Kind != "Pod":
		return metav1.DeletePropagationForeground, "its pods are deleted with it"
	}
	return metav1.DeletePropagationBackground, what
}

// deletionOfSet is Deletion for StatefulSets: the next one takes over the pods of the live one if it selects all of them.
func deletionOfSet(live, next appsv1.StatefulSetSpec) (policy metav1.DeletionPropagation, what string) {
	retention := func(s appsv1.StatefulSetSpec) appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
		return ptr.Deref(s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	}
	replicas := ptr.Deref(next.Replicas, 1)
	fewer := "it is scaled down to " + text.Count(int(replicas), "replica")
	stay := func(what string) string { return text.Join("; ", what+" stay", keptClass(live, next)) }
	switch takesOver := takesPodsOver(live.Selector, next.Selector); {
	case !takesOver && retention(live).WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType:
		return metav1.DeletePropagationForeground, "its pods and claims are deleted with it, and so is the data in them"
	case !takesOver:
		return metav1.DeletePropagationForeground, stay("its pods are deleted with it; its claims")
	case replicas >= ptr.Deref(live.Replicas, 1):
		return metav1.DeletePropagationOrphan, stay("its pods and claims")
	case retention(next).WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType:
		return metav1.DeletePropagationOrphan, fewer + "; the other pods and their claims are deleted, and so is the data in them"
	}
	return metav1.DeletePropagationOrphan, stay(fewer + "; its claims")
}

// asStatefulSet reads a StatefulSet; u may be nil. One with invalid fields is incomplete: the API server refuses it.
func asStatefulSet(u *unstructured.Unstructured) appsv1.StatefulSetSpec {
	var set appsv1.StatefulSet
	if u != nil {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &set)
	}
	return set.Spec
}

// takesPodsOver reports whether a selector selects all pods of another one: each of them has the labels that that one selects.
func takesPodsOver(live, next *metav1.LabelSelector) bool {
	return live != nil && next != nil && len(next.MatchExpressions) == 0 && labels.SelectorFromSet(next.MatchLabels).Matches(labels.Set(live.MatchLabels))
}

// WhyNotReplaced returns why an object is not deleted to create it again, "" if it may be: the deletion would take others along,
// or would wait for what uses the object.
func WhyNotReplaced(ctx context.Context, c *connect.Client, o plan.Object, live *unstructured.Unstructured) (string, error) {
	switch kind := o.GroupKind(); kind {
	case plan.GroupKind{Kind: "PersistentVolumeClaim"}:
		return diagnose.New(c.Clientset, c.Dynamic, c.Getter).ClaimUse(ctx, o.Namespace, o.Name), nil
	case plan.GroupKind{Kind: "PersistentVolume"}:
		if claim, _, _ := unstructured.NestedString(live.Object, "spec", "claimRef", "name"); claim != "" {
			return "bound to claim " + claim, nil
		}
	case plan.GroupKind{Group: crds.Group, Kind: "CustomResourceDefinition"}:
		return objectsOf(ctx, c, o.Name, func(*metav1.PartialObjectMetadata) bool { return true })
	}
	return "", nil
}

// hasFailed reports whether an object is now a failed Job or Pod of this release.
func (t *Target) hasFailed(ctx context.Context, i *resource.Info, f *manifest.Fact) bool {
	live, err := t.read(ctx, i)
	return err == nil && status.HasFailed(live, f.Rule) && t.session.LookAtOwner(ctx, i) == nil
}

// runsAgain reports whether a retry replaces an object, because applying it would not restart it: a hook's Job or Pod, or one that
// is not ready. One that is has nothing to do with the failure: a migration does not run twice (R44).
func (t *Target) runsAgain(ctx context.Context, i *resource.Info, f *manifest.Fact, obj plan.Object) (bool, error) {
	if obj.Kind != "Job" && obj.Kind != "Pod" {
		return false, nil
	}
	if t.hooks[obj] != nil {
		return true, nil
	}
	live, err := t.read(ctx, i)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s: %w", obj, err)
	}
	return !isReady(live, f), nil
}

// stays returns the response for an object that a retry does not send, because it is ready and would run again: it has a
// generateName, or is a Job that the cluster deletes after its end (R44).
func (t *Target) stays(ctx context.Context, i *resource.Info, f *manifest.Fact, obj plan.Object) (out run.Response, stays bool, err error) {
	version, finished := t.expiring[obj].finished()
	if t.hooks[obj] != nil || !finished && (!f.Generated || i.Name == "") {
		return out, false, nil
	}
	live, err := t.read(ctx, i)
	switch {
	case apierrors.IsNotFound(err):
		stays = finished
	case err != nil:
		return out, false, fmt.Errorf("read %s: %w", ObjectOf(i), err)
	case isReady(live, f):
		stays, version = true, status.ParseVersion(live.GetResourceVersion())
	}
	out = run.Response{Change: event.Unchanged, Version: version}
	if f.Generated {
		out.Name = i.Name
	}
	return out, stays, nil
}

// isReady reports whether an object is ready now; a Job only if it is complete.
func isReady(live *unstructured.Unstructured, f *manifest.Fact) bool {
	rule := f.Rule
	rule.JobsComplete = true
	return status.Compute(live, rule, time.Now()).Status == event.Ready
}
