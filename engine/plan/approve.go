package plan

import (
	"slices"
	"strings"
)

// AnnotationApprove makes the run wait for an approval before the group of the annotated object starts or, in Chart.yaml,
// before anything of the chart does. Its value is the reason (R42a).
const AnnotationApprove = "lockstep/approve"

// Approval is what must be approved before a group starts (R42a).
type Approval struct {
	// Of is the id of the group, or the path of its chart if Chart.yaml asks for the approval.
	Of string `json:"of"`
	// Reason is why, "" if nobody said.
	Reason string `json:"reason,omitempty"`
}

// ReadApprove reads the annotation. A blank value and "false" ask for nothing, "true" gives no reason.
func ReadApprove(annotations map[string]string) (reason string, asked bool) {
	reason = strings.Join(strings.Fields(annotations[AnnotationApprove]), " ")
	switch reason {
	case "", "false":
		return "", false
	case "true":
		return "", true
	}
	return reason, true
}

// AskApproval makes a group wait for an approval of its own, in addition to others. Reasons that differ are joined.
func (g *Group) AskApproval(reason string) {
	i := slices.IndexFunc(g.Approve, func(a Approval) bool { return a.Of == g.ID })
	switch {
	case i < 0:
		g.Approve = append(g.Approve, Approval{g.ID, reason})
	case g.Approve[i].Reason == "":
		g.Approve[i].Reason = reason
	case reason != "" && !slices.Contains(strings.Split(g.Approve[i].Reason, "; "), reason):
		g.Approve[i].Reason += "; " + reason
	}
}

// addApprovals makes a group wait for the approvals that its members, its chart and the parents of that ask for.
func (g *Group) addApprovals(members []*member, chart *chartNode) {
	for ; chart != nil; chart = chart.parent {
		if chart.approval != nil {
			g.Approve = append(g.Approve, *chart.approval)
		}
	}
	for _, m := range members {
		if reason, asked := ReadApprove(m.Annotations); asked {
			g.AskApproval(reason)
		}
	}
}
