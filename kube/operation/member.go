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

// Stale reports whether the plan may change once the releases that it depends on are
// deployed, because they add kinds and the templates may ask which kinds the cluster serves.
func (op *Operation) Stale() (bool, error) {
	target := op.prepared.Target.Release
	if target == nil || !op.prepared.Common.Provided.MayAddKinds() {
		return false, nil
	}
	return charts.AsksCluster(target.Chart, target.Config), nil
}

// Unchanged reports whether the operation would change nothing: not the chart, its values or its
// manifests, and no object in the cluster. It sends read requests only.
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
		if c.Real() || c.Action == preview.ActionRefuse {
			return false, nil
		}
	}
	return true, nil
}

// sameRelease reports whether a, a revision to be stored, has the same chart, values and
// manifests as b, a stored one.
func sameRelease(a, b *rel1.Release) bool {
	sameHook := func(a, b *rel1.Hook) bool { return charts.RewriteKeys(a.Manifest) == b.Manifest && a.Path == b.Path }
	if a.Chart == nil || b.Chart == nil || charts.RewriteKeys(a.Manifest) != b.Manifest ||
		!slices.EqualFunc(a.Hooks, b.Hooks, sameHook) || !sameValues(a.Config, b.Config) {
		return false
	}
	for label, value := range a.Labels {
		if b.Labels[label] != value {
			return false
		}
	}
	x, y := a.Chart.Metadata, b.Chart.Metadata
	return x.Name == y.Name && x.Version == y.Version && x.AppVersion == y.AppVersion
}

// sameValues compares values as they are stored.
func sameValues(a, b map[string]any) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	x, errX := charts.YAML(a)
	y, errY := charts.YAML(b)
	return errX == nil && errY == nil && x == y
}

// FindGroups returns the ids of the groups that match a --break-on argument, nil if none
// match or the argument is ambiguous.
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

// BreakOn sets breakpoints on groups, by their ids, before Run. Each is Set or Disabled.
func (op *Operation) BreakOn(breakpoints map[string]event.Status) {
	op.mu.Lock()
	defer op.mu.Unlock()
	for id, status := range breakpoints {
		if status == event.Disabled {
			op.disabled = append(op.disabled, id)
		} else {
			op.breakpoints = append(op.breakpoints, id)
		}
	}
}
