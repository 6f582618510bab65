package kube

import (
	"context"

	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/stack"
)

// Stacks of releases, as a helmfile describes them.
type (
	Helmfile        = helmfile.File
	HelmfileOptions = helmfile.Options
	HelmfileRelease = helmfile.Release
	// Stack is an operation on many releases, in the order of their needs.
	Stack = stack.Stack
	// StackOptions are the options of PrepareStack.
	StackOptions = stack.Options
	StackNeed    = stack.Need
	// ClusterID identifies a cluster, whatever its contexts are called (S10).
	ClusterID = connect.ClusterID
	// ClusterSigns are what a connection shows of its cluster (Client.Signs, Client.SameCluster).
	ClusterSigns = connect.Signs
	// RenderedStackRelease is a release of a helmfile, rendered without a cluster.
	RenderedStackRelease = stack.RenderedRelease
)

// Helmfiles and their stacks. No cluster is needed.
var (
	// ReadHelmfile reads a helmfile; HasHelmfile reports whether a directory has one.
	ReadHelmfile = helmfile.Read
	HasHelmfile  = helmfile.Exists
	// LocateError adds a release and its position in the helmfile to an error.
	LocateError = helmfile.Locate
	// StackName returns the name of a helmfile's runs. OrderHelmfile returns its releases as
	// groups, in their order.
	StackName     = stack.Name
	OrderHelmfile = stack.Order
	// NoReleases is the error about a helmfile of which no release is selected.
	NoReleases = stack.NoReleases
	// SuggestNeeds finds the needs that the objects of releases imply and that their helmfile lacks.
	SuggestNeeds = stack.SuggestNeeds
)

// PrepareStack plans the operations of all releases. It writes nothing. The caller must run or close
// the Stack. connectTo returns the client for a context, "" for the current one.
func PrepareStack(ctx context.Context, o StackOptions, connectTo func(context string) (*Client, error)) (*Stack, error) {
	return stack.Prepare(ctx, o, func(context string) (*connect.Client, error) {
		c, err := connectTo(context)
		if err != nil {
			return nil, err
		}
		return c.Client, nil
	})
}
