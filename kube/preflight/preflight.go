// Package preflight runs all checks before the first write. A Session reads the cluster and checks
// the plan; a Prepared is the checked plan of one operation, with its options (Common) and the
// revision that it applies (Target). Packages kube, kube/operation, kube/preview, kube/stack and
// kube/view import it.
package preflight

import (
	"cmp"
	"context"
	"fmt"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/documents"
	"lockstep/kube/helmclient"
	"lockstep/kube/journal"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/readiness"
	"lockstep/kube/release"
)

// Common are the options that all operations share. Zero durations mean the defaults (R25).
type Common struct {
	Release, Namespace string

	// Timeout limits the whole operation (default 5m), ReadinessTimeout the wait for one object (default Timeout if that
	// is set, else 1m).
	Timeout, ReadinessTimeout time.Duration
	// FirstStatusTimeout limits the wait for a first status of the controller of a custom resource (default 10s, at most
	// ReadinessTimeout); negative to not wait (R22a).
	FirstStatusTimeout time.Duration
	// Settle is how long the containers of workloads without probes must have run before the outcome, at most Timeout; 0 does
	// not wait (R22c).
	Settle time.Duration
	// Wait is a wait strategy as in R27, "ordered" by default.
	Wait string
	// WaitForJobs says which Jobs must complete (R22).
	WaitForJobs plan.Jobs
	// Readiness is what the operator says about the readiness of objects (R22b). Complete checks it.
	Readiness []readiness.Override
	// SkipLeaves skips the readiness check of groups that no other group waits for (R21).
	SkipLeaves bool

	Step              bool     // start paused
	BreakOn           []string // arguments of --break-on, for plan.PickBreakpoint
	HoldOnFailure     bool
	RollbackOnFailure bool
	NoHooks           bool
	// KeepBrokenPods keeps pods of StatefulSets that were never ready, have an older template and block the rollout (R32).
	KeepBrokenPods bool
	PlanOnly       bool // do not check the lock, and return conflicts in Prepared.Conflicts instead of an error
	// Strict refuses a chart whose objects would lose their order, instead of a warning (R37).
	Strict bool
	// SkipPreflight skips the checks that send extra requests: permissions, references, quotas
	// and so on.
	SkipPreflight bool

	// Watches are shared between operations; nil to create private ones. The caller closes
	// shared ones after the last operation.
	Watches *cluster.Watches

	// Lease configures the lock of the release (R51).
	Lease lease.Options

	// Job is the Job in whose pod this process runs, as namespace/name; "" outside a cluster.
	// A revision that an earlier pod of this Job deployed counts as this operation's.
	Job string
	// Journal is what the run keeps for the pod that replaces this one (S13), nil outside a cluster.
	Journal *journal.Entry
	// Stack is the name of the stack whose run this is, or "".
	Stack string

	// Provided are the objects of releases that are deployed before this one. It is not nil if
	// the release is in a helmfile.
	Provided *Provided

	// Continues is the ledger of this run's earlier operation on the release, nil if this is the first. The operation is
	// refused if somebody else has written to the release since (R51b).
	Continues *release.Ledger
	// Taken are the objects of others that this run has taken over. The operations of a run on the release share them.
	Taken *cluster.TakenOver

	// RunInProgress is the run that this operation continues as an edit (R46), nil if it is not one.
	RunInProgress *RunProgress

	// Mask hides the secret values of all releases of the run, and of all their revisions that were read (S14). The
	// operations of a run share it; nil to create one.
	Mask *mask.Mask

	// OnStep, if set, is called with a description of each slow step of the preparation.
	OnStep func(step string)

	// Heartbeat is the time without events after which the run reports the objects that it
	// waits for, 0 for never.
	Heartbeat time.Duration

	// reader caches parsed manifests, also across edits.
	reader   *documents.Reader
	operator *readiness.Operator // checked Readiness
}

// RunProgress is the progress of a run that is being edited.
type RunProgress struct {
	HoldsLease bool // the run holds the release's Lease
	Revision   int  // created by the run, and marked failed when the edited revision starts; 0 for none
}

// Created reports whether the run created a revision.
func (r *RunProgress) Created(revision int) bool { return r != nil && r.Revision == revision }

const (
	// DefaultTimeout is the timeout of an operation.
	DefaultTimeout   = 5 * time.Minute
	defaultReadiness = time.Minute
	// DefaultFirstStatus is the default of Common.FirstStatusTimeout.
	DefaultFirstStatus = 10 * time.Second
)

