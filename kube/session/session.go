// Package session is where the rooms around operations meet: preflight, operation, preview, stack and view. Common are the
// options of an operation, a Session reads the cluster for it, and Prepared is its checked plan, with the revision that it
// applies (Target).
package session

import (
	"cmp"
	"context"
	"fmt"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"

	"lockstep/engine/event"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/readiness"
	"lockstep/kube/release"
)

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
	// NamespaceUnknown is set if the user may neither read nor create the namespace of the release,
	// although it may have to be created.
	NamespaceUnknown bool
}

// CheckRetryTimeout limits how long the checks retry a request after an internal server error (500).
const CheckRetryTimeout = 15 * time.Second

// Open opens a session and checks that the API server answers.
func Open(ctx context.Context, c *connect.Client, common Common) (*Session, error) {
	ctx = connect.WithRetryTimeout(ctx, CheckRetryTimeout)
	ledger := cmp.Or(common.Continues, release.NewLedger(common.Namespace, common.Release))
	s, err := New(ctx, c, common, &connect.Writes{}, ledger)
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
	if err != nil || common.PlanOnly || common.HoldsLease {
		return s, err
	}
	if s.Lease, err = lease.Look(ctx, s.Client.Leases(common.Namespace), common.Release, common.Lease); err != nil {
		return nil, err
	}
	if s.Lease.Status == lease.Live {
		return nil, &lease.LockedError{Lock: lease.Lock{Release: common.Release, Namespace: common.Namespace, Holder: s.Lease.Holder}}
	}
	return s, nil
}

// New returns a session whose requests end with ctx. It sends no request. The session
// counts its writes in writes and tracks the release records in ledger.
func New(ctx context.Context, c *connect.Client, common Common, writes *connect.Writes, ledger *release.Ledger) (*Session, error) {
	bound, err := c.Bind(connect.WithRetryTimeout(ctx, common.ReadinessTimeout), writes)
	if err != nil {
		return nil, err
	}
	bound.KeepKinds()
	if common.Mask != nil {
		writes.LearnRefused(common.Mask.AddObject)
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
		By:               s.Common.StartedBy(),
		Timeout:          s.Common.Timeout,
		ReadinessTimeout: s.Common.ReadinessTimeout,
		EditedValues:     s.Common.Journal.Before().Edit != nil,
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
