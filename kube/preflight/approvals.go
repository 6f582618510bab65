package preflight

import (
	"errors"
	"fmt"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/session"
)

// findApprovals makes the groups that match --approve-before ask for an approval, and finds those that --approve approves.
// deploys is set if the chart is applied: what Chart.yaml asks for comes before hooks, crds/ and the namespace, too (R42a).
func findApprovals(p *session.Prepared, deploys bool) error {
	var groups []*plan.Group
	for g := range event.Groups(p.Phases) {
		groups = append(groups, g.Group)
		if g.Phase.Kind == event.PhaseApply || g.Phase.Kind == event.PhaseRemove || !deploys {
			continue
		}
		chart := p.Target.Release.Chart
		if reason, asked := plan.ReadApprove(chart.Metadata.Annotations); asked {
			g.Approve = append(g.Approve, plan.Approval{Of: chart.Name(), Reason: reason})
		}
	}
	asked, err := pickGroups("--approve-before", p.Common.ApproveBefore, groups)
	for _, g := range groups {
		if asked[g.ID] {
			g.AskApproval("")
		}
	}
	approved, errApprove := pickGroups("--approve", p.Common.Approve, groups)
	for _, g := range groups {
		if approved[g.ID] && len(g.Approve) > 0 {
			p.Approved = append(p.Approved, g.ID)
		}
	}
	return errors.Join(err, errApprove)
}

// pickGroups returns the ids of the groups that match the arguments of a flag.
func pickGroups(flag string, texts []string, groups []*plan.Group) (ids map[string]bool, err error) {
	ids = map[string]bool{}
	for _, text := range texts {
		found, missing := plan.PickBreakpoint(text, groups)
		if missing != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", flag, missing))
		}
		for _, id := range found {
			ids[id] = true
		}
	}
	return ids, err
}
