package operation

import (
	"errors"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/kube/lease"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// TestCheckMark checks the warnings and errors about revisions that a run left unfinished. Only an operation that repeats
// the interrupted one resumes from it (R52).
func TestCheckMark(t *testing.T) {
	mark := func(from rcommon.Status, ours bool) release.Mark {
		return release.Mark{Revision: 2, From: from, To: rcommon.StatusFailed, Ours: ours}
	}
	upgrade, rollback := mark(rcommon.StatusPendingUpgrade, true), mark(rcommon.StatusPendingRollback, true)
	superseded := release.Mark{Revision: 2, From: rcommon.StatusDeployed, To: rcommon.StatusSuperseded, Ours: true}
	killed := lease.State{Status: lease.Dead, Holder: lease.Holder{User: "ann", Operation: "upgrade"}}
	unavailable := lease.State{Status: lease.Unavailable, Err: errors.New("leases are forbidden")}
	const ended = "if it has ended, mark the release failed with: lockstep recover shop -n prod"
	for _, c := range []struct {
		operation string
		mark      release.Mark
		lease     lease.State
		planOnly  bool
		want      string
	}{
		{"upgrade", upgrade, killed, false,
			"revision 2 was left pending-upgrade by a run that was killed: upgrade by ann; lockstep marks the revision failed, and resumes from it"},
		{"rollback", upgrade, killed, false, "revision 2 was left pending-upgrade by a run that was killed: upgrade by ann; lockstep marks the revision failed"},
		{"uninstall", upgrade, lease.State{}, false, "revision 2 was left pending-upgrade by a run that has ended; lockstep marks the revision failed"},
		{"rollback", rollback, lease.State{}, false,
			"revision 2 was left pending-rollback by a run that has ended; lockstep marks the revision failed, and resumes from it"},
		{"upgrade", rollback, lease.State{}, false, "revision 2 was left pending-rollback by a run that has ended; lockstep marks the revision failed"},
		{"uninstall", mark(rcommon.StatusUninstalling, true), lease.State{}, false,
			"revision 2 was left uninstalling by a run that has ended; lockstep marks the revision failed, and resumes from it"},
		{"install", mark(rcommon.StatusUninstalling, true), lease.State{}, false,
			"revision 2 was left uninstalling by a run that has ended; lockstep marks the revision failed"},
		{"upgrade", upgrade, lease.State{}, true, "revision 2 is pending-upgrade: once its run has ended, the operation marks the revision failed and resumes from it"},
		{"rollback", upgrade, lease.State{}, true, "revision 2 is pending-upgrade: once its run has ended, the operation marks the revision failed"},
		{"upgrade", superseded, lease.State{}, false, "revision 2 was left deployed, and a later one exists; lockstep marks revision 2 superseded"},
		{"upgrade", superseded, lease.State{}, true, "revision 2 was left deployed, and a later one exists; the operation would mark it superseded"},
		{"upgrade", mark(rcommon.StatusPendingUpgrade, false), lease.State{}, false,
			"revision 2 was left pending-upgrade by another program, perhaps helm, which may still be running; " + ended},
		{"upgrade", upgrade, unavailable, false, "revision 2 was left pending-upgrade by a run of lockstep, which may still be active: " +
			"its lock cannot be checked (leases are forbidden); " + ended},
	} {
		s := &session.Session{Lease: c.lease, Common: Common{Release: "shop", Namespace: "prod", PlanOnly: c.planOnly}}
		state := &releaseState{}
		var got string
		if err := state.checkMark(s, c.operation, c.mark); err != nil {
			got = err.Error()
		} else {
			got = state.warnings[0].Message
		}
		if got != c.want {
			t.Errorf("%s: got  %q\nwant %q", c.operation, got, c.want)
		}
	}
}
