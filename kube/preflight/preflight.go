// Package preflight checks all that can be checked before anything is written,
// and makes of it one value, Prepared: what is shown, asked for rights, tried in
// a dry run and carried out.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/release"
)

// Common are the options that all operations share. Durations of 0 mean the
// defaults of R25.
type Common struct {
	Release, Namespace string

	// Timeout is for the whole operation (default 5m), ReadinessTimeout for
	// one resource (default 1m, at most Timeout).
	Timeout, ReadinessTimeout time.Duration
	// Wait is a wait strategy as in R27, "ordered" where empty.
	Wait                 string
	WaitAll, WaitForJobs bool

	Step              bool     // start paused
	BreakOn           []string // ids of groups
	HoldOnFailure     bool
	RollbackOnFailure bool
	NoHooks           bool
	PlanOnly          bool // it will not be run, so neither the rights that it needs nor who is at work are asked for

	// Lease is how it is seen to that one run at a time works on the release
	// (R51).
	Lease lease.Options

	// Heartbeat is how long nothing may happen before what is being waited for
	// is told, and again after as long; 0 for never.
	Heartbeat time.Duration
}

const (
	defaultTimeout   = 5 * time.Minute
	defaultReadiness = time.Minute
)

// Complete returns the options with defaults filled in, the namespace being that
// of the connection, and checks what can be checked without a cluster.
func (c Common) Complete(namespace string) (Common, error) {
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
		return c, fmt.Errorf("the readiness timeout %s is larger than the timeout %s of the operation: lower --readiness-timeout or raise --timeout (R25)", c.ReadinessTimeout, c.Timeout)
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

// Within bounds what comes before the operation by its timeout (R25).
func (c Common) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("timed out after %s (--timeout)", c.Timeout))
}

// Strategy is the wait strategy. The options have been completed.
func (c Common) Strategy() helmkube.WaitStrategy {
	ws, err := WaitStrategy(c.Wait)
	if err != nil {
		return helmclient.WaitOrdered
	}
	return ws
}

// Scope is what manifests of the release are built for.
func (c Common) Scope(root string) manifest.Scope {
	return manifest.Scope{Release: c.Release, Namespace: c.Namespace, Root: root}
}

// Rule R27: --wait says what is waited for.
//
// WaitStrategy reads the value of --wait.
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
	return "", fmt.Errorf("--wait=%s is not known: use ordered, watcher, hookOnly or legacy (R27)", s)
}

// Prepared is an operation that has been checked and planned. It is not changed
// once it is made.
type Prepared struct {
	Common Common
	Info   event.Operation
	// Target is what the operation brings, Old what it removes objects of.
	Target Target
	Old    Old
	// Apply and Remove are the phases that bring and remove the release's
	// objects, either may be empty; Hooks are the events of its hooks.
	Apply, Remove helmclient.Planned
	Hooks         helmclient.HookEvents
	// Leftovers are removed besides what Old has.
	Leftovers helmclient.Leftovers
	// Phases is all that will run, in order.
	Phases []event.Phase
	// Warnings are about the chart and the plan.
	Warnings []plan.Warning
	// Last is the latest revision that this was planned on, nil for none, and
	// Lease what there was of the release's Lease (R51).
	Last  *rel1.Release
	Lease lease.State
	// Marks are written before anything else (R52). Resumes tells that the last
	// operation did not come to its end, and this one goes on from there (R50).
	Marks   []release.Mark
	Resumes bool
}

// Target is a revision that an operation brings or, in an uninstallation, takes
// away.
type Target struct {
	// Release is the revision as it would be stored, or is.
	Release *rel1.Release
	// Tree orders its objects, nil where they are not sequenced. Record is what
	// a new revision keeps of that, nil where it is kept already.
	Tree   *plan.Chart
	Record *release.Record
	CRDs   CRDs
	// NewNamespace tells that the namespace is to be created.
	NewNamespace bool
	// Force takes fields over from their owners.
	Force bool
}

// Root is the chart path of the target's root chart.
func (t Target) Root() string {
	if t.Release == nil || t.Release.Chart == nil || t.Release.Chart.Metadata == nil {
		return ""
	}
	return t.Release.Chart.Name()
}

