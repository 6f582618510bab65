package preflight

import (
	"context"
	"fmt"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
)

// checkCluster runs the checks that read the cluster, concurrently, and adds their findings to p.
func (s *Session) checkCluster(p *Prepared, incoming Incoming) error {
	mapper, err := s.Client.Getter.ToRESTMapper()
	if err != nil {
		return err
	}
	planned, err := newPlannedObjects(p, incoming)
	if err != nil {
		return fmt.Errorf("check the objects: %w", err)
	}
	view := &clusterView{Session: s, mapper: mapper}
	if p.Target.NewNamespace {
		view.newNamespace = p.Common.Namespace
	}
	createsSecret := p.Info.Name != "test" && connect.RecordResource(connect.StorageDriver()) == "secrets"
	groupsReady := p.Common.WaitStrategy() == helmclient.WaitOrdered && p.Target.Tree != nil
	checks := []func() findings{
		func() findings {
			namespaces := view.namespaces(planned)
			found := checkNamespaces(planned, namespaces, p.Common)
			found.warnings = append(found.warnings, checkPodSecurity(planned, namespaces)...)
			found.warnings = append(found.warnings, view.checkWebhooks(planned, namespaces)...)
			return found
		},
		func() findings { return findings{view.checkReferences(planned, groupsReady), nil} },
		func() findings { return findings{view.checkKeys(planned), nil} },
		func() findings { return findings{planned.checkJobs(), nil} },
		func() findings { return findings{view.checkBlocked(planned), nil} },
		func() findings { return findings{view.checkStorage(planned), nil} },
		func() findings { return findings{view.checkBudgets(planned), nil} },
		func() findings { return findings{view.checkQuotas(planned, createsSecret), nil} },
		func() findings { return findings{view.checkVersions(planned), nil} },
		func() findings { return view.checkFields(planned, p) },
		func() findings { return view.checkChanges(planned, p, incoming) },
	}
	found := make([]findings, len(checks))
	concurrently(len(checks), func(i int) { found[i] = checks[i]() })
	for n, f := range found {
		p.Warnings = append(p.Warnings, f.warnings...)
		for _, w := range f.conflicts {
			if n == len(found)-1 && reported(p.Conflicts, w.Object) { // the checks before it say why
				continue
			}
			p.Conflicts = append(p.Conflicts, w)
		}
	}
	if s.Context.Err() != nil { // the checks may have failed because of it
		return fmt.Errorf("check the cluster: %w", context.Cause(s.Context))
	}
	if p.Common.PlanOnly {
		p.Warnings = append(p.Warnings, view.unchecked()...)
	}
	return nil
}

// reported reports whether there is a conflict of an object.
func reported(conflicts []plan.Warning, o *plan.Object) bool {
	return slices.ContainsFunc(conflicts, func(w plan.Warning) bool { return w.Object != nil && o != nil && *w.Object == *o })
}

// findings are the results of a check.
type findings struct{ warnings, conflicts []plan.Warning }

func (f *findings) add(more findings) {
	f.warnings = append(f.warnings, more.warnings...)
	f.conflicts = append(f.conflicts, more.conflicts...)
}

// findBreakpoints returns the ids of the groups that match --break-on (R42).
func findBreakpoints(texts []string, phases []event.Phase) (ids []string, err error) {
	var groups []*plan.Group
	for _, p := range phases {
		groups = append(groups, p.Groups...)
	}
	for _, text := range texts {
		found, err := plan.PickBreakpoint(text, groups)
		if err != nil {
			return nil, fmt.Errorf("--break-on: %w", err)
		}
		ids = append(ids, found...)
	}
	return ids, nil
}
