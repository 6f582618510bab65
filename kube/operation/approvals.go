package operation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/incluster"
	"lockstep/kube/planfile"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
)

// Approvals returns what the plan asks to be approved, in the order of the plan.
func (op *Operation) Approvals() (asked []plan.Approval) {
	for g := range event.Groups(op.Phases()) {
		for _, a := range g.Approve {
			if !slices.Contains(asked, a) {
				asked = append(asked, a)
			}
		}
	}
	return asked
}

// ProveApprovals makes the run accept only approvals that are written to an object of the cluster: the Lease of the Job in whose
// pod this process runs, or one that it creates (R42a). A stack asks for release, which it gets by approve. end deletes the Lease
// that it created. If neither asks for anything, it does nothing. Call it before Run.
func (op *Operation) ProveApprovals(ctx context.Context, release []plan.Approval, approve func(event.Command)) (end func(), err error) {
	end = func() {}
	asks := slices.Concat(release, op.Approvals())
	if len(asks) == 0 {
		return end, nil
	}
	digest, err := op.prepared.Digest()
	if err != nil {
		return end, err
	}
	kube, common := op.client.Clientset, op.prepared.Common
	// The approvals that a killed run or an earlier pod has left are for what was to be changed then, too.
	switch err := op.lookAtChanges(ctx, digest); {
	case err == nil:
		if digest, err = op.shown.Digest(digest, op.asking(release)); err != nil {
			return end, err
		}
	case common.Journal.Before().Start == nil: // else the run has begun, and asks again
		return end, op.Mask().Error(err)
	}
	at := event.ApprovalsAt{Lease: incluster.ApprovalsLease(), Plan: digest}
	if at.Lease == "" {
		if at, err = incluster.NewApprovals(ctx, kube, common.Namespace, common.Release, digest, op.Username(ctx), asks); err != nil {
			return end, preflight.ExplainDenied(op.client, err)
		}
	}
	watching, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	end = func() {
		stop()
		watched.Wait()
		if namespace, name, _ := strings.Cut(at.Lease, "/"); incluster.ApprovalsLease() == "" {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = kube.CoordinationV1().Leases(namespace).Delete(ctx, name, metav1.DeleteOptions{}) // nothing reads it any more
		}
	}
	p := *op.prepared
	p.Info.Approvals = &at
	op.prepared = &p
	var warned sync.Once
	failed := func(err error) {
		warned.Do(func() {
			op.warn(plan.Warning{Rule: "R42a", Message: fmt.Sprintf("somebody deleted Lease %s and it could not be created again, so nobody can approve this run: %v", at.Lease, err)})
		})
	}
	watched.Go(func() {
		incluster.WatchApprovals(watching, kube, at.Lease, op.passApprovals(digest, release, approve), failed)
	})
	return end, nil
}

// passApprovals returns a function that gets the users who have approved, by incluster.ApprovalKey, and passes each approval on once:
// those for release by approve, those for groups to this operation.
func (op *Operation) passApprovals(digest string, release []plan.Approval, approve func(event.Command)) func(users map[string]string) {
	passed := map[string]bool{}
	return func(users map[string]string) {
		pass := func(phase, group string, a plan.Approval, to func(event.Command)) {
			key := incluster.ApprovalKey(digest, a)
			if user := users[key]; user != "" && !passed[key] {
				passed[key] = true
				to(event.Command{Name: event.Approve, Phase: phase, Group: group, By: user, Proven: &a, ID: event.InternalID})
			}
		}
		for _, a := range release {
			pass("", a.Of, a, approve)
		}
		for g := range event.Groups(op.Phases()) {
			for _, a := range g.Approve {
				pass(g.Phase.Name, g.ID, a, op.Command)
			}
		}
	}
}

// warn publishes a warning. Before the run has started, it logs it.
func (op *Operation) warn(w plan.Warning) {
	op.mu.Lock()
	eng := op.engine
	op.mu.Unlock()
	if eng == nil {
		op.client.Log().Warn(w.Message)
		return
	}
	eng.Publish(event.WarningEvent(w))
}

