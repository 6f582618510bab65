package release

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/kube/charts"
)

// Pruned is what a later run must know of a revision that was never deployed: its objects may be left, even if the limit of the
// history, maybe Helm's, has deleted its record (R32a). Each record has all such revisions before its own.
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

// Pruned returns the revisions without a record that may have left something, the newest first. They have a name, a manifest, a
// status and their Span.
func (r *Revisions) Pruned() (out []*rel1.Release) {
	known := map[int]bool{}
	for _, rel := range r.All {
		known[rel.Version] = true
	}
	for _, rel := range slices.Backward(r.All) {
		for _, p := range r.prunedIn(rel) {
			if known[p.Revision] {
				continue
			}
			known[p.Revision] = true
			out = append(out, &rel1.Release{
				Name: rel.Name, Namespace: rel.Namespace, Version: p.Revision, Manifest: p.Manifest, Chart: &chart.Chart{Metadata: rel.Chart.Metadata},
				Info: &rel1.Info{Status: rcommon.StatusFailed, FirstDeployed: p.Span.From, LastDeployed: p.Span.To},
			})
		}
	}
	slices.SortStableFunc(out, func(a, b *rel1.Release) int { return b.Version - a.Version })
	return out
}

// neverDeployed returns the stored revisions that may have left something, although none was deployed.
func (r *Revisions) neverDeployed() (out []*rel1.Release) {
	for _, rel := range r.All {
		if !WasDeployed(rel) && rel.Info.Status != rcommon.StatusUninstalled && rel.Version > r.cleaned() {
			out = append(out, rel)
		}
	}
	return out
}

// toNote returns what the record of the next revision has to say about those that were never deployed.
func (r *Revisions) toNote(span func(*rel1.Release) Span) (all []Pruned) {
	for _, rel := range slices.Concat(r.Pruned(), r.neverDeployed()) {
		all = append(all, Pruned{rel.Version, span(rel), namesIn(rel)})
	}
	return all
}

// namesIn returns the manifest of a revision with only the kinds and names of its objects, without those that a removal keeps.
func namesIn(rel *rel1.Release) string {
	docs, _, err := charts.ParseManifest(rel.Manifest, rel.Chart.Name())
	if err != nil {
		return rel.Manifest // a later run says that it cannot be read
	}
	var out strings.Builder
	for _, d := range docs {
		if d.Object.GetName() == "" || charts.Keeps(d.Object.GetAnnotations()) {
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

// logHistory records the revisions that were read last.
func (d *Driver) logHistory(list []release.Releaser) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	d.log.history = Revisions{}
	for _, r := range list {
		if rel, err := AsV1(r); err == nil {
			d.log.history.All = append(d.log.history.All, rel)
		}
	}
	slices.SortFunc(d.log.history.All, func(a, b *rel1.Release) int { return a.Version - b.Version })
}

// keep makes deleteKept delete a record, if it is pruned and the next one has to have what is in it. It returns its revision, or nil.
func (d *Driver) keep(key string) *rel1.Release {
	if d.opts.Span == nil {
		return nil
	}
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	h := &d.log.history
	for _, rel := range h.All {
		if Keys(rel.Name, []int{rel.Version})[0] == key && (slices.Contains(h.neverDeployed(), rel) || len(h.prunedIn(rel)) > 0) {
			d.log.kept = append(d.log.kept, key)
			return rel
		}
	}
	return nil
}

// deleteKept deletes the records that Delete has kept. If that fails, the next run deletes them: they exceed the limit of the
// history.
func (d *Driver) deleteKept() {
	d.log.mu.Lock()
	keys := d.log.kept
	d.log.kept = nil
	d.log.mu.Unlock()
	for _, key := range keys {
		_, _ = d.inner.Delete(key)
	}
}
