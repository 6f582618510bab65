package preflight

import (
	"context"
	"fmt"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
)

// checkCluster concurrently runs the checks that read the cluster, and adds their findings to p.
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
	record := p.Info.Name != "test" && connect.RecordResource(connect.StorageDriver()) == "secrets"
	waits := waitPolicy{
		groupsReady:  p.Common.Strategy() == helmclient.WaitOrdered && p.Target.Tree != nil,
		jobsComplete: p.Common.WaitForJobs,
	}
	checks := []func() findings{
		func() findings {
			namespaces := view.namespaces(planned)
			warnings, refused := checkNamespaces(planned, namespaces, p.Common.Namespace)
			warnings = append(warnings, checkPodSecurity(planned, namespaces)...)
			return findings{append(warnings, view.checkWebhooks(planned, namespaces)...), refused}
		},
		func() findings { return findings{view.checkReferences(planned, waits), nil} },
		func() findings { return findings{view.checkKeys(planned), nil} },
		func() findings { return findings{view.checkStorage(planned), nil} },
		func() findings { return findings{view.checkBudgets(planned), nil} },
		func() findings { return findings{view.checkQuotas(planned, record), nil} },
		func() findings { return findings{view.checkVersions(planned), nil} },
		func() findings { return view.checkFields(planned, p) },
	}
	found := make([]findings, len(checks))
	each(len(checks), func(i int) { found[i] = checks[i]() })
	for _, f := range found {
		p.Warnings = append(p.Warnings, f.warnings...)
		p.Refused = append(p.Refused, f.refused...)
	}
	if s.Context.Err() != nil { // requests may have failed because of it
		return fmt.Errorf("check the cluster: %w", context.Cause(s.Context))
	}
	if p.Common.PlanOnly {
		p.Warnings = append(p.Warnings, view.unchecked()...)
	}
	return nil
}

// findings are the results of one check.
type findings struct{ warnings, refused []plan.Warning }
