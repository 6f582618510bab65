package diagnose

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReplaceAdvice: nobody is told to replace a claim without hearing that its data is deleted (R30b).
func TestReplaceAdvice(t *testing.T) {
	for kind, deletes := range map[string]bool{"PersistentVolumeClaim": true, "StatefulSet": false, "Job": false} {
		got := replaceAdvice(&metav1.StatusDetails{Kind: kind, Name: "x"})
		if !strings.Contains(got, "--replace "+kind+"/x") || strings.Contains(got, "deletes its data") != deletes {
			t.Errorf("%s: %q", kind, got)
		}
	}
}
