package helmclient

import (
	"context"
	"reflect"
	"slices"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
)

// Config configures a Client.
type Config struct {
	// Context is the context of the engine's requests. When it ends, requests and waits are cancelled.
	Context context.Context
	Inner   *helmkube.Client
	Session cluster.Session
	Engine  *run.Engine
	Options Options

	// Tree is the chart tree that orders the target. Old is the revision whose objects are
	// removed.
	Tree *plan.Chart
	Old  Revision
	// Work is the plan. If Helm passes other objects, the Client plans again.
	Work
	// Announced are the phases already published.
	Announced []event.Phase
	// Stored reports whether a manifest is that of a stored revision or of its hooks; nil for never.
	Stored func(manifest string) bool
	// Uninstalling is set if the objects are built to be deleted.
	Uninstalling bool
	// Embedded is set in other programs that use Helm's actions, nil in lockstep's own operations.
	Embedded *Embedded
}

// Embedded is for programs that use Helm's actions, which then handle the namespace, crds/ and hooks.
type Embedded struct {
	// Check returns why a phase that applies objects must not run. It is called before that.
	Check func(event.Phase) error
}

// Work is what Helm's action does with the objects and hooks of a release.
type Work struct {
	// Apply and Remove are the phases of the objects; either may be empty. Hooks are the events of the hooks.
	Apply, Remove Planned
	Hooks         HookEvents
	// Leftovers are removed in addition to Remove (R32a).
	Leftovers Leftovers
	// DeferredAPIs are aggregated APIs that are not served yet, because the target itself provides them. Their objects are not
	// read.
	DeferredAPIs []schema.GroupVersion
}

// announce publishes a phase unless it is in Announced.
func (cfg Config) announce(p event.Phase) {
	if !slices.ContainsFunc(cfg.Announced, func(known event.Phase) bool { return reflect.DeepEqual(known, p) }) {
		cfg.Engine.Announce(p)
	}
}

func (cfg Config) warn(warnings []plan.Warning) {
	for _, w := range warnings {
		cfg.Session.Warn(w)
	}
}

// Options holds the options of an operation that a Client needs.
type Options struct {
	// Prefix is the prefix of phase names: "" or event.RollbackPrefix.
	Prefix string
	Wait   helmkube.WaitStrategy
	// InStack means that other releases may wait for this one.
	InStack bool
	// SkipLeaves skips the readiness check of groups that nothing waits for (R21).
	SkipLeaves bool
	// Jobs says which Jobs must complete (R22).
	Jobs plan.Jobs
	// Readiness and Removal limit the time for an object to become ready and to be gone.
	// If they are 0, only the operation's timeout applies.
	Readiness, Removal time.Duration
	// FirstStatus limits the wait for the first status of a custom resource's controller (R22a).
	FirstStatus time.Duration
	// Settle is how long the containers of workloads without probes must have run before the outcome (R22c).
	Settle time.Duration
	// WaitFor are the objects outside the release that its first groups wait for (R22d).
	WaitFor []plan.Object
	Method  Method
	// Untouched reports whether the operation to roll back neither applied nor deleted an object; nil for other operations.
	Untouched func(plan.Object) bool
}
