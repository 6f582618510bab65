package report

import (
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestOriginHasNoBrackets: the text puts it in brackets.
func TestOriginHasNoBrackets(t *testing.T) {
	o := RecoveredObject{Object: plan.Object{Kind: "Deployment", Name: "web"}, Match: "changed"}
	r := Recovery{Groups: []RecoveredGroup{{ID: "shop:web", Objects: []RecoveredObject{o}}}}
	want := "Deployment/web  ○ waiting (matches no revision: changed or partly applied)\n"
	if got := r.text(Stream{}); !strings.HasSuffix(got, want) {
		t.Errorf("%q does not end with %q", got, want)
	}
}
