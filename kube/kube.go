package kube

import (
	"context"
	"io"
	"log/slog"

	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/drift"
	"lockstep/kube/helmclient"
	"lockstep/kube/helmfile"
	"lockstep/kube/incluster"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
	"lockstep/kube/permissions"
	"lockstep/kube/preflight"
	"lockstep/kube/readiness"
	"lockstep/kube/release"
	"lockstep/kube/session"
	"lockstep/kube/stack"
	"lockstep/kube/view"
)

// Operations, their options and their results.
type (
	Operation    = operation.Operation
	Edit         = operation.Edit
	Common       = operation.Common
	ChartOptions = operation.ChartOptions
	Deploy       = operation.Deploy
	Rollback     = operation.Rollback
	Uninstall    = operation.Uninstall
	ReleaseTest  = operation.ReleaseTest
	Repair       = operation.Repair
	View         = view.View
	Course       = release.Course
	Recovery     = operation.Recovery
	// Refusal is the error about the conflicts that prevent an operation. Nothing was written.
	Refusal = preflight.Refusal
	// Stack is an operation on many releases, in the order of their needs.
	Stack        = stack.Stack
	StackOptions = stack.Options
	// HookPolicy says whether the hooks of a helmfile run.
	HookPolicy = stack.HookPolicy
	// LockedError is the error about a release that another run has locked (R51).
	LockedError = lease.LockedError
	// Locks are the locks of many releases; FollowLocks fills them.
	Locks    = lease.Locks
	LiveLock = lease.LiveLock
	// Watches observe the objects of operations. Operations with the same
	// Common.Watches share one set of watches.
	Watches = cluster.Watches
	// WatchOptions are the options of Client.Watch.
	WatchOptions = cluster.WatchOptions
	// LeaseOptions configure the lock of a release during an operation (R51).
	LeaseOptions = lease.Options
	// Readiness is what an operator says about the readiness of objects from outside their chart (R22b).
	Readiness = readiness.Override
	// Roles are a ServiceAccount and its roles. Set the exported fields, then call WriteRoles.
	Roles = permissions.Roles
	// Permissions are a set of permissions.
	Permissions = permissions.Set
	Jobs        = plan.Jobs
)

// The values of Common.WaitForJobs.
const (
	AwaitedJobs = plan.AwaitedJobs
	AllJobs     = plan.AllJobs
	StartedJobs = plan.StartedJobs
)

// RuleOfValues is the rule of the warnings about the values of an upgrade to another version of its chart.
const RuleOfValues = operation.RuleOfValues

// The values of StackOptions.Hooks.
const (
	RefuseHooks = stack.RefuseHooks
	AllowHooks  = stack.AllowHooks
	SkipHooks   = stack.SkipHooks
)

// The values of Common.CheckImages.
const (
	ImagesUnchecked = session.ImagesUnchecked
	ImagesMayLack   = session.ImagesMayLack
	ImagesMustExist = session.ImagesMustExist
)

// The defaults of Common.Timeout, of Common.ReadinessTimeout without a Timeout, and of Common.FirstStatusTimeout.
const (
	DefaultTimeout     = session.DefaultTimeout
	DefaultReadiness   = session.DefaultReadiness
	DefaultFirstStatus = session.DefaultFirstStatus
)

// The order in which a chart is deployed: its own, or one inferred from its manifests (R68).
const (
	OrderDeclared = operation.OrderDeclared
	OrderInferred = operation.OrderInferred
	OrderUpstream = operation.OrderUpstream
	// The values of ChartOptions.CRDs.
	CRDsCreate  = operation.CRDsCreate
	CRDsUpgrade = operation.CRDsUpgrade
	CRDsSkip    = operation.CRDsSkip
)

// WaitOrdered is the wait strategy of HIP-0025: it waits in the order of the DAG (R27).
const WaitOrdered = helmclient.WaitOrdered

// ErrCompleted is the error of an operation that an earlier pod of the same Job has completed.
var ErrCompleted = operation.ErrCompleted

// Client is a connection to a cluster. It may be used by several goroutines.
//
// Each Prepare method checks and plans an operation, and writes nothing. Cancelling its context stops
// only the preparation; to abort the operation, use Operation.Command.
type Client struct{ *connect.Client }

// Connect returns a Client for the given settings. It sends no request. log and reg may be
// nil; reg is needed for oci:// charts.
func Connect(settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	c, err := connect.New(settings, log, reg)
	if err != nil {
		return nil, err
	}
	if incluster.JobName() != "" { // the API server has started this pod
		c.Link().KnowServer()
	}
	return &Client{c}, nil
}

// Diagnoser returns a Diagnoser for objects that no operation of this process deploys; Operation.Diagnoser knows those of
// its run.
func (c *Client) Diagnoser() *diagnose.Diagnoser {
	return diagnose.New(c.Clientset, c.Dynamic, c.Getter)
}

