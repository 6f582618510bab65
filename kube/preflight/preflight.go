// Package preflight makes the checks that are possible before anything is written. A
// Session reads and checks; a Prepared is the checked plan of one operation, described
// by Common and a Target. Packages operation, preview and view use it.
package preflight

import (
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
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/release"
)

// Common are the options that all operations share. Durations of 0 are the defaults of
// R25.
type Common struct {
	Release, Namespace string

	// Timeout is for the whole operation (default 5m), ReadinessTimeout for
	// one resource (default 1m, at most Timeout).
	Timeout, ReadinessTimeout time.Duration
	// Wait is a wait strategy as in R27, "ordered" where empty.
	Wait        string
	WaitForJobs bool
	// SkipLeaves leaves the groups that nothing waits for unchecked, which is the
	// letter of HIP-0025 (R21).
	SkipLeaves bool

	Step              bool     // start paused
	BreakOn           []string // groups, as plan.Pick reads them; ids once it is prepared
	HoldOnFailure     bool
	RollbackOnFailure bool
	NoHooks           bool
	PlanOnly          bool // never run: the lock is not checked, and conflicts are reported instead of an error
	// SkipPreflight skips the checks that send requests of their own: rights,
	// references, quotas and the like.
	SkipPreflight bool

	// Watches may be shared by operations; nil for the operation's own. Their creator
	// closes them once all these operations are over.
	Watches *cluster.Watches

	// Lease configures the lock of the release (R51).
	Lease lease.Options

	// Provided are the objects of releases that are deployed before this one; nil for none.
	Provided *Provided

	// Own is what the run has done so far, if this is an edit of it (R46), else nil.
	Own *Own

	// Doing, if set, is called with each slow step of the preparation.
	Doing func(what string)

	// Heartbeat is the time without news after which the run reports what it waits for;
	// 0 for never.
	Heartbeat time.Duration

	// reader caches parsed manifests, also across edits.
	reader *documents.Reader
}

// Own is what a run has done to its release so far.
type Own struct {
	Leased   bool // it holds the release's Lease
	Revision int  // that it created, failed once the run continues; 0 for none
}

// Makes reports whether a revision is the run's own.
func (o *Own) Makes(revision int) bool { return o != nil && o.Revision == revision }

const (
	defaultTimeout   = 5 * time.Minute
	defaultReadiness = time.Minute
)

// Complete returns the options with defaults filled in, the namespace being that
// of the connection, and checks what can be checked without a cluster.
func (c Common) Complete(namespace string) (Common, error) {
	if c.reader == nil {
		c.reader = &documents.Reader{}
	}
	if c.Namespace == "" {
		c.Namespace = namespace
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.ReadinessTimeout == 0 {
		c.ReadinessTimeout = min(defaultReadiness, c.Timeout)
	}
	if c.ReadinessTimeout > c.Timeout {
		return c, fmt.Errorf("the readiness timeout %s exceeds the timeout %s of the operation: lower --readiness-timeout or raise --timeout (R25)", c.ReadinessTimeout, c.Timeout)
	}
	ws, err := WaitStrategy(c.Wait)
	if err != nil {
		return c, err
	}
	if ws == helmkube.HookOnlyStrategy && c.RollbackOnFailure {
		c.Wait = string(helmkube.StatusWatcherStrategy) // as Helm: else no failure would be seen to roll back from
	}
	return c, nil
}

// Begin reports a slow step.
func (c Common) Begin(what string) {
	if c.Doing != nil {
		c.Doing(what)
	}
}

// Within bounds what comes before the operation by its timeout (R25).
func (c Common) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("timed out after %s (--timeout)", c.Timeout))
}

// Strategy returns the wait strategy. The options have been completed.
func (c Common) Strategy() helmkube.WaitStrategy {
	ws, err := WaitStrategy(c.Wait)
	if err != nil {
		return helmclient.WaitOrdered
	}
	return ws
}

// Reader reads the manifests that the operation comes across.
func (c Common) Reader() *documents.Reader { return c.reader }

// Scope is what manifests of the release are built for.
func (c Common) Scope(root string) manifest.Scope {
	return manifest.Scope{Release: c.Release, Namespace: c.Namespace, Root: root}
}

