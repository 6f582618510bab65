package chaos

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// brokenOutputs makes the files and directories on this machine unwritable. The operation continues without them, with
// the usual result.
func brokenOutputs(t *testing.T) []trialGroup {
	kinds := []struct {
		name        string
		breakOutput func(*harness, *process) error
	}{
		{"stdout and stderr are on a full disk", func(_ *harness, p *process) error {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			p.cmd.Stdout, p.cmd.Stderr = full, full
			return err
		}},
		{"the reader of stdout and stderr is gone", func(_ *harness, p *process) error {
			r, w, err := os.Pipe()
			if err == nil {
				p.cmd.Stdout, p.cmd.Stderr = w, w
				err = r.Close()
			}
			return err
		}},
		// Not even root can create a folder in /proc.
		{"home is read-only", func(_ *harness, p *process) error {
			p.cmd.Env = append(p.cmd.Env, "HOME=/proc", "XDG_STATE_HOME=", "XDG_CACHE_HOME=")
			return nil
		}},
		{"there is no home", func(_ *harness, p *process) error {
			p.cmd.Env = slices.DeleteFunc(p.cmd.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "XDG_") })
			return nil
		}},
	}
	var all []trialGroup
	for i, name := range []string{"install", "upgrade", "uninstall", "bad-upgrade"} {
		o := single(name)
		want, err := baselineOf(t, o, false)
		if err != nil {
			t.Fatal(err)
		}
		for k, kind := range kinds {
			seed := i*10 + k
			all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
				report(seed, o.name+": "+kind.name, runWithBrokenOutput(t, o, want, kind.breakOutput))
			}})
		}
	}
	return all
}

func runWithBrokenOutput(t *testing.T, o operation, want *baseline, breakOutput func(*harness, *process) error) error {
	h := newHarness(t, true, false)
	defer h.close()
	if err := h.runPreceding(o); err != nil {
		return err
	}
	h.tracker.Store(newTracker(o.isRollback, nil))
	p := h.command(lockstepProgram, h.kubeconfig(), h.args(o)...)
	if err := errors.Join(breakOutput(h, p), p.run()); err != nil {
		return err
	}
	for _, w := range []any{p.cmd.Stdout, p.cmd.Stderr} {
		if f, ok := w.(*os.File); ok {
			_ = f.Close() // the process has a copy
		}
	}
	return h.judge(p, want, p.wait(30*time.Second*slowdown))
}
