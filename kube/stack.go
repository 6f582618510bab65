package kube

import (
	"context"

	"lockstep/engine/plan"
	"lockstep/kube/helmfile"
	"lockstep/kube/stack"
)

// Stacks of releases, as a helmfile describes them.
type (
	Helmfile           = helmfile.File
	HelmfileOptions    = helmfile.Options
	HelmfileRelease    = helmfile.Release
	HelmfileRepository = helmfile.Repository
	// Stack is an operation on many releases, in the order of their needs.
	Stack        = stack.Stack
	StackRelease = stack.Release
	StackNeed    = stack.Need
	// RenderedStackRelease is a release of a helmfile, rendered without a cluster.
	RenderedStackRelease = stack.RenderedRelease
)

// StackOptions say what a stack runs, and how.
type StackOptions struct {
	File *Helmfile
	// Down uninstalls all releases, in reverse.
	Down bool
	// Connect returns the client for a context, "" for the current one.
	Connect func(context string) (*Client, error)
	// Render loads the chart and the values of a release.
	Render func(context.Context, HelmfileRelease) (Rendering, error)
	// Common are the options of all operations; each release has its own name and
	// namespace.
	Common Common
	// Name labels the release records of the stack, so that Prune finds them later; "" for no
	// label.
	Name string
	// Prune removes the releases with the label of Name that the file no longer defines.
	Prune bool
	// Concurrency is how many releases are deployed at the same time; 0 for all that can.
	Concurrency int
}

// ReadHelmfile reads a helmfile.
func ReadHelmfile(ctx context.Context, o HelmfileOptions) (*Helmfile, error) {
	return helmfile.Read(ctx, o)
}

// HasHelmfile reports whether a directory has a helmfile.
func HasHelmfile(dir string) bool { return helmfile.Exists(dir) }

// PrepareStack plans the operations of all releases. It writes nothing. Close the Stack if
// it does not run.
func PrepareStack(ctx context.Context, o StackOptions) (*Stack, error) {
	return stack.Prepare(ctx, stack.Options{
		File: o.File, Down: o.Down, Render: o.Render, Common: o.Common, Concurrency: o.Concurrency, Name: o.Name, Prune: o.Prune,
		Connect: func(context string) (*stack.Connection, error) {
			c, err := o.Connect(context)
			if err != nil {
				return nil, err
			}
			return c.Client, nil
		},
	})
}

// StackName is the name of a helmfile's runs.
func StackName(file *Helmfile) string { return stack.Name(file) }

// OrderHelmfile is the order of a helmfile's releases as groups. No cluster is needed.
func OrderHelmfile(file *Helmfile) ([]*plan.Group, error) { return stack.Order(file) }

// SuggestNeeds finds the needs that the objects of releases imply and their file does not say.
func SuggestNeeds(releases []RenderedStackRelease) []StackNeed { return stack.SuggestNeeds(releases) }