// WaitStrategy reads the value of --wait.
//
// Rule R27: --wait says what is waited for.
func WaitStrategy(s string) (helmkube.WaitStrategy, error) {
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

// Prepared is a checked and planned operation. It is immutable.
type Prepared struct {
	Common Common
	Info   event.Operation
	// Target is the revision to apply, Old the one whose objects are removed.
	Target Target
	Old    Old
	// Apply and Remove are the phases of the release's objects, either may be empty.
	// Hooks are the events of its hooks.
	Apply, Remove helmclient.Planned
	Hooks         helmclient.HookEvents
	// Leftovers are removed in addition to objects of Old (R32a).
	Leftovers helmclient.Leftovers
	// Phases are all phases, in order.
	Phases []event.Phase
	// Warnings are about the chart and the plan.
	Warnings []plan.Warning
	// Refused are the conflicts that prevent the operation, empty unless PlanOnly.
	Refused []plan.Warning
	// Later are APIs not served yet that the target itself provides.
	Later []schema.GroupVersion
	Basis
}

// Basis is the state of a release that an operation was planned on.
type Basis struct {
	// Last is the latest revision, nil for none.
	Last *rel1.Release
	// Lease is that of the release (R51).
	Lease lease.State
	// Usual are the usual durations of units, from the release's records.
	Usual map[event.Unit]time.Duration
	// Records are the revisions whose records may be changed.
	Records Records
	// Marks are written before anything else (R52). Resumes is set if this operation
	// resumes from one that failed or was interrupted (R50).
	Marks   []release.Mark
	Resumes bool
}

// Records are revisions whose records an operation changes, and deletes.
type Records struct{ Updated, Deleted []int }

// Target is the revision that an operation applies or, in an uninstall, removes.
type Target struct {
	// Release is the revision as it would be stored, or is. Outputs are what its
	// templates rendered to, which Helm's action is handed when it runs.
	Release *rel1.Release
	Outputs charts.Outputs
	// Tree orders its objects, nil if they are unsequenced. Record is stored with a new
	// revision, nil if its chart has it already.
	Tree   *plan.Chart
	Record *release.Record
	CRDs   CRDs
	// NewNamespace is set if the namespace must be created.
	NewNamespace bool
	// Force takes fields over from their owners.
	Force bool
	// ClientSide applies on the client; Replace then replaces existing objects.
	ClientSide, Replace bool
}

// Root returns the chart path of the target's root chart.
func (t Target) Root() string {
	if t.Release == nil || t.Release.Chart == nil || t.Release.Chart.Metadata == nil {
		return ""
	}
	return t.Release.Chart.Name()
}

// Old is the revision whose objects an operation removes.
type Old struct {
	Release *rel1.Release // nil if there is none
	helmclient.Revision
}

// Manifest returns that of the old revision, empty if there is none.
func (o Old) Manifest() string {
	if o.Release == nil {
		return ""
	}
	return o.Release.Manifest
}

// Session is used by the checks and the attempts of one operation. Its requests end with
// its context.
type Session struct {
	Context context.Context
	Client  *connect.Client
	Helm    *connect.Helm
	Common  Common
	Lease   lease.State // of an operation that will be carried out
	// Secrets hides the values of what was rendered and read, in errors.
	Secrets *mask.Mask
}

// CheckPatience is how long internal errors of the API server (500) are retried before
// anything is written.
const CheckPatience = 15 * time.Second

// Open connects to a cluster that answers.
func Open(ctx context.Context, c *connect.Client, common Common) (*Session, error) {
	ctx = connect.WithPatience(ctx, CheckPatience)
	s, err := NewSession(ctx, c, common, &connect.Writes{}, release.NewLedger(common.Namespace, common.Release, nil))
	if err != nil {
		return nil, err
	}
	if err := s.Client.Reachable(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenAlone returns Open for an operation that may run: it refuses a release that another run
// has locked (R51).
func OpenAlone(ctx context.Context, c *connect.Client, common Common) (*Session, error) {
	if !common.PlanOnly && connect.StorageDriver() == "memory" {
		return nil, fmt.Errorf("release %s: HELM_DRIVER=memory forgets the release when this operation ends, so it could never be upgraded or uninstalled; unset HELM_DRIVER, or set it to secret, configmap or sql", common.Release)
	}
	common.Begin("reading release " + common.Release + " in the cluster")
	s, err := Open(ctx, c, common)
	if err != nil || common.PlanOnly || common.Own != nil && common.Own.Leased {
		return s, err
	}
	if s.Lease, err = lease.Look(ctx, s.Client.Leases(common.Namespace), common.Release, common.Lease); err != nil {
		return nil, err
	}
	if s.Lease.Kind == lease.Live {
		return nil, &lease.HeldError{Release: common.Release, Namespace: common.Namespace, Holder: s.Lease.Holder}
	}
	return s, nil
}

// NewSession binds a connection to a context and sends no request. Writes are counted in
// writes; the ledger keeps the records of the release.
func NewSession(ctx context.Context, c *connect.Client, common Common, writes *connect.Writes, ledger *release.Ledger) (*Session, error) {
	bound, err := c.Bind(connect.WithPatience(ctx, common.ReadinessTimeout), writes)
	if err != nil {
		return nil, err
	}
	helm, err := bound.Helm(common.Namespace)
	if err != nil {
		return nil, err
	}
	helm.Config.Releases.Driver = release.Checked(ledger.Driver(helm.Config.Releases.Driver, bound.Clientset, common.Namespace))
	return &Session{Context: ctx, Client: bound, Helm: helm, Common: common, Secrets: &mask.Mask{}}, nil
}

// Releases returns Helm's storage of releases.
func (s *Session) Releases() *storage.Storage { return s.Helm.Config.Releases }

// Builder builds the objects of a chart's manifests.
func (s *Session) Builder(root string) *manifest.Builder {
	return manifest.NewBuilder(s.Client, s.Helm, s.Common.reader, s.Common.Scope(root))
}

// Info names an operation on a revision.
func (s *Session) Info(name string, rel *rel1.Release) event.Operation {
	info := event.Operation{
		Name: name, Release: s.Common.Release, Namespace: s.Common.Namespace, Context: s.Client.ContextName(),
		Timeout: s.Common.Timeout, ReadinessTimeout: s.Common.ReadinessTimeout,
	}
	if s.Common.Wait != "" && s.Common.Wait != "ordered" { // only --timeout counts then, as in Helm
		info.ReadinessTimeout = 0
	}
	if rel != nil && rel.Chart != nil && rel.Chart.Metadata != nil {
		info.Chart = rel.Chart.Name() + "-" + rel.Chart.Metadata.Version
		info.Revision = rel.Version
	}
	return info
}

// Check makes the last checks: breakpoints, rights, and the target's objects against the
// cluster. The result includes their warnings. All conflicts are in one error, a *Refusal.
// incoming is nil if nothing is applied.
func (s *Session) Check(planned *Prepared, incoming *Incoming) (*Prepared, error) {
	s.Common.Begin("checking the plan against the cluster")
	checked := *planned
	p := &checked
	if s.Context.Err() != nil { // answers may be missing
		return nil, fmt.Errorf("prepare the %s: %w", p.Info.Name, context.Cause(s.Context))
	}
	ids, err := findBreakpoints(p.Common.BreakOn, p.Phases)
	if err != nil {
		return nil, err
	}
	p.Common.BreakOn = ids
	if !p.Common.SkipPreflight {
		if err := s.checkRights(p, incoming); err != nil {
			return nil, err
		}
		if incoming != nil {
			if err := s.examine(p, *incoming); err != nil {
				return nil, err
			}
		}
	}
	if p.Common.PlanOnly {
		return p, nil
	}
	if len(p.Refused) > 0 {
		return nil, &Refusal{p.Info.Name, p.Refused, p.Warnings}
	}
	if p.Lease.Kind == lease.Unavailable {
		p.Warnings = append(p.Warnings, p.Lease.Warning())
	}
	return p, nil
}

// Refuse returns the error of an operation whose user may not read the release, together with
// all other missing rights, as far as the plan is known.
func (s *Session) Refuse(p *Prepared, incoming *Incoming, unread error) error {
	p.Common.PlanOnly = false // without the release there is no plan to show
	if err := s.checkRights(p, incoming); err != nil {
		return err
	}
	if len(p.Refused) == 0 {
		return unread
	}
	return &Refusal{p.Info.Name, p.Refused, p.Warnings}
}

// findBreakpoints returns the ids of the groups that --break-on names (R42).
func findBreakpoints(texts []string, phases []event.Phase) (ids []string, err error) {
	var groups []*plan.Group
	for _, p := range phases {
		groups = append(groups, p.Groups...)
	}
	for _, text := range texts {
		found, err := plan.Pick(text, groups)
		if err != nil {
			return nil, fmt.Errorf("--break-on: %w", err)
		}
		ids = append(ids, found...)
	}
	return ids, nil
}
