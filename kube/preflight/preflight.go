// Package preflight runs all checks before the first write (Check).
package preflight

import (
	"context"
	"fmt"

	"lockstep/kube/lease"
	"lockstep/kube/session"
)

// Check runs the last checks: of the breakpoints, the permissions, and the target's objects against
// the cluster. It returns a copy of prepared with their warnings, or a *Refusal with all conflicts.
// incoming is nil if nothing is applied.
func Check(s *session.Session, prepared *session.Prepared, incoming *Incoming) (*session.Prepared, error) {
	s.Common.ReportStep("checking the plan against the cluster")
	checked := *prepared
	p := &checked
	if s.Context.Err() != nil { // prepared may be based on failed reads
		return nil, fmt.Errorf("prepare the %s: %w", p.Info.Name, context.Cause(s.Context))
	}
	refuseLostOrder(p)
	var err error
	p.Breakpoints, err = pickGroups("--break-on", p.Common.BreakOn, p.Phases)
	if err != nil && p.Common.Journal.Before().Start == nil { // what the next pod of a Job plans may lack what is done
		return nil, err
	}
	if err := findApprovals(p, incoming != nil); err != nil {
		return nil, err
	}
	if err := checkWaits(p, incoming); err != nil {
		return nil, err
	}
	if !p.Common.SkipPreflight {
		if err := checkPermissions(s, p, incoming); err != nil {
			return nil, err
		}
		if incoming != nil {
			if err := checkCluster(s, p, *incoming); err != nil {
				return nil, err
			}
		}
	} else if incoming != nil {
		if err := checkStrict(s, p, *incoming); err != nil {
			return nil, err
		}
	}
	askBeforeReplacements(p)
	removed, err := checkRemovedCRDs(s, p)
	if err != nil {
		return nil, err
	}
	p.Warnings = append(p.Warnings, removed...)
	if p.Common.PlanOnly {
		return p, nil
	}
	if len(p.Conflicts) > 0 {
		return nil, refusal(p)
	}
	if p.Lease.Status == lease.Unavailable {
		p.Warnings = append(p.Warnings, p.Lease.Warning())
	}
	return p, nil
}
