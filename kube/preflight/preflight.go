// Package preflight runs all checks before the first write. A Session reads the cluster and checks
// the plan; a Prepared is the checked plan of one operation, with its options (Common) and the
// revision that it applies (Target). Packages kube, kube/operation, kube/preview, kube/stack and
// kube/view import it.
package preflight

import (
	"context"
	"fmt"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/readiness"
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
	// Replaced are failed Jobs and Pods that cannot be updated. This operation replaces them, because it resumes.
	Replaced []plan.Object
	// Taken are the objects that failed revisions have taken over from others. Removals keep them.
	Taken []release.Taken
}

// RecordChanges are the revisions whose release records an operation may update or delete.
type RecordChanges struct{ Updated, Deleted []int }

// Target is the revision that an operation applies or, in an uninstall, removes.
type Target struct {
	// Release is the revision as it is or would be stored. Outputs are the outputs of its
	// templates: Helm's action gets them instead of rendering again.
	Release *rel1.Release
	Outputs charts.Outputs
	// Lookups are what its templates have looked up in the cluster.
	Lookups []connect.Target
	// Tree orders its objects; nil if they are unordered. Record is stored with a new
	// revision; nil if the files of its chart already contain it.
	Tree   *plan.Chart
	Record *release.Record
	CRDs   CRDs
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

// OldRevision is the revision whose objects an operation removes.
type OldRevision struct {
	Release *rel1.Release // nil if there is none
	helmclient.Revision
}

// Manifest returns the manifest of the old revision, "" if there is none.
func (o OldRevision) Manifest() string {
	if o.Release == nil {
		return ""
	}
	return o.Release.Manifest
}

// Session is the connection that the checks or one attempt of an operation use. Its requests end
// with Context.
type Session struct {
	Context context.Context
	Client  *connect.Client
	Helm    *connect.Helm
	Common  Common
	Lease   lease.State // set by OpenIfUnlocked, unless PlanOnly is set or the run holds the Lease
	// Ledger tracks the release records.
	Ledger *release.Ledger
	// namespaceUnknown is set if the user may neither read nor create the namespace of the release,
	// although it may have to be created.
	namespaceUnknown bool
}

// CheckRetryTimeout limits how long the checks retry a request after an internal server error (500).
const CheckRetryTimeout = 15 * time.Second

// Open opens a session and checks that the API server answers.
func Open(ctx context.Context, c *connect.Client, common Common) (*Session, error) {
	ctx = connect.WithRetryTimeout(ctx, CheckRetryTimeout)
	ledger := common.Continues
	if ledger == nil {
		ledger = release.NewLedger(common.Namespace, common.Release)
	}
	s, err := NewSession(ctx, c, common, &connect.Writes{}, ledger)
	if err != nil {
		return nil, err
	}
	if err := s.Client.CheckReachable(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenIfUnlocked is like Open, but fails if another run holds the lock (R51, *lease.LockedError) or
// if HELM_DRIVER=memory. With PlanOnly it is the same as Open.
func OpenIfUnlocked(ctx context.Context, c *connect.Client, common Common) (*Session, error) {
	if !common.PlanOnly && connect.StorageDriver() == "memory" {
		return nil, fmt.Errorf("release %s: HELM_DRIVER=memory forgets the release when this operation ends, "+
			"so it could never be upgraded or uninstalled; unset HELM_DRIVER, or set it to secret, configmap or sql", common.Release)
	}
	common.ReportStep("reading release " + common.Release + " in the cluster")
	s, err := Open(ctx, c, common)
	if err != nil || common.PlanOnly || common.RunInProgress != nil && common.RunInProgress.HoldsLease {
		return s, err
	}
	if s.Lease, err = lease.Look(ctx, s.Client.Leases(common.Namespace), common.Release, common.Lease); err != nil {
		return nil, err
	}
	if s.Lease.Status == lease.Live {
		return nil, &lease.LockedError{Release: common.Release, Namespace: common.Namespace, Holder: s.Lease.Holder}
	}
	return s, nil
}

// NewSession returns a session whose requests end with ctx. It sends no request. The session
// counts its writes in writes and tracks the release records in ledger.
func NewSession(ctx context.Context, c *connect.Client, common Common, writes *connect.Writes, ledger *release.Ledger) (*Session, error) {
	bound, err := c.Bind(connect.WithRetryTimeout(ctx, common.ReadinessTimeout), writes)
	if err != nil {
		return nil, err
	}
	helm, err := bound.Helm(common.Namespace)
	if err != nil {
		return nil, err
	}
	helm.Config.Releases.Driver = release.Checked(ledger.Driver(helm.Config.Releases.Driver, bound.Clientset, common.Namespace), common.Mask)
	return &Session{Context: ctx, Client: bound, Helm: helm, Common: common, Ledger: ledger}, nil
}

// LookAtRecords returns a *lease.LostError if somebody else has changed the release records since the ledger was sealed.
func (s *Session) LookAtRecords(ctx context.Context) error { return s.Ledger.Look(ctx, s.Records()) }

// Records returns how to list the records of the release.
func (s *Session) Records() release.Records {
	return s.Ledger.Records(s.Releases(), s.Client.Metadata, connect.RecordResource(connect.StorageDriver()), s.Common.Namespace)
}

// Releases returns Helm's storage of releases.
func (s *Session) Releases() *storage.Storage { return s.Helm.Config.Releases }

// Recorded returns a session that also judges by what the operator said when a revision was applied (R22b). What the
// operator says now comes first.
func (s *Session) Recorded(rel *rel1.Release) *Session {
	recorded := release.ReadinessOf(rel)
	if len(recorded) == 0 {
		return s
	}
	joined := *s
	for i := range recorded { // the timeout of that operation may have been longer
		recorded[i].Timeout = min(recorded[i].Timeout, s.Common.Timeout)
	}
	joined.Common.Readiness = readiness.Join(recorded, s.Common.Readiness)
	if operator, err := readiness.New(joined.Common.Readiness); err == nil { // else a newer version recorded it
		joined.Common.operator = operator
	}
	return &joined
}

// Builder returns a builder of manifests; root is the name of their chart.
func (s *Session) Builder(root string) *manifest.Builder {
	return manifest.NewBuilder(s.Client, s.Helm, s.Common.reader, s.Common.Scope(root))
}

// Info describes an operation by its name and the revision that it is about, nil if that is unknown.
func (s *Session) Info(name string, rel *rel1.Release) event.Operation {
	info := event.Operation{
		Name:             name,
		Release:          s.Common.Release,
		Namespace:        s.Common.Namespace,
		Context:          s.Client.ContextName(),
		Timeout:          s.Common.Timeout,
		ReadinessTimeout: s.Common.ReadinessTimeout,
	}
	if s.Common.WaitStrategy() != helmclient.WaitOrdered { // only --timeout applies, as in Helm
		info.ReadinessTimeout = 0
	}
	if info.Chart = ChartName(rel); info.Chart != "" {
		info.Revision = rel.Version
	}
	return info
}

// ChartName returns name and version of a release's chart, "" if they are unknown.
func ChartName(rel *rel1.Release) string {
	if rel == nil || rel.Chart == nil || rel.Chart.Metadata == nil {
		return ""
	}
	return rel.Chart.Name() + "-" + rel.Chart.Metadata.Version
}

// Check runs the last checks: of the breakpoints, the permissions, and the target's objects against
// the cluster. It returns a copy of prepared with their warnings, or a *Refusal with all conflicts.
// incoming is nil if nothing is applied.
func (s *Session) Check(prepared *Prepared, incoming *Incoming) (*Prepared, error) {
	s.Common.ReportStep("checking the plan against the cluster")
	checked := *prepared
	p := &checked
	if s.Context.Err() != nil { // prepared may be based on failed reads
		return nil, fmt.Errorf("prepare the %s: %w", p.Info.Name, context.Cause(s.Context))
	}
	p.refuseLostOrder()
	var err error
	p.Breakpoints, err = findBreakpoints(p.Common.BreakOn, p.Phases)
	if err != nil && p.Common.Journal.Before().Start == nil { // what the next pod of a Job plans may lack what is done
		return nil, err
	}
	if err := checkWaits(p, incoming); err != nil {
		return nil, err
	}
	if !p.Common.SkipPreflight {
		if err := s.checkPermissions(p, incoming); err != nil {
			return nil, err
		}
		if incoming != nil {
			if err := s.checkCluster(p, *incoming); err != nil {
				return nil, err
			}
		}
	}
	if p.Common.PlanOnly {
		return p, nil
	}
	if len(p.Conflicts) > 0 {
		return nil, p.refusal()
	}
	if p.Lease.Status == lease.Unavailable {
		p.Warnings = append(p.Warnings, p.Lease.Warning())
	}
	return p, nil
}
