package release

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/kube/charts"
)

// Pruned is what a later run must know of a revision that was never deployed, and whose record was deleted because of the limit
// of the history: its objects may be left (R32a). Each record has those that its run deleted, and those that were in them.
type Pruned struct {
	Revision int  `json:"revision"`
	Span     Span `json:"span"`
	// Manifest has only the kinds and names of the objects.
	Manifest string `json:"manifest"`
}

// cleaned returns the last revision that lockstep has deployed, 0 for none: nothing of earlier ones is left over.
func (r *Revisions) cleaned() int {
	for _, rel := range slices.Backward(r.All) {
		if record := ReadRecord(rel); WasDeployed(rel) && record != nil && record.Authored == rel.Version {
			return rel.Version
		}
	}
	return 0
}

// prunedIn returns the revisions in the record of a revision that may have left something.
func (r *Revisions) prunedIn(rel *rel1.Release) (all []Pruned) {
	record, cleaned := ReadRecord(rel), r.cleaned()
	if record == nil || record.Authored != rel.Version {
		return nil
	}
	return slices.DeleteFunc(record.Pruned, func(p Pruned) bool { return p.Revision < cleaned })
}

// Pruned returns the pruned revisions that may have left something, the newest first. They have a name, a manifest, a status and
// their Span.
func (r *Revisions) Pruned() (out []*rel1.Release) {
	for _, rel := range slices.Backward(r.All) {
		for _, p := range r.prunedIn(rel) {
			out = append(out, &rel1.Release{
				Name: rel.Name, Namespace: rel.Namespace, Version: p.Revision, Manifest: p.Manifest, Chart: &chart.Chart{Metadata: rel.Chart.Metadata},
				Info: &rel1.Info{Status: rcommon.StatusFailed, FirstDeployed: p.Span.From, LastDeployed: p.Span.To},
			})
		}
	}
	slices.SortStableFunc(out, func(a, b *rel1.Release) int { return b.Version - a.Version })
	return out
}

// notePruned notes for the next record what a deleted revision may have left. An uninstall creates no record, so it forgets it.
func (d *Driver) notePruned(rel *rel1.Release, span Span) {
	revs := &Revisions{All: []*rel1.Release{rel}}
	stored, err := d.inner.Query(map[string]string{"owner": "helm", "name": rel.Name})
	if err != nil {
		stored = nil // then too much is noted
	}
	for _, x := range stored {
		if other, err := AsV1(x); err == nil {
			revs.All = append(revs.All, other)
		}
	}
	slices.SortFunc(revs.All, func(a, b *rel1.Release) int { return a.Version - b.Version })
	all := revs.prunedIn(rel)
	if !WasDeployed(rel) && rel.Info.Status != rcommon.StatusUninstalled && rel.Version > revs.cleaned() {
		all = append(all, Pruned{rel.Version, span, namesIn(rel)})
	}
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	d.log.pruned = append(d.log.pruned, all...)
}

// namesIn returns the manifest of a revision with only the kinds and names of its objects, without those that a removal keeps.
func namesIn(rel *rel1.Release) string {
	docs, _, err := charts.ParseManifest(rel.Manifest, rel.Chart.Name())
	if err != nil {
		return rel.Manifest // a later run says that it cannot be read
	}
	var out strings.Builder
	for _, d := range docs {
		if d.Object.GetName() == "" || d.Object.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy {
			continue
		}
		metadata := map[string]string{"name": d.Object.GetName()}
		if ns := d.Object.GetNamespace(); ns != "" {
			metadata["namespace"] = ns
		}
		object, err := json.Marshal(map[string]any{"apiVersion": d.Object.GetAPIVersion(), "kind": d.Object.GetKind(), "metadata": metadata})
		if err == nil {
			fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", d.Source, object)
		}
	}
	return out.String()
}
