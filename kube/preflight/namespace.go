package preflight

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
	"lockstep/kube/lease"
)

// CheckNamespace reports whether the namespace must be created. A missing one that will not
// be created is an error; one that cannot be read is not. A terminating one that will be
// created again is waited for until the session ends.
func (s *Session) CheckNamespace(create bool) (missing bool, err error) {
	name, waited := s.Common.Namespace, ""
	for {
		ns, err := s.Client.Clientset.CoreV1().Namespaces().Get(s.Context, name, metav1.GetOptions{})
		switch {
		case s.Context.Err() != nil && waited != "":
			return false, fmt.Errorf("%s: %w", waited, context.Cause(s.Context))
		case apierrors.IsNotFound(err) && s.Common.Provided.Has(plan.Object{Kind: "Namespace", Name: name}):
			return false, nil
		case apierrors.IsNotFound(err) && !create:
			return false, fmt.Errorf("namespace %s does not exist: create it, or use --create-namespace", name)
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return false, fmt.Errorf("read namespace %s: %w", name, err)
		case err == nil && ns.DeletionTimestamp != nil && create && !s.Common.PlanOnly:
		default:
			if waited != "" && s.Lease.Kind != lease.Unavailable { // what was there of it is gone
				s.Lease = lease.State{}
			}
			return apierrors.IsNotFound(err), nil
		}
		if text := fmt.Sprintf("waiting for namespace %s to be deleted%s", name, lingering(ns)); text != waited {
			waited = text
			s.Common.Begin(text)
		}
		select {
		case <-s.Context.Done():
		case <-time.After(time.Second):
		}
	}
}

// lingering returns why a terminating namespace still exists, as far as known: its
// remaining objects, and the finalizers that keep them.
func lingering(ns *corev1.Namespace) string {
	var why []string
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" {
			why = append(why, c.Message)
		}
	}
	if len(why) == 0 {
		return ""
	}
	return ": " + strings.Join(why, "; ")
}
