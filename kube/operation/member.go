package operation

import (
	"context"
	"fmt"
	"slices"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
)

// The methods in this file are for stacks, which run one operation per release.

// Provides returns the objects that the operation creates.
func (op *Operation) Provides() (*preflight.Provided, error) { return op.prepared.Provides() }

// NeedsReplan reports whether the plan may change once the releases that this one needs are deployed, because they may add kinds
// and the templates may ask which kinds the cluster serves.
func (op *Operation) NeedsReplan() (bool, error) {
	target := op.prepared.Target.Release
	if target == nil || !op.prepared.Common.Provided.MayAddKinds() {
		return false, nil
	}
	return charts.AsksCluster(target.Chart, target.Config), nil
}

// Unchanged reports whether the operation is an upgrade that would change nothing: not the chart, the values or the
// manifests, and no object in the cluster. It writes nothing.
//
// Rule S4: a stack skips an unchanged release without a new revision.
func (op *Operation) Unchanged(ctx context.Context) (bool, error) {
	p := op.prepared
	if p.Info.Name != "upgrade" || p.Resumes || len(p.Marks) > 0 {
		return false, nil
	}
	if p.Last == nil || p.Last.Info.Status != rcommon.StatusDeployed || !sameRelease(p.Target.Release, p.Last) {
		return false, nil
	}
	changes, err := op.Changes(ctx)
	if err != nil {
		return false, fmt.Errorf("compare release %s with the cluster: %w", p.Common.Release, err)
	}
	for _, c := range changes {
		if c.Modifies() && !c.HasRun || c.Action == preview.ActionRefuse {
			return false, nil
		}
	}
	return true, nil
}

// CreatedAndKept reports whether Run has created a revision and has not started to roll it back.
func (op *Operation) CreatedAndKept() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.createdRevision(op.attempt) && !op.rollbackStarted
}

// sameRelease reports whether a rendered revision has the same chart, values, labels and manifests as a stored one.
func sameRelease(rendered, stored *rel1.Release) bool {
	sameHook := func(a, b *rel1.Hook) bool { return charts.RewriteKeys(a.Manifest) == b.Manifest && a.Path == b.Path }
	if rendered.Chart == nil || stored.Chart == nil || charts.RewriteKeys(rendered.Manifest) != stored.Manifest ||
		!slices.EqualFunc(rendered.Hooks, stored.Hooks, sameHook) || !sameValues(rendered.Config, stored.Config) {
		return false
	}
	for label, value := range rendered.Labels {
		if stored.Labels[label] != value {
			return false
		}
	}
	a, b := rendered.Chart.Metadata, stored.Chart.Metadata
	return a.Name == b.Name && a.Version == b.Version && a.AppVersion == b.AppVersion
}

// sameValues compares values in the form in which they are stored.
func sameValues(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := charts.YAML(a)
	y, errY := charts.YAML(b)
	return errX == nil && errY == nil && x == y
}

// FindGroups returns the ids of the groups that match an argument of --break-on, nil if none match or it is ambiguous.
func (op *Operation) FindGroups(text string) []string {
	var groups []*plan.Group
	for g := range event.Groups(op.Phases()) {
		groups = append(groups, g.Group)
	}
	ids, err := plan.Pick(text, groups)
	if err != nil {
		return nil
	}
	return ids
}

// BreakOn sets breakpoints on groups, by their ids. Each is event.Set or event.Disabled. Call it before Run.
func (op *Operation) BreakOn(breakpoints map[string]event.Status) {
	op.mu.Lock()
	defer op.mu.Unlock()
	for id, status := range breakpoints {
		if status == event.Disabled {
			op.disabledBreakpoints = append(op.disabledBreakpoints, id)
		} else {
			op.breakpoints = append(op.breakpoints, id)
		}
	}
}
