package chaos

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/kube/throwaway/faultproxy"
	"lockstep/kube/throwaway/testcluster"
)

// competitor is one of two operations on the same release.
type competitor struct {
	program string // "lockstep" or "helm"
	args    []string
	target  string // the operation whose baseline it must reach
}

// deploy returns a competitor that deploys version one or two of the chart.
func deploy(program, command, version string) competitor {
	target := map[string]string{"one": "install", "two": "upgrade"}[version]
	return competitor{program, append(strings.Fields(command), "r", "CHART", "--set", "v="+version), target}
}

var (
	rollbackToOne    = competitor{"lockstep", []string{"rollback", "r", "1"}, "install"}
	uninstallRelease = competitor{"lockstep", []string{"uninstall", "r"}, "uninstall"}
)

// pairs are the operations that run at the same time. installed is set if the release exists before.
var pairs = []struct {
	name      string
	installed bool
	a, b      competitor
}{
	{"install, install", false, deploy("lockstep", "install", "one"), deploy("lockstep", "install", "two")},
	{"upgrade --install twice", false, deploy("lockstep", "upgrade --install", "one"), deploy("lockstep", "upgrade --install", "two")},
	{"upgrade, upgrade", true, deploy("lockstep", "upgrade", "two"), deploy("lockstep", "upgrade", "one")},
	{"upgrade, rollback", true, deploy("lockstep", "upgrade", "two"), rollbackToOne},
	{"rollback, upgrade", true, rollbackToOne, deploy("lockstep", "upgrade", "two")},
	{"upgrade, uninstall", true, deploy("lockstep", "upgrade", "two"), uninstallRelease},
	{"uninstall, upgrade", true, uninstallRelease, deploy("lockstep", "upgrade", "two")},
	{"upgrade, helm upgrade", true, deploy("lockstep", "upgrade", "two"), deploy("helm", "upgrade", "one")},
	{"helm upgrade, upgrade", true, deploy("helm", "upgrade", "two"), deploy("lockstep", "upgrade", "one")},
	{"helm install, upgrade --install", false, deploy("helm", "install", "one"), deploy("lockstep", "upgrade --install", "two")},
}

// concurrent runs two operations on one release at the same time. Only one of them runs; the other one reports who holds
// the release (R51). Afterwards the cluster has exactly the objects of one target.
func concurrent(t *testing.T) []trialGroup {
	program := map[string]string{"helm": testcluster.Helm(t), "lockstep": lockstepProgram}
	var all []trialGroup
	for i, pair := range pairs {
		for k := range 6 {
			seed := i*10 + k
			all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
				what := fmt.Sprintf("%s, both started at once", pair.name)
				if k > 0 {
					what = fmt.Sprintf("%s, the second started at write %d of the first", pair.name, k)
				}
				r := race{harness: newHarness(t, k%2 == 0, false), program: program}
				defer r.harness.close()
				report(seed, what, r.run(pair.a, pair.b, pair.installed, k))
			}})
		}
	}
	return all
}

type race struct {
	harness *harness
	program map[string]string
}

// run starts a, then b at a's write number at, or at once if that is 0.
func (r *race) run(a, b competitor, installed bool, at int) error {
	if installed {
		if err := r.harness.runPreceding(single("uninstall")); err != nil {
			return err
		}
	}
	begin := make(chan struct{})
	first := newTracker(true, func(q request) handler {
		if q.write == at && at > 0 {
			close(begin)
		}
		if q.write == 0 {
			return nil
		}
		return delayed
	})
	second := newTracker(true, func(q request) handler {
		if q.write == 0 {
			return nil
		}
		return delayed
	})
	r.harness.tracker.Store(first)
	proxy, err := faultproxy.New(faultproxy.Options{Kubeconfig: sandbox.Kubeconfig, Intercept: second.intercept})
	if err != nil {
		return err
	}
	defer proxy.Close()
	other := filepath.Join(r.harness.dir, "second")
	if err := proxy.WriteKubeconfig(other, r.harness.ns); err != nil {
		return err
	}
	pa := r.start(a, r.harness.kubeconfig())
	if at > 0 {
		select {
		case <-begin:
		case <-pa.done: // a sent fewer writes
		}
	}
	pb := r.start(b, other)
	for _, p := range []*process{pa, pb} {
		if err := p.wait(time.Minute * slowdown); err != nil {
			return fmt.Errorf("  %w\n%s", err, p.outputTail())
		}
	}
	if wrong := r.judge(a, b, pa, pb, first, second); len(wrong) > 0 {
		return fmt.Errorf("  %s\n  the history is %q\n  the first: exit code %d\n%s\n  the second: exit code %d\n%s",
			strings.Join(wrong, "\n  "), r.harness.snapshot().history, pa.exitCode, pa.outputTail(), pb.exitCode, pb.outputTail())
	}
	return nil
}

func delayed(w http.ResponseWriter, r *http.Request, next http.Handler) {
	time.Sleep(50 * time.Millisecond)
	next.ServeHTTP(w, r)
}

func (r *race) start(x competitor, kubeconfig string) *process {
	args := r.harness.args(operation{args: x.args})
	return r.harness.exec(r.program[x.program], kubeconfig, args...)
}

func (r *race) judge(a, b competitor, pa, pb *process, first, second *tracker) (wrong []string) {
	var won []competitor
	for _, x := range []struct {
		competitor
		p *process
	}{{a, pa}, {b, pb}} {
		switch {
		case x.p.exitCode == 0:
			won = append(won, x.competitor)
		case x.program == "lockstep" && x.p.exitCode != 2:
			wrong = append(wrong, fmt.Sprintf("%s: exit code %d, want 0 or 2", x.args[0], x.p.exitCode))
		case x.program == "lockstep" && a.program == b.program && !r.namesHolder(x.p):
			wrong = append(wrong, x.args[0]+" does not say who holds the release, where and since when")
		}
	}
	if len(won) == 0 {
		return append(wrong, "both failed")
	}
	if len(won) == 2 && overlap(first, second) {
		wrong = append(wrong, "both succeeded and their writes overlap")
	}
	var best []string
	for i, x := range won {
		want, err := baselineOf(r.harness.t, single(x.target), false)
		if err != nil {
			return append(wrong, err.Error())
		}
		if diff := r.harness.waitUntil(want.target, false); i == 0 || len(diff) < len(best) {
			best = diff
		}
	}
	wrong = append(wrong, best...)
	now := r.harness.snapshot()
	if n := now.count("deployed"); n > 1 || n == 0 && !slices.ContainsFunc(won, func(x competitor) bool { return x.target == "uninstall" }) {
		wrong = append(wrong, fmt.Sprintf("%d revisions are deployed", n))
	}
	if u := now.unfinished(); len(u) > 0 {
		wrong = append(wrong, fmt.Sprintf("unfinished: %q", u))
	}
	return wrong
}

// namesHolder reports whether a refusal says who holds the release. If the other run has already ended, the release
// exists or is gone, and the refusal says so.
func (r *race) namesHolder(p *process) bool {
	host, _ := os.Hostname()
	text := p.err.String()
	late := slices.ContainsFunc([]string{"still in use", "already exists", "not found", "is deployed"}, func(s string) bool { return strings.Contains(text, s) })
	return late || strings.Contains(text, host) && strings.Contains(text, ", since ")
}

// overlap reports whether the writes of two commands overlap in time.
func overlap(a, b *tracker) bool {
	span := func(t *tracker) (from, to time.Time) {
		requests, _ := t.sent()
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