// Complete fills in the defaults and validates the options without a cluster. namespace is the
// connection's.
func (c Common) Complete(namespace string) (Common, error) {
	if c.reader == nil {
		c.reader = &documents.Reader{}
	}
	if c.Mask == nil {
		c.Mask = &mask.Mask{}
	}
	if c.Namespace == "" {
		c.Namespace = namespace
	}
	if c.ReadinessTimeout == 0 {
		c.ReadinessTimeout = cmp.Or(c.Timeout, defaultReadiness)
	}
	c.FirstStatusTimeout = cmp.Or(c.FirstStatusTimeout, DefaultFirstStatus)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	if c.ReadinessTimeout > c.Timeout {
		return c, fmt.Errorf("the readiness timeout %s exceeds the timeout %s of the operation: "+
			"lower --readiness-timeout or raise --timeout (R25)", c.ReadinessTimeout, c.Timeout)
	}
	var err error
	if c.operator, err = readiness.New(c.Readiness); err != nil {
		return c, err
	}
	if err := c.operator.CheckTimeouts(c.Timeout); err != nil {
		return c, err
	}
	if c.Settle > c.Timeout {
		return c, fmt.Errorf("the time to settle %s exceeds the timeout %s of the operation: lower --settle or raise --timeout (R22c)", c.Settle, c.Timeout)
	}
	ws, err := ParseWaitStrategy(c.Wait)
	if err != nil {
		return c, err
	}
	if ws == helmkube.HookOnlyStrategy && c.RollbackOnFailure {
		c.Wait = string(helmkube.StatusWatcherStrategy) // as Helm does: otherwise no failure would be detected
	}
	return c, nil
}

// ReportStep reports a slow step to OnStep.
func (c Common) ReportStep(step string) {
	if c.OnStep != nil {
		c.OnStep(step)
	}
}

// WithTimeout returns a context that limits the preparation by the operation's timeout (R25).
func (c Common) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("timed out after %s (--timeout)", c.Timeout))
}

// WaitStrategy returns the wait strategy. The options must be complete.
func (c Common) WaitStrategy() helmkube.WaitStrategy {
	ws, err := ParseWaitStrategy(c.Wait)
	if err != nil {
		return helmclient.WaitOrdered
	}
	return ws
}

// Reader returns the operation's reader of manifests, which caches them.
func (c Common) Reader() *documents.Reader { return c.reader }

// Scope returns the scope for building manifests of the release. root is the name of its chart.
func (c Common) Scope(root string) manifest.Scope {
	return manifest.Scope{Release: c.Release, Namespace: c.Namespace, Root: root, Readiness: c.operator}
}

// ParseWaitStrategy returns the wait strategy for a value of --wait.
//
// Rule R27: --wait selects the objects that the run waits for.
func ParseWaitStrategy(s string) (helmkube.WaitStrategy, error) {
	switch s {
	case "", "ordered":
		return helmclient.WaitOrdered, nil
	case "watcher", "true":
		return helmkube.StatusWatcherStrategy, nil
	case "hookOnly", "false", "none":
		return helmkube.HookOnlyStrategy, nil
	case "legacy":
		return helmkube.LegacyStrategy, nil
	}
	return "", fmt.Errorf("--wait=%s is unknown: use ordered, watcher, hookOnly or legacy (R27)", s)
}

// Prepared is a checked and planned operation. It does not change after Check.
type Prepared struct {
	Common Common
	Info   event.Operation
	// Target is the revision to apply, Old the one whose objects are removed.
	Target Target
	Old    OldRevision
	// Apply and Remove are the phases of the release's objects; either may be empty.
	// Hooks are the events of its hooks.
	Apply, Remove helmclient.Planned
	Hooks         helmclient.HookEvents
	// Leftovers are removed in addition to objects of Old (R32a).
	Leftovers helmclient.Leftovers
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
	// DeferredAPIs are aggregated APIs that are not served yet, because the target itself provides them.
	DeferredAPIs []schema.GroupVersion
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
}

// RecordChanges are the revisions whose release records an operation may update or delete.
type RecordChanges struct{ Updated, Deleted []int }

// Target is the revision that an operation applies or, in an uninstall, removes.
type Target struct {
	// Release is the revision as it is or would be stored. Outputs are the outputs of its
	// templates: Helm's action gets them instead of rendering again.
	Release *rel1.Release
	Outputs charts.Outputs
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
	if rel != nil && rel.Chart != nil && rel.Chart.Metadata != nil {
		info.Chart = rel.Chart.Name() + "-" + rel.Chart.Metadata.Version
		info.Revision = rel.Version
	}
	return info
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
	if p.Breakpoints, err = findBreakpoints(p.Common.BreakOn, p.Phases); err != nil {
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
