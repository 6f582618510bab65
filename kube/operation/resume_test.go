package operation

import (
	"errors"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/kube/lease"
	"lockstep/kube/planfile"
	"lockstep/kube/release"
	"lockstep/kube/session"
)

// TestInstallOverWhatAnUninstallLeft: if an install continues from the last revision, whatever the history is, it may use the name, and
// at most one revision stays deployed (R50, R32a).
func TestInstallOverWhatAnUninstallLeft(t *testing.T) {
	type status struct {
		rcommon.Status
		uninstalled bool // the uninstall has at least started
	}
	all := []status{
		{rcommon.StatusDeployed, false}, {rcommon.StatusSuperseded, false}, {rcommon.StatusFailed, false}, {rcommon.StatusPendingUpgrade, false},
		{rcommon.StatusFailed, true}, {rcommon.StatusUninstalled, true}, {rcommon.StatusUninstalling, true}, {rcommon.StatusSuperseded, true},
	}
	read := func(s *storage.Storage) *release.Revisions {
		revs, err := release.MustExist(release.Read(s, "shop"))
		if err != nil {
			t.Fatal(err)
		}
		return revs
	}
	for n := range len(all) * len(all) * len(all) {
		history := []status{all[n%8], all[n/8%8], all[n/64]}
		s := storage.Init(driver.NewMemory())
		for i, st := range history {
			rel := &rel1.Release{Name: "shop", Namespace: "prod", Version: i + 1, Info: &rel1.Info{Status: st.Status}}
			if st.uninstalled {
				rel.Info.Deleted = time.Now()
			}
			if err := s.Create(rel); err != nil {
				t.Fatal(err)
			}
		}
		marked := release.Marked(s, read(s).Interrupted())
		revs := read(marked)
		if left := revs.Interrupted(); len(left) > 0 {
			t.Errorf("%v: still to mark: %v", history, left)
		}
		last, d := revs.Last.Info.Status, Deploy{Replace: true}
		if _, err := d.revision(&session.Session{Lease: lease.State{Status: lease.Unavailable}}, &releaseState{Revisions: revs}); err != nil && (resumable(revs) || last == rcommon.StatusUninstalled) {
			t.Errorf("%v: an install does not continue: %v", history, err)
		}
	}
}

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
			"revision 2 was left pending-upgrade by a run that was killed: upgrade by ann; before its first write, lockstep marks the revision failed, and resumes from it"},
		{"rollback", upgrade, killed, false, "revision 2 was left pending-upgrade by a run that was killed: upgrade by ann; before its first write, lockstep marks the revision failed"},
		{"uninstall", upgrade, lease.State{}, false, "revision 2 was left pending-upgrade by a run that has ended; before its first write, lockstep marks the revision failed"},
		{"rollback", rollback, lease.State{}, false,
			"revision 2 was left pending-rollback by a run that has ended; before its first write, lockstep marks the revision failed, and resumes from it"},
		{"upgrade", rollback, lease.State{}, false, "revision 2 was left pending-rollback by a run that has ended; before its first write, lockstep marks the revision failed"},
		{"uninstall", mark(rcommon.StatusUninstalling, true), lease.State{}, false,
			"revision 2 was left uninstalling by a run that has ended; before its first write, lockstep marks the revision failed, and resumes from it"},
		{"install", mark(rcommon.StatusUninstalling, true), lease.State{}, false,
			"revision 2 was left uninstalling by a run that has ended; before its first write, lockstep marks the revision failed"},
		{"upgrade", upgrade, lease.State{}, true, "revision 2 is pending-upgrade: once its run has ended, the operation marks the revision failed and resumes from it"},
		{"rollback", upgrade, lease.State{}, true, "revision 2 is pending-upgrade: once its run has ended, the operation marks the revision failed"},
		{"upgrade", superseded, lease.State{}, false, "revision 2 was left deployed, and a later one exists; before its first write, lockstep marks revision 2 superseded"},
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

// TestLateSavedPlan (R55): a release that is planned again in the middle of a stack may have been written already.
func TestLateSavedPlan(t *testing.T) {
	for _, ledger := range []*release.Ledger{nil, release.NewLedger("n", "s")} {
		err := (*Operation)(nil).checkSavedPlan(t.Context(), Common{SavedPlan: &planfile.Saved{}, Continues: ledger})
		refused := (*planfile.NotAsPlanned)(nil)
		if !errors.As(err, &refused) || refused.Late != (ledger != nil) {
			t.Errorf("continues %v: %v", ledger, err)
		}
	}
}
