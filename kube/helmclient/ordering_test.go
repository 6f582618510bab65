package helmclient

import (
	"testing"
	"time"

	"lockstep/engine/plan"
)

// TestPlanOfOutsideObjects: the plan has the operator's timeout for an object outside the release; where the operation does not
// wait in order, it waits for none (R22d, R22b).
func TestPlanOfOutsideObjects(t *testing.T) {
	tls := plan.Object{Kind: "Secret", Name: "tls"}
	resources := []plan.Resource{{Object: plan.Object{Kind: "ConfigMap", Name: "x"}, Chart: "c", WaitFor: []plan.Object{tls}}}
	how := func(plan.Object) plan.Wait { return plan.Wait{Timeout: time.Hour} }
	ordered, _, err := Ordering{WaitOutside: how}.PlanApply(&plan.Chart{Path: "c"}, resources, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g := ordered.Phase.Groups[0]; len(g.WaitFor) != 1 || g.WaitOf(tls).Timeout != time.Hour {
		t.Errorf("in order: %+v", g)
	}
	other, _, err := Ordering{}.PlanApply(&plan.Chart{Path: "c"}, resources, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g := other.Phase.Groups[0]; len(g.WaitFor) > 0 || len(g.Waits) > 0 {
		t.Errorf("not in order: %+v", g)
	}
}
