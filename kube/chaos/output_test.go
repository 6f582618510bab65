package chaos

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// outputs removes the files and directories that lockstep writes to on its own machine. The
// operation continues without them and ends as usual.
func outputs(t *testing.T) []trials {
	kinds := []struct {
		name string
		take func(*bench, *process) error
	}{
		{"stdout and stderr are on a full disk", func(_ *bench, p *process) error {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			p.cmd.Stdout, p.cmd.Stderr = full, full
			return err
		}},
		{"who reads stdout and stderr goes away", func(_ *bench, p *process) error {
			r, w, err := os.Pipe()
			if err == nil {
				p.cmd.Stdout, p.cmd.Stderr = w, w
				err = r.Close()
			}
			return err
		}},
		// Nobody can make a folder there; what only its mode forbids, root may do.
		{"home is read-only", func(_ *bench, p *process) error {
			p.cmd.Env = append(p.cmd.Env, "HOME=/proc", "XDG_STATE_HOME=", "XDG_CACHE_HOME=")
			return nil
		}},
		{"there is no home", func(_ *bench, p *process) error {
			p.cmd.Env = slices.DeleteFunc(p.cmd.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "XDG_") })
			return nil
		}},
	}
	var all []trials
	for i, name := range []string{"install", "upgrade", "uninstall", "bad-upgrade"} {
		o := single(name)
		std, err := standardOf(t, o, false)
		if err != nil {
			t.Fatal(err)
		}
		for k, kind := range kinds {
			seed := i*10 + k
			all = append(all, trials{[]int{seed}, func(t *testing.T, tell func(int, string, error)) {
				tell(seed, o.name+": "+kind.name, without(t, o, std, kind.take))
			}})
		}
	}
	return all
}

func without(t *testing.T, o operation, std *standard, take func(*bench, *process) error) error {
	b := newBench(t, true, false)
	defer b.close()
	if err := b.reach(o); err != nil {
		return err
	}
	b.tracker.Store(newTracker(o.undoes, nil))
	p := b.command(lockstep, b.kubeconfig(), b.args(o)...)
	if err := errors.Join(take(b, p), p.run()); err != nil {
		return err
	}
	for _, w := range []any{p.cmd.Stdout, p.cmd.Stderr} {
		if f, ok := w.(*os.File); ok {
			_ = f.Close() // the process has its own
		}
	}
	return b.judge(p, std, p.wait(30*time.Second*slowdown))
}
