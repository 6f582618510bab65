package preflight

import (
	"context"
	"fmt"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
)

// checkCluster runs the checks that read the cluster concurrently and adds their findings to p.
func (s *Session) checkCluster(p *Prepared, incoming Incoming) error {
	mapper, err := s.Client.Getter.ToRESTMapper()
	if err != nil {
		return err
	}
	t, err := newPlannedObjects(p, incoming)
	if err != nil {
		return fmt.Errorf("check the objects: %w", err)
	}
	view := &clusterView{Session: s, mapper: mapper}
	if p.Target.NewNamespace {
		view.newNamespace = p.Common.Namespace
	}
	record := p.Info.Name != "test" && connect.RecordResource(connect.StorageDriver()) == "secrets"
	waits := waitPolicy{groupsReady: p.Common.Strategy() == helmclient.WaitOrdered && p.Target.Tree != nil, jobsComplete: p.Common.WaitForJobs}
	checks := []func() findings{
		func() findings {
			namespaces := view.namespaces(t)
			warnings, refused := checkNamespaces(t, namespaces, p.Common.Namespace)
			warnings = append(warnings, checkPodSecurity(t, namespaces)...)
			return findings{append(warnings, view.checkWebhooks(t, namespaces)...), refused}
		},
		func() findings { return findings{view.checkReferences(t, waits), nil} },
		func() findings { return findings{view.checkKeys(t), nil} },
		func() findings { return findings{view.checkStorage(t), nil} },
		func() findings { return findings{view.checkBudgets(t), nil} },
		func() findings { return findings{view.checkQuotas(t, record), nil} },
		func() findings { return findings{view.checkVersions(t), nil} },
		func() findings { return view.checkFields(t, p) },
	}
	found := make([]findings, len(checks))
	each(len(checks), func(i int) { found[i] = checks[i]() })
	for _, f := range found {
		p.Warnings, p.Refused = append(p.Warnings, f.warnings...), append(p.Refused, f.refused...)
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
