package run

import (
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	modelRuns = flag.Int("model.runs", 100_000, "how many runs the model test simulates")
	modelSeed = flag.Uint64("model.seed", 0, "the first seed of the model test")
)

// TestModel compares runs with random plans, objects and commands to the reference. It
// prints the seed and the smallest scenario that fails in the same way.
func TestModel(t *testing.T) { // R14, R15a, R22, R22c, R26, R40, R41, R42, R43, R44, R45, R48, R53
	const workers = 4
	runs := *modelRuns
	if racing || testing.Short() { // a run is one goroutine, so there are no races
		runs = min(runs, 2000)
	}
	var wrong atomic.Bool
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := w; n < runs && !wrong.Load(); n += workers {
				seed := *modelSeed + uint64(n)
				if report := tryModel(seed); report != "" && wrong.CompareAndSwap(false, true) {
					t.Errorf("seed %d:\n%s", seed, report)
				}
			}
		})
	}
	wg.Wait()
}

// tryModel simulates one run; the report is empty if nothing is wrong.
func tryModel(seed uint64) string {
	s := newScenario(seed)
	wrong := simulate(s)
	if len(wrong) == 0 {
		return ""
	}
	rule, _, _ := strings.Cut(wrong[0], ":")
	s = shrink(s, func(c scenario) bool {
		w := simulate(c)
		return len(w) > 0 && strings.HasPrefix(w[0], rule+":") == strings.Contains(wrong[0], ":")
	})
	return strings.Join(simulate(s), "\n") + "\n" + s.String()
}