// ForgetApprovals deletes the approvals that killed runs have left in the cluster, if the user may list them. It is for an operation
// that asks for none.
func (op *Operation) ForgetApprovals(ctx context.Context) error {
	common := op.prepared.Common
	err := incluster.DeleteApprovals(ctx, op.client.Clientset, common.Namespace, common.Release, func(coordinationv1.Lease) bool { return false })
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// asking returns which groups wait for approvals: all of a release that asks for one itself.
func (op *Operation) asking(release []plan.Approval) func(group string) bool {
	asking := map[string]bool{}
	for g := range event.Groups(op.Phases()) {
		asking[g.ID] = asking[g.ID] || len(release)+len(g.Approve) > 0
	}
	return func(group string) bool { return asking[group] }
}

// lookAtChanges finds out what the operation changes now, which is what those who approve it are shown. plan is the digest of the plan.
func (op *Operation) lookAtChanges(ctx context.Context, plan string) error {
	shown, err := preview.Shown(ctx, op.client, op.prepared, []byte(plan), op.prepared.Common.Journal.Before().Shown)
	op.mu.Lock()
	defer op.mu.Unlock()
	op.shown = shown
	return err
}

// LookAtChanges finds out, in the pod of a Job, what those who approve the operation are shown, unless ProveApprovals has. If it cannot,
// the next pod asks again.
func (op *Operation) LookAtChanges(ctx context.Context) {
	if op.Shown() != nil || op.prepared.Common.Journal == nil || op.unplanned != nil {
		return
	}
	digest, err := op.prepared.Digest()
	if err == nil {
		err = op.lookAtChanges(ctx, digest)
	}
	if err != nil {
		op.client.Log().Warn("the next pod of this Job asks for approvals again", "error", op.Mask().Error(err))
	}
}

// Shown returns what those who approve the operation are shown, nil if it is unknown.
func (op *Operation) Shown() *planfile.Shown {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.shown
}

// ShownBefore reports whether those who approved groups in an earlier pod were shown all that these change now.
func (op *Operation) ShownBefore(of func(group string) bool) bool {
	return op.prepared.Common.Journal.Before().Shown.Covers(op.Shown(), of)
}

// keptSteering returns the steering that earlier pods have kept, and why some of their approvals do not count any more: somebody has
// changed since what these are about.
func (op *Operation) keptSteering(ctx context.Context) (*run.Steering, []plan.Warning) {
	before := op.prepared.Common.Journal.Before()
	if len(op.Approvals()) == 0 || op.unplanned != nil || before.Ending() != nil {
		return before.Steering, nil
	}
	op.LookAtChanges(ctx)
	return WithoutOutdated(before.Steering, func(given event.Approval) bool {
		return op.ShownBefore(func(group string) bool {
			for g := range event.Groups(op.Phases()) {
				if g.ID == group && slices.ContainsFunc(g.Approve, func(a plan.Approval) bool { return a.Of == given.Of }) {
					return true
				}
			}
			return false
		})
	})
}

// WithoutOutdated returns a steering, which may be nil, with only the approvals that still count, and warnings about the others.
func WithoutOutdated(s *run.Steering, counts func(event.Approval) bool) (*run.Steering, []plan.Warning) {
	if s == nil || len(s.Approved) == 0 {
		return s, nil
	}
	kept, warnings := *s, []plan.Warning(nil)
	kept.Approved = nil
	for _, given := range s.Approved {
		if counts(given) {
			kept.Approved = append(kept.Approved, given)
			continue
		}
		warnings = append(warnings, plan.Warning{Rule: "R42a", Message: fmt.Sprintf(
			"%s waits for approval again: what it changes now is not what %s approved in an earlier pod", given.Of, given.By)})
	}
	return &kept, warnings
}
