package diagnose

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
)

// TestReplaceAdvice: nobody is told to replace a claim without hearing that its data is deleted (R30b).
func TestReplaceAdvice(t *testing.T) {
	for kind, deletes := range map[string]bool{"PersistentVolumeClaim": true, "StatefulSet": false, "Job": false} {
		got := replaceAdvice(&metav1.StatusDetails{Kind: kind, Name: "x"}, []string{"spec: field is immutable"})
		if !strings.Contains(got, "--replace "+kind+"/x") || strings.Contains(got, "deletes its data") != deletes {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

// TestWritesWithoutAnAnswer: a write that was not sent, or has no answer, is reported without what Helm and client-go put in front of
// the reason, and stays the error that it is.
func TestWritesWithoutAnAnswer(t *testing.T) {
	lost := errors.New("another run or Helm changed release r")
	for text, reason := range map[string]error{
		"not applied: another run or Helm changed release r": fmt.Errorf("not sent: %w", lost), "not applied: unexpected EOF": io.ErrUnexpectedEOF,
	} {
		err := fmt.Errorf("server-side apply failed for object ns/c apps/v1, Kind=StatefulSet: %w", &url.Error{Op: "Patch", URL: "https://127.0.0.1:1/apis", Err: reason})
		got := (&Diagnoser{}).ExplainRefusal(t.Context(), plan.Object{Kind: "StatefulSet", Name: "c"}, err)
		if got.Error() != text || !errors.Is(got, reason) {
			t.Errorf("%v, want %s", got, text)
		}
	}
}
