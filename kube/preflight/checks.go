package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/preflight/chartchecks"
	"lockstep/kube/readiness"
	"lockstep/kube/session"
	"lockstep/kube/status"
)

// checkCluster runs the checks that read the cluster, concurrently, and adds their findings to p.
func checkCluster(s *session.Session, p *session.Prepared, incoming Incoming) error {
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
	createsSecret := p.Info.Name != "test" && p.Info.Name != "repair" && connect.RecordResource(connect.StorageDriver()) == "secrets"
	groupsReady := p.Common.WaitStrategy() == helmclient.WaitOrdered && p.Target.Tree != nil
	changes := sync.OnceValue(func() []change { return view.changes(p, incoming) })
	var fieldOwners []plan.Warning
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
		func() findings { return findings{keptPods(changes()), nil} },
		func() findings { return findings{view.checkStorage(planned), nil} },
		func() findings { return findings{view.checkBudgets(planned), nil} },
		func() findings { return findings{view.checkQuotas(planned, createsSecret), nil} },
		func() findings { return findings{view.checkVersions(planned), nil} },
		func() findings { return findings{nil, view.checkReadiness(planned, p)} },
		func() findings { return findings{nil, view.checkOwners(planned)} },
		func() findings { return findings{view.checkTemplateCRDs(incoming, changes), nil} },
		func() findings { return findings{checkPorts(planned, p.Target.Method), nil} },
		func() findings { return view.checkOwn(planned, false) },
		func() findings { return view.checkImages(planned, p) },
		func() findings { return view.checkFields(planned, p) },
		func() (found findings) {
			found, fieldOwners = view.checkChanges(planned, p, changes)
			return found
		},
	}
	found := make([]findings, len(checks))
	concurrently(len(checks), func(i int) { found[i] = checks[i]() })
	addFindings(p, found)
	// Also of an object that belongs to somebody else: they need another flag.
	p.Conflicts = append(p.Conflicts, fieldOwners...)
	if s.Context.Err() != nil { // the checks may have failed because of it
		return fmt.Errorf("check the cluster: %w", context.Cause(s.Context))
	}
	if p.Common.PlanOnly {
		p.Warnings = append(p.Warnings, view.unchecked()...)
	}
	return nil
}

// addFindings adds what the checks found to p. The last check is that of the changes: of an object that an earlier check refuses, it
// only repeats the symptom.
func addFindings(p *session.Prepared, found []findings) {
	for n, f := range found {
		p.Warnings = append(p.Warnings, f.warnings...)
		for _, w := range f.conflicts {
			if n == len(found)-1 && reported(p.Conflicts, w.Object) {
				continue
			}
			p.Conflicts = append(p.Conflicts, w)
		}
	}
}

// checkOwn runs the checks that the chart brings (Replicated's Preflight), or reports only failures of strict ones.
//
// Rule R30c: a check of the chart that fails refuses the operation, unless --skip-preflight is set and the check is not strict.
func (v *clusterView) checkOwn(planned *plannedObjects, onlyStrict bool) (found findings) {
	cluster := chartchecks.Live{
		Context: v.Context, Clientset: v.Client.Clientset, Metadata: v.Client.Metadata, Namespace: v.Common.Namespace,
		Planned: func(crd string) bool {
			return planned.byObject[plan.Object{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: crd}] != nil
		},
	}
	for _, o := range planned.objects {
		if o.Object.Group != "" || o.Kind != "Secret" && o.Kind != "ConfigMap" {
			continue
		}
		for _, r := range chartchecks.Run(o.fields, cluster) {
			switch {
			case onlyStrict && !(r.Fail && r.Strict):
			case r.NotRun != nil:
				found.warnings = append(found.warnings, o.warning("%s: lockstep does not run these checks of the chart: %s", o, strings.Join(r.NotRun, ", ")))
			case r.Err != nil:
				found.warnings = append(found.warnings, o.warning("%s: the chart's check %q was not run: %v", o, r.Name, r.Err))
			case r.Fail && r.Strict:
				found.conflicts = append(found.conflicts, o.warning("%s: the chart's check %q failed: %s; the chart does not let you continue", o, r.Name, said(r)))
			case r.Fail:
				found.conflicts = append(found.conflicts, o.warning("%s: the chart's check %q failed: %s; to continue anyway, pass --skip-preflight", o, r.Name, said(r)))
			default:
				found.warnings = append(found.warnings, o.warning("%s: the chart's check %q warns: %s", o, r.Name, said(r)))
			}
		}
	}
	return found
}

// said is what the chart says about a result.
func said(r chartchecks.Result) string {
	return text.TrimFullStop(cmp.Or(text.Line(r.Message), "it gives no reason"))
}

// checkStrict runs the strict checks of the chart in spite of --skip-preflight.
func checkStrict(s *session.Session, p *session.Prepared, incoming Incoming) error {
	planned, err := newPlannedObjects(p, incoming)
	if err != nil {
		return fmt.Errorf("check the objects: %w", err)
	}
	p.Conflicts = append(p.Conflicts, (&clusterView{Session: s}).checkOwn(planned, true).conflicts...)
	return nil
}

// checkReadiness finds fields in the operator's expressions that their kinds do not have, by the CRDs of the plan, else by
// the schemas of the API server (R22b).
func (v *clusterView) checkReadiness(planned *plannedObjects, p *session.Prepared) []plan.Warning {
	if len(p.Common.Readiness) == 0 {
		return nil
	}
	var objects []readiness.Kinded
	var crds []map[string]any
	for _, o := range planned.objects {
		if o.defines.Kind != "" {
			crds = append(crds, o.fields)
		}
		if !o.hook {
			objects = append(objects, readiness.Kinded{Object: readiness.Object{Object: o.Object, Labels: labelsOf(o.fields)}, GVK: o.gvk})
		}
	}
	served := readiness.ServedSchemas(v.Client.Clientset.Discovery().OpenAPIV3())
	return p.Common.Operator().CheckFields(objects, func(gvk schema.GroupVersionKind) status.Schema {
		for _, crd := range crds {
			if s := readiness.DefinedSchema(crd, gvk); s.Known() {
				return s
			}
		}
		return served(gvk)
	})
}

