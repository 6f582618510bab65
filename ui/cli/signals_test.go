//go:build unix

package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/cli/signaltest"
)

var allSignals = flag.Bool("signals.all", false, "send every signal in every phase, not only those of the short table")

// TestSignals sends signals in the phases of an installation (R43, R34): the exit
// code is that of who ended it, no release is left pending, the terminal is as it
// was, and a terminal that goes away ends nothing.
func TestSignals(t *testing.T) {
	cases := signaltest.Cases()
	if !*allSignals {
		cases = short()
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lockstep")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	cluster := testcluster.Get(t)
	for n, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			o, err := c.Run(ctx, signaltest.Rig{Program: program, Kubeconfig: cluster.Kubeconfig, Dir: t.TempDir(), Namespace: fmt.Sprintf("signal-%d", n)})
			if err != nil {
				t.Fatal(err)
			}
			if wrong := c.Check(o); len(wrong) > 0 {
				t.Errorf("%s; it says:\n%s", strings.Join(wrong, "; "), tailOf(o.Text, 2000))
			}
		})
	}
}

// short has each phase and each signal once or twice, and what flags change.
func short() []signaltest.Case {
	is := func(phase string, screen bool, a signaltest.Action, times int) signaltest.Case {
		return signaltest.Case{Phase: signaltest.Named(phase), Screen: screen, Action: a, Times: times}
	}
	with := func(c signaltest.Case, w signaltest.Wants, flags ...string) signaltest.Case {
		c.Flags, c.Wants = flags, &w
		return c
	}
	const headless, screen = false, true
	return []signaltest.Case{
		is("loading", headless, signaltest.INT, 2),
		is("dependency build", screen, signaltest.TERM, 1),
		is("rendering", headless, signaltest.TERM, 2),
		is("rendering", screen, signaltest.INT, 1),
		is("checking", headless, signaltest.HUP, 2),
		is("checking", screen, signaltest.INT, 2),
		is("hooks", headless, signaltest.TERM, 1),
		is("hooks", screen, signaltest.HUP, 2),
		is("applying", headless, signaltest.HUP, 1),
		is("applying", screen, signaltest.CtrlC, 2),
		is("waiting", headless, signaltest.INT, 2),
		is("waiting", headless, signaltest.Closed, 1),
		is("waiting", screen, signaltest.Closed, 1),
		is("rolling back", headless, signaltest.INT, 1),
		is("rolling back", headless, signaltest.HUP, 1),
		is("rolling back", screen, signaltest.TERM, 1),
		is("rolling back", screen, signaltest.CtrlC, 2),
		is("rolling back", screen, signaltest.INT, 2),
		is("writing the record", headless, signaltest.TERM, 1),
		is("writing the record", screen, signaltest.INT, 2),
		is("finished", screen, signaltest.INT, 1),
		is("finished", screen, signaltest.TERM, 2),
		is("finished", screen, signaltest.HUP, 1),
		is("finished", screen, signaltest.CtrlC, 2),
		with(is("waiting", headless, signaltest.TERM, 1), signaltest.Wants{Exit: 3, Says: "uninstalled"}, "--on-interrupt=rollback"),
		with(is("waiting", headless, signaltest.INT, 1), signaltest.Wants{Exit: 3, Release: "failed"}, "--rollback-on-failure", "--on-interrupt=keep"),
		with(is("waiting", headless, signaltest.HUP, 1), signaltest.Wants{Exit: 3, Release: "failed"}, "--on-hangup=keep"),
		with(is("waiting", screen, signaltest.HUP, 2), signaltest.Wants{Exit: 3}, "--on-hangup=rollback"),
	}
}