// Old is the revision that an operation removes objects of.
type Old struct {
	Release *rel1.Release // nil where there is none
	helmclient.Revision
}

// Manifest is that of the old revision, empty where there is none.
func (o Old) Manifest() string {
	if o.Release == nil {
		return ""
	}
	return o.Release.Manifest
}

// Session is what the checks of one operation work with, and its attempts. All requests end with
// its context.
type Session struct {
	Context context.Context
	Client  *connect.Client
	Helm    *connect.Helm
	Common  Common
	Lease   lease.State // of an operation that will be carried out
}

// CheckPatience is how long errors of the API server's own (500) are waited out
// before anything is written: nothing is lost by another call.
const CheckPatience = 15 * time.Second

// Open connects to a cluster that answers.
func Open(ctx context.Context, c *connect.Client, common Common) (*Session, error) {
	ctx = connect.WithPatience(ctx, CheckPatience)
	s, err := NewSession(ctx, c, common, &connect.Writes{})
	if err != nil {
		return nil, err
	}
	if err := s.Client.Reachable(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenAlone is Open for an operation that will be carried out: it refuses where
// another run is at work on the release (R51), before anything is read of that.
func OpenAlone(ctx context.Context, c *connect.Client, common Common) (*Session, error) {
	s, err := Open(ctx, c, common)
	if err != nil || common.PlanOnly {
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

// NewSession binds a connection to a context. It sends no request. What is
// written is noted in writes.
func NewSession(ctx context.Context, c *connect.Client, common Common, writes *connect.Writes) (*Session, error) {
	bound, err := c.Bind(connect.WithPatience(ctx, common.ReadinessTimeout), writes)
	if err != nil {
		return nil, err
	}
	helm, err := bound.Helm(common.Namespace)
	if err != nil {
		return nil, err
	}
	return &Session{Context: ctx, Client: bound, Helm: helm, Common: common}, nil
}

// Releases is Helm's storage of releases.
func (s *Session) Releases() *storage.Storage { return s.Helm.Config.Releases }

// Builder makes objects of the manifests of a chart.
func (s *Session) Builder(root string) *manifest.Builder {
	return manifest.NewBuilder(s.Client, s.Helm, s.Common.Scope(root))
}

// Info names an operation on a revision.
func (s *Session) Info(name string, rel *rel1.Release) event.Operation {
	info := event.Operation{
		Name: name, Release: s.Common.Release, Namespace: s.Common.Namespace, Context: s.Client.ContextName(),
		Timeout: s.Common.Timeout, ReadinessTimeout: s.Common.ReadinessTimeout,
	}
	if rel != nil && rel.Chart != nil && rel.Chart.Metadata != nil {
		info.Chart = rel.Chart.Name() + "-" + rel.Chart.Metadata.Version
		info.Revision = rel.Version
	}
	return info
}

// Check makes the last checks of an operation, those about the whole of it: its
// breakpoints and its rights. The operation then knows what it has to do without.
func (s *Session) Check(p *Prepared) error {
	p.Lease = s.Lease
	if s.Context.Err() != nil { // what was asked since may be missing
		return fmt.Errorf("prepare the %s: %w", p.Info.Name, context.Cause(s.Context))
	}
	if err := checkBreakpoints(p.Common.BreakOn, p.Phases); err != nil || p.Common.PlanOnly {
		return err
	}
	if err := s.checkRights(p); err != nil {
		return err
	}
	if p.Lease.Kind == lease.Unavailable {
		p.Warnings = append(p.Warnings, p.Lease.Warning())
	}
	return nil
}

// checkBreakpoints refuses a breakpoint on a group that is not there (R42).
func checkBreakpoints(ids []string, phases []event.Phase) error {
	var known []string
	for _, p := range phases {
		for _, g := range p.Groups {
			known = append(known, g.ID)
		}
	}
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return fmt.Errorf("--break-on %s: there is no such group; there are %s", id, strings.Join(known, ", "))
		}
	}
	return nil
}