// Watch returns Watches for Common.Watches or OrderedOptions.Watches. They end with ctx. The caller
// closes them after all operations that use them have ended: an operation that is still running would
// observe nothing more and time out.
func (c *Client) Watch(ctx context.Context, opts WatchOptions) (*Watches, error) {
	return cluster.NewWatches(ctx, c.Client, opts)
}

// PrepareInstall prepares an install.
func (c *Client) PrepareInstall(ctx context.Context, d Deploy) (*Operation, error) {
	return operation.PrepareInstall(ctx, c.Client, d)
}

// PrepareUpgrade prepares an upgrade.
func (c *Client) PrepareUpgrade(ctx context.Context, d Deploy) (*Operation, error) {
	return operation.PrepareUpgrade(ctx, c.Client, d)
}

// PrepareRollback prepares a rollback.
func (c *Client) PrepareRollback(ctx context.Context, back Rollback) (*Operation, error) {
	return operation.PrepareRollback(ctx, c.Client, back)
}

// PrepareUninstall prepares an uninstall. Both results are nil if there is no release and
// IgnoreNotFound is set.
func (c *Client) PrepareUninstall(ctx context.Context, u Uninstall) (*Operation, error) {
	return operation.PrepareUninstall(ctx, c.Client, u)
}

// PrepareTest prepares a run of a release's test hooks. Both results are nil if none are
// selected.
func (c *Client) PrepareTest(ctx context.Context, t ReleaseTest) (*Operation, error) {
	return operation.PrepareTest(ctx, c.Client, t)
}

// Recover marks revisions that a killed run or Helm left unfinished as failed. If the last operation did
// not succeed, it also compares the release with the cluster. It fails if a run holds the lock.
func (c *Client) Recover(ctx context.Context, common Common) (*Recovery, error) {
	return operation.Recover(ctx, c.Client, common)
}

// Drift compares releases with the cluster (S18), nil for all that are not uninstalled. A release that cannot be compared has an Error.
func (c *Client) Drift(ctx context.Context, releases []ReleaseKey) ([]inspect.Drift, error) {
	return drift.Find(ctx, c.Client, releases)
}

// DeletionOf says that a namespace is being deleted and why it still exists, "" if it is not or if the user may not read it.
func (c *Client) DeletionOf(ctx context.Context, namespace string) string {
	return preflight.DeletionOf(ctx, c.Client, namespace)
}

// PrepareRepair prepares a repair of the objects that differ from the record of a release. Both results are nil if none
// does.
func (c *Client) PrepareRepair(ctx context.Context, r Repair) (*Operation, error) {
	return operation.PrepareRepair(ctx, c.Client, r)
}

// PrepareView prepares a view of a revision of a release, 0 for the latest.
func (c *Client) PrepareView(ctx context.Context, name, namespace string, revision int) (*View, error) {
	return view.Prepare(ctx, c.Client, name, namespace, revision)
}

// PrepareStack plans the operations of all releases. It writes nothing. The caller must run or close
// the Stack. connectTo returns the client for a context, "" for the current one.
func PrepareStack(ctx context.Context, o StackOptions, connectTo func(context string) (*Client, error)) (*Stack, error) {
	return stack.Prepare(ctx, o, inner(connectTo))
}

// Connections returns the client of each release of a helmfile, in the order of the file, for commands that only read. It returns an
// error if two entries of the file are the same release (S10). connectTo is as for PrepareStack.
func Connections(ctx context.Context, file *helmfile.File, connectTo func(context string) (*Client, error)) (all []*Client, err error) {
	found, err := stack.Connections(ctx, file, inner(connectTo))
	for _, c := range found {
		all = append(all, &Client{c})
	}
	return all, err
}

// InCluster returns a helmfile for a run in the current cluster, without its contexts. It returns an error for a release in another
// cluster. connectTo is as for PrepareStack.
func InCluster(ctx context.Context, file *helmfile.File, connectTo func(context string) (*Client, error)) (*helmfile.File, error) {
	return stack.InCluster(ctx, file, inner(connectTo))
}

func inner(connectTo func(context string) (*Client, error)) stack.Connect {
	return func(context string) (*connect.Client, error) {
		c, err := connectTo(context)
		if err != nil {
			return nil, err
		}
		return c.Client, nil
	}
}

// WriteRoles prints, as YAML, a ServiceAccount with exactly the permissions to install, upgrade, roll back,
// test and uninstall the releases of planned operations (Common.PlanOnly).
func WriteRoles(w io.Writer, roles Roles, ops ...*Operation) error {
	roles.Journal = incluster.JournalName(roles.Name)
	for _, op := range ops {
		if err := op.AddPermissions(&roles); err != nil {
			return err
		}
	}
	return roles.Write(w)
}
