package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/kube/throwaway/faultproxy"
)

// contender is one of two operations on the same release.
type contender struct {
	program string // "lockstep" or "helm"
	args    []string
	target  string // the operation whose target it deploys
}

// pairs are what runs at once, after an installation or before one.
var pairs = []struct {
	name      string
	installed bool
	a, b      contender
}{
	{"install, install", false, contender{"lockstep", []string{"install", "r", "CHART", "--set", "v=one"}, "install"}, contender{"lockstep", []string{"install", "r", "CHART", "--set", "v=two"}, "upgrade"}},
	{"upgrade --install twice", false, contender{"lockstep", []string{"upgrade", "--install", "r", "CHART", "--set", "v=one"}, "install"}, contender{"lockstep", []string{"upgrade", "--install", "r", "CHART", "--set", "v=two"}, "upgrade"}},
	{"upgrade, upgrade", true, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=two"}, "upgrade"}, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=one"}, "install"}},
	{"upgrade, rollback", true, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=two"}, "upgrade"}, contender{"lockstep", []string{"rollback", "r", "1"}, "install"}},
	{"rollback, upgrade", true, contender{"lockstep", []string{"rollback", "r", "1"}, "install"}, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=two"}, "upgrade"}},
	{"upgrade, uninstall", true, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=two"}, "upgrade"}, contender{"lockstep", []string{"uninstall", "r"}, "uninstall"}},
	{"uninstall, upgrade", true, contender{"lockstep", []string{"uninstall", "r"}, "uninstall"}, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=two"}, "upgrade"}},
	{"upgrade, helm upgrade", true, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=two"}, "upgrade"}, contender{"helm", []string{"upgrade", "r", "CHART", "--set", "v=one"}, "install"}},
	{"helm upgrade, upgrade", true, contender{"helm", []string{"upgrade", "r", "CHART", "--set", "v=two"}, "upgrade"}, contender{"lockstep", []string{"upgrade", "r", "CHART", "--set", "v=one"}, "install"}},
	{"helm install, upgrade --install", false, contender{"helm", []string{"install", "r", "CHART", "--set", "v=one"}, "install"}, contender{"lockstep", []string{"upgrade", "--install", "r", "CHART", "--set", "v=two"}, "upgrade"}},
}

// two runs two operations on one release at once. One runs at a time, the other one reports
// the run that holds the release (R51), and afterwards the cluster has exactly the objects of
// one target.
func two(t *testing.T) []trials {
	helm, err := exec.Command("go", "tool", "-n", "helm").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := map[string]string{"helm": strings.TrimSpace(string(helm)), "lockstep": lockstep}
	var all []trials
	for i, pair := range pairs {
		for k := range 6 {
			seed := i*10 + k
			all = append(all, trials{[]int{seed}, func(t *testing.T, tell func(int, string, error)) {
				what := fmt.Sprintf("%s, which begins at once", pair.name)
				if k > 0 {
					what = fmt.Sprintf("%s, which begins at the first's write %d", pair.name, k)
				}
				c := contest{bench: newBench(t, k%2 == 0, false), program: program}
				defer c.bench.close()
				tell(seed, what, c.run(pair.a, pair.b, pair.installed, k))
			}})
		}
	}
	return all
}

type contest struct {
	bench   *bench
	program map[string]string
}

// run starts b at the how manieth write of a, 0 for at once.
func (c *contest) run(a, b contender, installed bool, at int) error {
	if installed {
		if err := c.bench.reach(single("uninstall")); err != nil {
			return err
		}
	}
	begin := make(chan struct{})
	first := newTracker(true, func(q request) deed {
		if q.write == at && at > 0 {
			close(begin)
		}
		if q.write == 0 {
			return nil
		}
		return slowly
	})
	second := newTracker(true, func(q request) deed {
		if q.write == 0 {
			return nil
		}
		return slowly
	})
	c.bench.tracker.Store(first)
	front, err := faultproxy.New(faultproxy.Options{Kubeconfig: sandbox.Kubeconfig, Intercept: second.intercept})
	if err != nil {
		return err
	}
	defer front.Close()
	other := filepath.Join(c.bench.dir, "second")
	if err := front.WriteKubeconfig(other, c.bench.ns); err != nil {
		return err
	}
	pa := c.start(a, c.bench.kubeconfig())
	if at > 0 {
		select {
		case <-begin:
		case <-pa.over: // it has fewer writes
		}
	}
	pb := c.start(b, other)
	for _, p := range []*process{pa, pb} {
		if err := p.wait(time.Minute * slowdown); err != nil {
			return fmt.Errorf("  %w\n%s", err, p.says())
		}
	}
	if wrong := c.judge(a, b, pa, pb, first, second); len(wrong) > 0 {
		return errors.New("  " + strings.Join(wrong, "\n  ") + fmt.Sprintf("\n  the history is %q\n  the first: exit code %d\n%s\n  the second: exit code %d\n%s", c.bench.look().history, pa.exit, pa.says(), pb.exit, pb.says()))
	}
	return nil
}

func slowly(w http.ResponseWriter, r *http.Request, next http.Handler) {
	time.Sleep(50 * time.Millisecond)
	next.ServeHTTP(w, r)
}

func (c *contest) start(x contender, kubeconfig string) *process {
	args := c.bench.args(operation{args: x.args})
	return c.bench.exec(c.program[x.program], kubeconfig, args...)
}

func (c *contest) judge(a, b contender, pa, pb *process, first, second *tracker) (wrong []string) {
	var won []contender
	for _, x := range []struct {
		contender
		p *process
	}{{a, pa}, {b, pb}} {
		switch {
		case x.p.exit == 0:
			won = append(won, x.contender)
		case x.program == "lockstep" && x.p.exit != 2:
			wrong = append(wrong, fmt.Sprintf("%s: exit code %d, want 0 or 2", x.args[0], x.p.exit))
		case x.program == "lockstep" && a.program == b.program && !c.names(x.p):
			wrong = append(wrong, x.args[0]+" does not say who holds the release, since when and where")
		}
	}
	if len(won) == 0 {
		return append(wrong, "neither has worked")
	}
	if len(won) == 2 && overlap(first, second) {
		wrong = append(wrong, "both have worked at a time")
	}
	var best []string
	for i, x := range won {
		std, err := standardOf(c.bench.t, single(x.target), false)
		if err != nil {
			return append(wrong, err.Error())
		}
		if diff := c.bench.becomes(std.target, false); i == 0 || len(diff) < len(best) {
			best = diff
		}
	}
	wrong = append(wrong, best...)
	now := c.bench.look()
	if n := now.count("deployed"); n > 1 || n == 0 && !slices.ContainsFunc(won, func(x contender) bool { return x.target == "uninstall" }) {
		wrong = append(wrong, fmt.Sprintf("%d revisions are deployed", n))
	}
	if u := now.unfinished(); len(u) > 0 {
		wrong = append(wrong, fmt.Sprintf("unfinished: %q", u))
	}
	return wrong
}

// names reports whether a refusal names who is at work. What came too late finds
// the release there, or gone.
func (c *contest) names(p *process) bool {
	host, _ := os.Hostname()
	text := p.err.String()
	late := slices.ContainsFunc([]string{"still in use", "already exists", "not found", "is deployed"}, func(s string) bool { return strings.Contains(text, s) })
	return late || strings.Contains(text, host) && strings.Contains(text, "since")
}

// overlap reports whether the writes of two commands overlap in time.
func overlap(a, b *tracker) bool {
	span := func(t *tracker) (from, to time.Time) {
		requests, _ := t.made()
		for _, q := range requests {
			if q.write > 0 && q.phase != phaseLease {
				if from.IsZero() {
					from = q.at
				}
				to = q.at
			}
		}
		return from, to
	}
	fromA, toA := span(a)
	fromB, toB := span(b)
	return fromA.Before(toB) && fromB.Before(toA)
}
