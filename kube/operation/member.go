package operation

import (
	"context"
	"fmt"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/preflight"
)

// What a stack needs to know of the operations on its releases.

// Provided are objects that other releases bring before an operation starts (S3).
type Provided = preflight.Provided

// Provides are the objects that the operation brings.
func (op *Operation) Provides() (*Provided, error) { return op.prepared.Provides() }

// Stale reports whether the plan may be another one once the releases that it counts on are
// deployed: they bring new kinds, and the templates may ask the cluster what it serves.
func (op *Operation) Stale() (bool, error) {
	target := op.prepared.Target.Release
	if target == nil || !op.prepared.Common.Provided.Kinds() {
		return false, nil
	}
	return charts.AsksCluster(target.Chart, target.Config), nil
}

// Rule S4: a release that nothing changes is passed without a new revision.
//
// Unchanged reports whether the operation would change nothing: not the chart, its values
// and its objects' manifests, and no object in the cluster. It sends requests and writes
// nothing.
func (op *Operation) Unchanged(ctx context.Context) (bool, error) {
	p := op.prepared
	next, last := p.Target.Release, p.Last
	if p.Info.Name != "upgrade" || p.Resumes || len(p.Marks) > 0 || last == nil || last.Info.Status != rcommon.StatusDeployed || !sameRelease(next, last) {
		return false, nil
	}
	changes, err := op.Changes(ctx)
	if err != nil {
		return false, fmt.Errorf("compare release %s with the cluster: %w", p.Common.Release, err)
	}
	for _, c := range changes {
		if c.Real() || c.Action == "refuse" {
			return false, nil
		}
	}
	return true, nil
}

// sameRelease reports whether a revision to store has the same chart, values and manifests as
// a stored one.
func sameRelease(a, b *rel1.Release) bool {
	if a.Chart == nil || b.Chart == nil || charts.Respell(a.Manifest) != b.Manifest || len(a.Hooks) != len(b.Hooks) || !sameValues(a.Config, b.Config) {
		return false
	}
	for n := range a.Hooks {
		if charts.Respell(a.Hooks[n].Manifest) != b.Hooks[n].Manifest || a.Hooks[n].Path != b.Hooks[n].Path {
			return false
		}
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

// FindGroups are the ids of the groups that a text names, as --break-on reads it; none if
// it names none, or is ambiguous.
func (op *Operation) FindGroups(text string) []string {
	var groups []*plan.Group
	for _, p := range op.Phases() {
		groups = append(groups, p.Groups...)
	}
	ids, err := plan.Pick(text, groups)
	if err != nil {
		return nil
	}
	return ids
}

// BreakOn sets breakpoints on groups, by their ids, before Run.
func (op *Operation) BreakOn(ids []string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.breaks = append(op.breaks, ids...)
}
