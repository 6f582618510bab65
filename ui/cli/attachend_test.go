package cli

import (
	"strings"
	"syscall"
	"testing"
)

// TestInterruptedAttach: a signal ends attach, not the connection to a run in the cluster.
func TestInterruptedAttach(t *testing.T) {
	limitedParallel(t)
	const ns = "interrupted-attach"
	inNamespace(t, ns)
	m := newMachine(t)
	m.startInCluster(ns, "install", "s", writeChart(t, keptChart), "--step")
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
}
