package session

import (
	"cmp"
	"context"
	"fmt"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/cluster"
	"lockstep/kube/documents"
	"lockstep/kube/helmclient"
	"lockstep/kube/journal"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/planfile"
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
	// WaitFor are objects outside the release, as plan.ParseOutside reads them: the groups that wait for no other group start
	// once these exist and are ready (R22d).
	WaitFor []string
	// ReplaceObjects are the objects that may be deleted and created again where they cannot be updated, as plan.ParseReplacements reads
	// them (R30b).
	ReplaceObjects []string
	// DeleteCRDs deletes CRDs although they have objects, with all of them (R31b).
	DeleteCRDs bool
	// SkipLeaves skips the readiness check of groups that no other group waits for (R21).
	SkipLeaves bool

	Step              bool     // start paused
	BreakOn           []string // arguments of --break-on, for plan.PickBreakpoint
	ApproveBefore     []string // arguments of --approve-before: groups that ask for an approval, in addition to the chart's (R42a)
	Approve           []string // arguments of --approve: groups that are approved beforehand
	NoApprovals       bool     // what the charts ask for needs no approval: a rollback after a failure
	HoldOnFailure     bool
	RollbackOnFailure bool
	PastNoReturn      string // the reason of the point of no return that a rollback may go back past (R33a)
	NoHooks           bool
	Test              bool // an install or upgrade runs the chart's tests once the release is deployed (S11)
	// KeepBrokenPods keeps pods of StatefulSets that were never ready, have an older template and block the rollout (R32).
	KeepBrokenPods bool
	PlanOnly       bool // do not check the lock, and return conflicts in Prepared.Conflicts instead of an error
	// Strict refuses a chart whose objects would lose their order, instead of a warning (R37).
	Strict bool
	// CheckImages says whether to ask the registries for the images (S19): ImagesUnchecked or "" for not, ImagesMayLack for
	// warnings, ImagesMustExist to refuse.
	CheckImages string
	// SkipPreflight skips the checks that send extra requests: permissions, references, quotas
	// and so on.
	SkipPreflight bool

	// Watches are shared between operations; nil to create private ones. The caller closes
	// shared ones after the last operation.
	Watches *cluster.Watches

	// Lease configures the lock of the release (R51).
	Lease lease.Options

	// Job is the Job in whose pod this process runs, as namespace/name/UID; "" outside a cluster.
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
	// HoldsLease means that the run holds the Lease of the release already, from the revision or the plan that this one replaces.
	HoldsLease bool

	// SavedPlan is the plan that the operation must follow (R55), nil for none.
	SavedPlan *planfile.Saved

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
	outside  []plan.Object       // parsed WaitFor

	replacements plan.Replacements // parsed ReplaceObjects
}

// RunProgress is the progress of a run that is being edited.
type RunProgress struct {
	Revision int // created by the run, and marked failed when the edited revision starts; 0 for none
}

// Created reports whether the run created a revision.
func (r *RunProgress) Created(revision int) bool { return r != nil && r.Revision == revision }

// The values of Common.CheckImages.
const (
	ImagesUnchecked = "off"
	ImagesMayLack   = "warn"
	ImagesMustExist = "error"
)

const (
	// DefaultTimeout is the timeout of an operation.
	DefaultTimeout = 5 * time.Minute
	// DefaultReadiness is the default of Common.ReadinessTimeout if Common.Timeout is not set.
	DefaultReadiness = time.Minute
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
	c.Namespace = cmp.Or(c.Namespace, namespace)
	if err := charts.CheckNamespace("namespace", c.Namespace); err != nil {
		return c, err
	}
	c.ReadinessTimeout = cmp.Or(c.ReadinessTimeout, c.Timeout, DefaultReadiness)
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
	if c.replacements, err = plan.ParseReplacements(c.ReplaceObjects); err != nil {
		return c, fmt.Errorf("--replace: %w", err)
	}
	if c.Settle > c.Timeout {
		return c, fmt.Errorf("the time to settle %s exceeds the timeout %s of the operation: lower --settle or raise --timeout (R22c)", c.Settle, c.Timeout)
	}
	c.Wait = cmp.Or(c.Wait, string(helmclient.WaitOrdered))
	ws, err := ParseWaitStrategy(c.Wait)
	if err != nil {
		return c, err
	}
	c.outside = nil
	source := "--wait-for"
	if c.Stack != "" {
		source = "waitFor"
	}
	for _, text := range c.WaitFor {
		o, err := plan.ParseOutside(text)
		switch {
		case err != nil:
			return c, fmt.Errorf("%s: %w", source, err)
		case ws != helmclient.WaitOrdered:
			return c, fmt.Errorf("%s %s needs --wait=ordered, not --wait=%s", source, text, c.Wait)
		}
		c.outside = append(c.outside, o)
	}
	if ws == helmkube.HookOnlyStrategy && c.RollbackOnFailure {
		c.Wait = string(helmkube.StatusWatcherStrategy) // as Helm does: otherwise no failure would be detected
	}
	return c, nil
}

// ChecksImages reports whether the registries are asked for the images (S19).
func (c Common) ChecksImages() bool { return c.CheckImages != "" && c.CheckImages != ImagesUnchecked }

// Begun reports whether the operation is part of a run that has begun: it continues that in another pod, as an edit or with a new plan.
func (c Common) Begun() bool {
	return c.RunInProgress != nil || c.Continues != nil || c.Journal.Before().Start != nil
}

// Outside returns the objects outside the release that its first groups wait for. The options must be complete.
func (c Common) Outside() []plan.Object { return c.outside }

// Replacements returns what the operation may replace. The options must be complete.
func (c Common) Replacements() plan.Replacements { return c.replacements }

// ReportStep reports a slow step to OnStep.
func (c Common) ReportStep(step string) {
	if c.OnStep != nil {
		c.OnStep(step)
	}
}

// WithTimeout returns a context that limits the preparation by the operation's timeout (R25). The options of a stack are not
// complete.
func (c Common) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := cmp.Or(c.Timeout, DefaultTimeout)
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("timed out after %s (--timeout)", timeout))
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

// Operator returns what the operator says about the readiness of objects (R22b). The options must be complete.
func (c Common) Operator() *readiness.Operator { return c.operator }

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

// TakeAdvice says how to take over objects of others.
func (c Common) TakeAdvice() manifest.TakeAdvice {
	if c.Provided != nil { // a release of a helmfile
		one := "set takeOwnership: true for release " + c.Release
		return manifest.TakeAdvice{One: one, Many: one}
	}
	return manifest.TakeAdvice{One: "take it over with --take-ownership", Many: "take them over with --take-ownership"}
}

// StartedBy returns who runs the operation, "" for a plan, and in a pod, whose user has not started the Job.
func (c Common) StartedBy() string {
	if c.PlanOnly || c.Job != "" {
		return ""
	}
	return lease.Self()
}
