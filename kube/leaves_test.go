package kube

import (
	"testing"
	"time"

	"lockstep/engine/event"
)

// TestEveryGroupIsWaitedFor brings a last group that never becomes ready. By default
// that fails an installation, an upgrade and a rollback; where only the groups that
// others wait for are checked, the outcome says what was not (R21).
func TestEveryGroupIsWaitedFor(t *testing.T) {
	t.Parallel()
	good := []string{configMap("first", group("first")), deployment("last", group("last", "first"), "0s")}
	bad := []string{configMap("first", group("first")), unpullable("last", group("last", "first"))}
	operations := map[string]func(r *rig, common Common) (*Operation, error){
		"install": func(r *rig, common Common) (*Operation, error) {
			return r.install("plain", use(one(t, bad...), func(i *Install) { i.Common = common }))
		},
		"upgrade": func(r *rig, common Common) (*Operation, error) {
			r.deploy("plain", use(one(t, good...), nil))
			return r.upgrade("plain", useUp(one(t, bad...), func(u *Upgrade) { u.Common = common }))
		},
		"rollback": func(r *rig, common Common) (*Operation, error) {
			r.deploy("plain", use(one(t, bad...), func(i *Install) { i.SkipLeaves = true }))
			r.mustRun(r.upgrade("plain", useUp(one(t, good...), nil)))
			return r.client.PrepareRollback(t.Context(), Rollback{Common: common, Revision: 1})
		},
	}
	for name, prepare := range operations {
		for _, skip := range []bool{false, true} {
			title := name
			if skip {
				title += " not waiting"
			}
			t.Run(title, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				common := r.common()
				common.ReadinessTimeout, common.SkipLeaves = 2*time.Second, skip
				op, err := prepare(r, common)
				if err != nil {
					t.Fatal(err)
				}
				s := r.run(op, nil).state
				if !skip && (s.Status != event.Failed || s.Exit != 1 || s.Release != "failed") {
					t.Errorf("%s, exit %d, the release is %s: %s", s.Status, s.Exit, s.Release, s.Reason())
				}
				if skip && (s.Ending() != event.Applied || s.Exit != 0 || s.Release != "deployed" || s.Outcome != "1 group applied, not waited for") {
					t.Errorf("%s, exit %d, the release is %s: %q", s.Ending(), s.Exit, s.Release, s.Outcome)
				}
			})
		}
	}
}
