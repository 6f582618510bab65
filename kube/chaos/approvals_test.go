package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// approvedUpgrade is the upgrade of the other rows, but its second group starts only once it is approved.
func approvedUpgrade(name string, more ...string) operation {
	o := single("upgrade")
	o.name, o.run, o.args = "approved upgrade"+name, "r", append(slices.Clone(o.args), append(more, "--approve-before", "second")...)
	return o
}

// approvedUp is the same upgrade as one of a stack.
func approvedUp(name string, more ...string) operation {
	o := approvedUpgrade(name)
	o.name, o.run, o.args = "approved up"+name, "stack", append([]string{"up", "-f", "CHART/../stack/helmfile.yaml", "--approve-before", "r/second"}, more...)
	return o
}

// writeStack writes a helmfile with the release of the chart, below dir.
func writeStack(dir, namespace string) error {
	text := fmt.Sprintf("releases: [{name: r, namespace: %s, chart: ../chart, values: [{v: two}]}]\n", namespace)
	return errors.Join(os.MkdirAll(filepath.Join(dir, "stack"), 0o700), os.WriteFile(filepath.Join(dir, "stack", "helmfile.yaml"), []byte(text), 0o600))
}

// approvals kills a run that asks for an approval at each of its writes. The same command again asks again, except for what it
// approves itself, and starts the group only once it is approved (R42a, R52).
func approvals(t *testing.T) (all []trialGroup) {
	given := approvedUpgrade(" (--approve)", "--approve", "second")
	given.run = ""
	for i, o := range []operation{
		approvedUpgrade(""), given, approvedUpgrade(" (--approval-in-cluster)", "--approval-in-cluster"), approvedUp(""),
		approvedUp(" (--approval-in-cluster)", "--approval-in-cluster"),
	} {
		all = append(all, crashesOf(t, i+1, o)...)
	}
	return all
}

// approvalsInCluster kills the pod of a run in the cluster that asks for an approval after each of its writes, and after each one
// of its journal. The approval is given once, to whichever pod waits: the next one does not ask for it again (R42a, S13).
func approvalsInCluster(t *testing.T) (all []trialGroup) {
	for i, o := range []operation{approvedUpgrade(" in the cluster"), approvedUp(" in the cluster")} {
		all = append(all, podKillsOf(t, i+1, o, journalWrites+1)...)
	}
	return all
}

func (p *process) waitsForApproval() bool {
	return strings.Contains(p.text.String(), "second waits for approval")
}

// approve approves once what a run waits for, until its command has ended. Until then, the run must not have written the group.
func (h *harness) approve(p *process, run string, requests func() []request) {
	ended := func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	}
	within(context.Background(), time.Minute*slowdown, func() bool { return p.waitsForApproval() || ended() })
	if !p.waitsForApproval() {
		return
	}
	for _, q := range requests() {
		if q.write > 0 && strings.HasSuffix(q.key, "/configmaps/second") {
			p.unapproved.Store(true)
		}
	}
	for !ended() {
		c := h.command(lockstepProgram, sandbox.Kubeconfig, "ctl", run, "approve", "-n", h.ns, "--timeout", "20s")
		if err := c.run(); err != nil {
			return
		}
		if <-c.done; c.exitCode == 0 {
			return
		}
	}
}

// judgeApprovals checks that the group was approved before it started, and that no command asked for what was approved beforehand.
func (h *harness) judgeApprovals(o operation, commands ...*process) (err error) {
	for _, p := range commands {
		if p.unapproved.Load() {
			err = errors.Join(err, errors.New("  the group was written before it was approved\n"+p.outputTail()))
		}
		if o.run == "" && p.waitsForApproval() {
			err = errors.Join(err, errors.New("  it asked for an approval that was given\n"+p.outputTail()))
		}
	}
	return err
}
