package kube

import (
	"context"
	"log/slog"

	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmclient"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
	"lockstep/kube/release"
	"lockstep/kube/view"
)

// What operations are made of; each is documented where it is.
type (
	Operation   = operation.Operation
	Edited      = operation.Edited
	Common      = operation.Common
	Rendering   = operation.Rendering
	Install     = operation.Install
	Upgrade     = operation.Upgrade
	Rollback    = operation.Rollback
	Uninstall   = operation.Uninstall
	ReleaseTest = operation.ReleaseTest
	Change      = preview.Change
	Action      = preview.Action
	View        = view.View
	Timing      = release.Timing
	Recovery    = operation.Recovery
	// Refusal is the error about an operation that the cluster would not let come
	// to its end.
	Refusal = preflight.Refusal
	// Watches are what operations see their objects by. Those of Common.Watches are
	// shared by all operations that are given them, so that a program can have many at
	// work at the price of one set of watches.
	Watches = cluster.Watches
	// WatchOptions are those of Client.Watch.
	WatchOptions = cluster.WatchOptions
	// LeaseOptions are in Common: what Operations do to be the only one at work
	// on their release (R51).
	LeaseOptions = lease.Options
)

// What would happen to an object.
const (
	ActionCreate    = preview.ActionCreate
	ActionChange    = preview.ActionChange
	ActionUnchanged = preview.ActionUnchanged
	ActionDelete    = preview.ActionDelete
	ActionAbsent    = preview.ActionAbsent
	ActionKeep      = preview.ActionKeep
	ActionHook      = preview.ActionHook
	ActionRefuse    = preview.ActionRefuse
	ActionLater     = preview.ActionLater
)

// Whose order a chart is deployed in (R68).
const (
	OrderDeclared = operation.OrderDeclared
	OrderInferred = operation.OrderInferred
)

// WaitOrdered is the wait strategy of HIP-0025: in order, by the DAG (R27).
const WaitOrdered = helmclient.WaitOrdered

// Client is a connection to a cluster. Each Prepare method checks an operation
// and plans it; it writes nothing, and an error means that nothing would be
// written. Its requests end with its context; those of the operation do not.
type Client struct{ *connect.Client }

// Connect prepares the connection that the settings describe. It sends no
// request yet. The logger and the registry client may be nil.
func Connect(settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	c, err := connect.New(settings, log, reg)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Watch returns Watches for operations to share, by Common.Watches or
// OrderedOptions.Watches. They work until ctx is done or they are closed. Close them
// once all operations that were given them are over: one that is still under way sees
// nothing any more, and ends with its timeout.
func (c *Client) Watch(ctx context.Context, opts WatchOptions) (*Watches, error) {
	return cluster.NewWatches(ctx, c.Client, opts)
}

// PrepareInstall prepares an installation.
func (c *Client) PrepareInstall(ctx context.Context, in Install) (*Operation, error) {
	return operation.PrepareInstall(ctx, c.Client, in)
}

// PrepareUpgrade prepares an upgrade.
func (c *Client) PrepareUpgrade(ctx context.Context, up Upgrade) (*Operation, error) {
	return operation.PrepareUpgrade(ctx, c.Client, up)
}

// PrepareRollback prepares a rollback.
func (c *Client) PrepareRollback(ctx context.Context, back Rollback) (*Operation, error) {
	return operation.PrepareRollback(ctx, c.Client, back)
}

// PrepareUninstall prepares an uninstallation. Where there is no release and
// IgnoreNotFound is set, both results are nil.
func (c *Client) PrepareUninstall(ctx context.Context, u Uninstall) (*Operation, error) {
	return operation.PrepareUninstall(ctx, c.Client, u)
}

// PrepareTest prepares a run of a release's test hooks. Where there are none, or
// none that were chosen, both results are nil.
func (c *Client) PrepareTest(ctx context.Context, t ReleaseTest) (*Operation, error) {
	return operation.PrepareTest(ctx, c.Client, t)
}

// Recover brings a release that a dead run has left half done to a final state,
// and finds out what is where.
func (c *Client) Recover(ctx context.Context, common Common) (*Recovery, error) {
	return operation.Recover(ctx, c.Client, common)
}

// PrepareView prepares a look at a revision of a release, 0 for the latest.
func (c *Client) PrepareView(ctx context.Context, name, namespace string, revision int) (*View, error) {
	return view.Prepare(ctx, c.Client, name, namespace, revision)
}
