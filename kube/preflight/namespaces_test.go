package preflight

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestWhyTerminating: all conditions that are true say why a namespace still exists.
func TestWhyTerminating(t *testing.T) {
	const conditions = `{status: {conditions: [
	{type: NamespaceDeletionGroupVersionParsingFailure, status: "True", message: parsing failed},
	{type: NamespaceDeletionContentFailure, status: "False", message: "All content successfully deleted"},
	{type: NamespaceContentRemaining, status: "True", message: "pods. has 1 resource instances"},
	{type: NamespaceFinalizersRemaining, status: "True"}]}}`
	for text, want := range map[string]string{
		conditions: ": parsing failed; pods. has 1 resource instances",
		"{}":       "",
	} {
		ns := fromYAML[corev1.Namespace](t, text)
		if got := whyTerminating(&ns); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
