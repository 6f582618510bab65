package status

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
)

// HasFailed reports whether an object is a failed Job or Pod.
func HasFailed(u *unstructured.Unstructured, rule Rule) bool {
	return (u.GetKind() == "Job" || u.GetKind() == "Pod") && Compute(u, rule, time.Now()).Status == event.Failed
}
