package cli

import (
	"strings"
	"syscall"
	"testing"
)

// TestInterruptedAttach: a signal ends attach, not the connection to a run in the cluster, and the record of the terminal
// that started the run does not say that the run was killed.
func TestInterruptedAttach(t *testing.T) {
	limitedParallel(t)
	const ns = "interrupted-attach"
	inNamespace(t, ns)
	m := newMachine(t)
	_, starterEnds := m.startInCluster(ns, "install", "s", writeChart(t, keptChart), "--step")
	starter := m.last
	m.runUntil("ctl s status -n "+ns, "paused")
	for range 6 { // the signal ends the connection, too, which was noticed first in half of the tries
		out, ends := m.start("attach", "s", "-n", ns, "--no-tui")
		out.await(t, "paused")
		if err := m.last.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := ends(); code != 0 || !strings.Contains(out.String(), "the run continues; attach again") {
			t.Fatalf("exit code %d\n%s", code, out)
		}
	}
	if s := m.run(0, "runs"); !strings.Contains(s, "running") || strings.Contains(s, "not watched") {
		t.Errorf("while the starter watches, the recorded runs are\n%s", s)
	}
	_ = starter.Process.Signal(syscall.SIGTERM)
	starterEnds()
	if s := m.run(0, "runs"); !strings.Contains(s, "not watched") || !strings.Contains(s, "lockstep runs show lockstep-s-") {
		t.Errorf("the recorded runs are\n%s", s)
	}
	if s := m.run(0, "runs", "show"); !strings.Contains(s, "install s in the cluster, watched for") || !strings.Contains(s, "the terminal stopped watching") {
		t.Errorf("the record is\n%s", s)
	}
}
