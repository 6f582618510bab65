package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/diagnose"
)

// observedTimeout limits how long an apply waits until a StatefulSet's controller has observed it.
const observedTimeout = 15 * time.Second

// replaceBroken deletes the pods of an applied StatefulSet that were never ready, have an older template, and block the
// rollout, because Kubernetes never replaces them. It returns the deleted pods. If a pod may have been ready, or must be kept,
// or may not be deleted, a warning or the cause of the failure says how to delete it.
//
// A StatefulSet whose pods are ready costs no request.
func (t *Target) replaceBroken(ctx context.Context, i *resource.Info, obj plan.Object) (deleted []plan.Object) {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok || obj.Group != "apps" || obj.Kind != "StatefulSet" || t.session.KeepBrokenPods || !diagnose.MayBlock(u) {
		return nil
	}
	for range maxLooks {
		blocked, err := t.awaitObserved(ctx, obj)
		if err != nil {
			return deleted // the diagnosis says why the StatefulSet is not ready
		}
		changed := false
		for _, p := range blocked.Pods {
			if !p.Broken {
				continue
			}
			err := t.session.Client.Clientset.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &p.UID, ResourceVersion: &p.Version},
			})
			switch {
			case err == nil:
				deleted = append(deleted, p.Object)
				t.session.Warn(plan.Warning{Rule: "R32", Object: &obj, Message: fmt.Sprintf("lockstep deleted %s of %s, which was never ready and had an older template: "+
					"Kubernetes does not replace such a pod", p.Object, obj)})
			case apierrors.IsConflict(err): // it may be ready now
				changed = true
			case apierrors.IsNotFound(err):
			default:
				t.session.Warn(plan.Warning{Rule: "R32", Object: &obj, Message: fmt.Sprintf("%s was never ready and has an older template, and Kubernetes does not replace it; "+
					"lockstep cannot delete it: %v; delete it: %s", p.Object, diagnose.Explain(err), p.Advice())})
			}
		}
		if !changed {
			break
		}
	}
	return deleted
}

// awaitObserved waits until the controller of a StatefulSet has observed its spec, and returns the pods that block it.
func (t *Target) awaitObserved(ctx context.Context, obj plan.Object) (blocked *diagnose.BlockedSet, err error) {
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, observedTimeout, true, func(ctx context.Context) (bool, error) {
		var err error
		blocked, err = t.session.Diagnoser().BlockedSet(ctx, obj)
		return err == nil && blocked.Observed, err
	})
	return blocked, err
}
