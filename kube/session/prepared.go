package session

import (
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
)

// Prepared is a checked and planned operation. It does not change after Check.
type Prepared struct {
	Common Common
	Info   event.Operation
	// Target is the revision to apply, Old the one whose objects are removed.
	Target Target
	Old    OldRevision
	helmclient.Work
	// Phases are all phases, in order.
	Phases []event.Phase
	// Breakpoints are the ids of the groups that match Common.BreakOn.
	Breakpoints []string
	// Approved are the ids of the groups that match Common.Approve.
	Approved []string
	// Warnings are the findings that do not prevent the operation.
	Warnings []plan.Warning
	// Conflicts prevent the operation. After Check there are none, unless PlanOnly is set.
	Conflicts []plan.Warning
	// Unmatched are warnings about what the operator says of objects that the target does not have, by Override.For. The
	// releases of a stack share what the operator says, so theirs are not in Warnings.
	Unmatched map[string]plan.Warning
	Basis
}

// Basis is the state of a release that an operation was planned on.
type Basis struct {
	// Last is the latest revision, nil for none.
	Last *rel1.Release
	// Applied are the revisions that may have applied the objects in the cluster: the deployed one and later ones. It is
	// empty if none is deployed.
	Applied []*rel1.Release
	// Lease is the state of the release's lock (R51).
	Lease lease.State
	// UsualDurations are how long units took last time, from the release's records.
	UsualDurations map[event.Unit]time.Duration
	// Records are the revisions whose records the operation may change.
	Records RecordChanges
	// Marks are written before anything else (R52). Resumes is set if this operation
	// continues one that failed or was interrupted (R50).
	Marks   []release.Mark
	Resumes bool
	// Replaced are the objects that cannot be updated, so that this operation deletes them and creates them again: those that
	// --replace names and, if it resumes, failed Jobs and Pods.
	Replaced []cluster.Replacement
	// NoReturn are the reasons of the points of no return that runs since the revision to roll back to have passed (R33a).
	// Passed says which of their revisions have passed each of them last.
	NoReturn []string
	Passed   []release.Passed
	// StackPoints are those that runs of the release's stack have passed in the release.
	StackPoints []release.StackPoint
	// Taken are the objects that failed revisions have taken over from others. Removals keep them.
	Taken []release.Taken
}

// Replaces returns Replaced by object.
func (b Basis) Replaces() map[plan.Object]cluster.Replacement {
	out := map[plan.Object]cluster.Replacement{}
	for _, r := range b.Replaced {
		out[r.Object] = r
	}
	return out
}

// ReplacedIn returns the objects that groups replace because they cannot be updated, by group.
func (p *Prepared) ReplacedIn() map[string][]cluster.Replacement {
	replaced, in := p.Replaces(), map[string][]cluster.Replacement{}
	for g, o := range event.Objects(p.Phases) {
		if r, found := replaced[o]; found && !r.Failed && g.Phase.Kind == event.PhaseApply {
			in[g.ID] = append(in[g.ID], r)
		}
	}
	return in
}

// PausesBefore says what groups do that --replace=ask pauses the run before.
func (p *Prepared) PausesBefore() map[string]string {
	out := map[string]string{}
	if p.Common.Replacements().Asks() {
		for group, replaced := range p.ReplacedIn() {
			var names []string
			for _, r := range replaced {
				names = append(names, r.String())
			}
			out[group] = phrase.BeforeReplacement(names, replaced[0].What)
		}
	}
	return out
}

// RecordChanges are the revisions whose release records an operation may update or delete.
type RecordChanges struct{ Updated, Deleted []int }

// Target is the revision that an operation applies or, in an uninstall, removes.
type Target struct {
	// Release is the revision as it is or would be stored. Outputs are the outputs of its
	// templates: Helm's action gets them instead of rendering again.
	Release *rel1.Release
	Outputs charts.Outputs
	// Stored means that Release is a stored revision, and not rendered from a chart.
	Stored bool
	// Lookups are what its templates have looked up in the cluster.
	Lookups []connect.Target
	// Tree orders its objects; nil if they are unordered. Record is stored with a new
	// revision; nil if the files of its chart already contain it.
	Tree   *plan.Chart
	Record *release.Record
	CRDs   CRDs
	// Declared is Tree without the inferred order, nil if none is inferred. Undeclared means that the chart declares no other.
	Declared   *plan.Chart
	Undeclared bool
	// NewNamespace is set if the namespace must be created.
	NewNamespace bool
	// Method is how existing objects are updated.
	helmclient.Method
	// Claims are the existing objects that the operation may write to without owning them (R31a).
	Claims manifest.Claims
}

// Root returns the name of the target's root chart.
func (t Target) Root() string {
	if t.Release == nil || t.Release.Chart == nil || t.Release.Chart.Metadata == nil {
		return ""
	}
	return t.Release.Chart.Name()
}

// Build returns the objects of the target.
func (t Target) Build(b *manifest.Builder) (helmkube.ResourceList, []plan.Warning, error) {
	if t.Stored {
		return b.BuildStored(t.Release.Manifest)
	}
	return b.BuildTarget(t.Release.Manifest)
}

// OldRevision is the revision whose objects an operation removes.
type OldRevision struct {
	Release *rel1.Release // nil if there is none
	helmclient.Revision
	List helmkube.ResourceList // its objects
}

// Manifest returns the manifest of the old revision, "" if there is none.
func (o OldRevision) Manifest() string {
	if o.Release == nil {
		return ""
	}
	return o.Release.Manifest
}