// checkWaits returns an error if an object's own readiness timeout exceeds the timeout of the operation (R25), and warns
// about what the operator says of objects that the plan does not have.
func checkWaits(p *session.Prepared, incoming *Incoming) error {
	for g := range event.Groups(p.Phases) {
		for _, w := range g.Waits {
			if w.Timeout > p.Common.Timeout {
				return fmt.Errorf("%s: the readiness timeout %s (%s) exceeds the timeout %s of the operation: lower the first or raise --timeout (R25)",
					w.Object, w.Timeout, w.Source, p.Common.Timeout)
			}
			if limit := cmp.Or(w.Timeout, p.Common.ReadinessTimeout); w.StableFor > 0 && w.StableFor >= limit {
				return fmt.Errorf("%s: %s is %s, so it cannot become ready within its readiness timeout %s: lower the first or raise --readiness-timeout (R22c)",
					w.Object, plan.AnnotationStableFor, w.StableFor, limit)
			}
		}
	}
	if incoming == nil || incoming.Builder == nil {
		return nil
	}
	var objects []readiness.Object
	for _, o := range p.Common.Outside() {
		objects = append(objects, readiness.Object{Object: o})
	}
	for _, i := range incoming.List {
		if f := incoming.Builder.Fact(i); f != nil {
			objects = append(objects, readiness.Object{Object: f.Resource.Object, Labels: f.Resource.Labels})
			outside, _ := plan.ReadWaitFor(f.Resource.Annotations) // with those that the operator does not wait for
			for _, o := range outside {
				objects = append(objects, readiness.Object{Object: o})
			}
		}
	}
	var named []plan.Object
	for _, o := range objects {
		named = append(named, o.Object)
	}
	p.Unmatched = p.Common.Replacements().Unmatched(named)
	maps.Copy(p.Unmatched, p.Common.Operator().Unmatched(objects))
	for _, key := range slices.Sorted(maps.Keys(p.Unmatched)) {
		if p.Common.Provided == nil {
			p.Warnings = append(p.Warnings, p.Unmatched[key])
		}
	}
	return nil
}

func labelsOf(fields map[string]any) map[string]string {
	labels, _, _ := unstructured.NestedStringMap(fields, "metadata", "labels")
	return labels
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

// findApprovals makes the groups that match --approve-before ask for an approval, and finds those that --approve approves.
// deploys is set if the chart is applied: what Chart.yaml asks for comes before hooks, crds/ and the namespace, too (R42a).
func findApprovals(p *session.Prepared, deploys bool) error {
	var groups []*plan.Group
	for g := range event.Groups(p.Phases) {
		if groups = append(groups, g.Group); p.Common.NoApprovals {
			g.Approve = nil
			continue
		}
		if g.Phase.Kind == event.PhaseApply || g.Phase.Kind == event.PhaseRemove || !deploys {
			continue
		}
		root := p.Target.Release.Chart // its record may have no room for the tree
		asked := plan.NewChart(root.Name(), root.Metadata.Annotations).Approvals(root.Name())
		tree := cmp.Or(p.Target.Tree, p.Apply.Charts)
		for _, path := range chartsOf(p, g) {
			asked = append(asked, tree.Approvals(path)...)
		}
		for _, a := range asked {
			if !slices.Contains(g.Approve, a) {
				g.Approve = append(g.Approve, a)
			}
		}
	}
	asked, err := pickGroups("--approve-before", p.Common.ApproveBefore, p.Phases)
	approved, errApprove := pickGroups("--approve", p.Common.Approve, p.Phases)
	for _, g := range groups {
		if slices.Contains(asked, g.ID) {
			g.AskApproval("")
		}
		if slices.Contains(approved, g.ID) && len(g.Approve) > 0 {
			p.Approved = append(p.Approved, g.ID)
		}
	}
	return errors.Join(err, errApprove)
}

// chartsOf returns the paths of the charts whose unit is the namespace, crds/ or a hook.
func chartsOf(p *session.Prepared, g event.PlannedGroup) []string {
	paths := []string{p.Target.Root()}
	switch g.Phase.Kind {
	case event.PhaseCRDs:
		for _, d := range p.Target.CRDs.Docs {
			paths = append(paths, d.Chart)
		}
	case event.PhaseHooks:
		for _, h := range p.Target.Release.Hooks {
			docs, _, err := charts.ParseManifestWith(p.Common.Reader(), "# Source: "+h.Path+"\n"+h.Manifest, p.Target.Root())
			if err != nil || h.Name != "" && g.Name != h.Kind+"/"+h.Name { // one that is unreadable fails before it is sent
				continue
			}
			for _, d := range docs {
				paths = append(paths, d.Chart)
			}
		}
	}
	return paths
}

// pickGroups returns the ids of the groups that match the arguments of a flag (R42), also with an error about those that match none.
func pickGroups(flag string, texts []string, phases []event.Phase) (ids []string, err error) {
	var groups []*plan.Group
	for _, p := range phases {
		groups = append(groups, p.Groups...)
	}
	for _, text := range texts {
		found, missing := plan.PickBreakpoint(text, groups)
		if missing != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", flag, missing))
		}
		ids = append(ids, found...)
	}
	return ids, err
}
