// Package chaos runs the real program against a real API server. It makes requests fail with a proxy, kills the program,
// sends it signals, and runs competing commands.
//
// Its test has a row for each kind of fault, and a row has many trials. A trial depends only on its seed: `make chaos
// ROW=faults SEED=123` repeats it. `go test` runs a few trials of each row, `make chaos` all of them.
package chaos

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	observers "lockstep/kube/throwaway/observer"
	"lockstep/kube/throwaway/testcluster"
	_ "lockstep/ui/cli" // go test must not reuse cached results after the program has changed
)

var (
	sandbox         *testcluster.Cluster
	lockstepProgram string // path of the program under test
	admin           *observer
	witness         *observers.Observer
	// long is set by `make chaos`. only is the seed to repeat, or -1.
	long = os.Getenv("CHAOS") == "long"
	only = -1
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return 0
	}
	dir, err := os.MkdirTemp("", "lockstep-chaos-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := testcluster.Main(m)
	table.print()
	return code
}

func prepare(dir string) (err error) {
	if s := os.Getenv("CHAOS_SEED"); s != "" {
		if only, err = strconv.Atoi(s); err != nil {
			return fmt.Errorf("read the seed: %w", err)
		}
	}
	if lockstepProgram = os.Getenv("CHAOS_PROGRAM"); lockstepProgram == "" {
		lockstepProgram = filepath.Join(dir, "lockstep")
		build := exec.Command("go", "build", "-p", "2", "-ldflags=-s -w", "-o", lockstepProgram, "lockstep")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build lockstep: %w\n%s", err, out)
		}
	}
	if sandbox, err = testcluster.Start(); err != nil {
		return err
	}
	if witness, err = observers.New(sandbox.Kubeconfig); err != nil {
		return err
	}
	admin, err = newObserver(sandbox.Kubeconfig)
	return err
}

// trialGroup is a sequence of trials that one worker runs. It calls report for each seed, with a nil error after a
// success.
type trialGroup struct {
	seeds []int
	run   func(t *testing.T, report func(seed int, what string, trouble error))
}

// TestChaos runs all trials of all rows.
func TestChaos(t *testing.T) {
	rows := []struct {
		name  string
		all   func(t *testing.T) []trialGroup
		short int // how many of them go test runs
	}{
		{"crash", crashes, 5},
		{"in-cluster", podKills, 2},
		{"journal", journalKills, 2},
		{"approvals", approvals, 3},
		{"approvals-in-cluster", approvalsInCluster, 2},
		{"replace", replacements, 3},
		{"replace-in-cluster", replacementsInCluster, 1},
		{"faults", faults, 1},
		{"records", records, 4},
		{"stalls", stalls, 2},
		{"signals", signals, 4},
		{"two", concurrent, 3},
		{"output", brokenOutputs, 3},
		{"twin", twins, 2},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			all := row.all(t)
			if !long && only < 0 {
				all = sample(all, row.short)
			}
			runRow(t, row.name, all)
		})
	}
}

// sample returns n trials spread over a row. The extra step of one each time avoids always picking the same kind, since
// kinds repeat at regular distances.
func sample(all []trialGroup, n int) (some []trialGroup) {
	for i := range min(n, len(all)) {
		some = append(some, all[((2*i+1)*len(all)/(2*n)+i)%len(all)])
	}
	return some
}

// workers limits how many trials of all rows run at once. They mostly wait.
var workers = make(chan struct{}, 8)

func runRow(t *testing.T, name string, all []trialGroup) {
	if only >= 0 {
		all = slices.DeleteFunc(all, func(x trialGroup) bool { return !slices.Contains(x.seeds, only) })
	}
	if part, of, ok := strings.Cut(os.Getenv("CHAOS_PART"), "/"); ok { // 1/8: every eighth trial, from the first
		i, _ := strconv.Atoi(part)
		n, _ := strconv.Atoi(of)
		var some []trialGroup
		for at := i - 1; at >= 0 && n > 0 && at < len(all); at += n {
			some = append(some, all[at])
		}
		all = some
	}
	var wg sync.WaitGroup
	for _, x := range all {
		workers <- struct{}{}
		wg.Go(func() {
			runTrials(t, name, x)
			<-workers
		})
	}
	wg.Wait()
}

// runTrials runs a group and counts its results. A panic of the harness counts as a failure.
func runTrials(t *testing.T, row string, x trialGroup) {
	report := func(seed int, what string, trouble error) {
		if only >= 0 && seed != only {
			return
		}
		table.add(row, trouble == nil)
		if trouble != nil {
			t.Errorf("make chaos ROW=%s SEED=%d: %s\n%v\n", row, seed, what, trouble)
		}
	}
	defer func() {
		if r := recover(); r != nil {
			report(x.seeds[0], "the harness panicked", fmt.Errorf("%v\n%s", r, debug.Stack()))
		}
	}()
	x.run(t, report)
}

// scoreTable counts the trials and successes of each row.
type scoreTable struct {
	mu      sync.Mutex
	rows    map[string]*score
	started time.Time
}

type score struct {
	tried, survived int
	note            string
	first, last     time.Time
}

var table = scoreTable{rows: map[string]*score{}, started: time.Now()}

func (s *scoreTable) row(name string) *score {
	if s.rows[name] == nil {
		s.rows[name] = &score{first: time.Now()}
	}
	return s.rows[name]
}

func (s *scoreTable) add(name string, survived bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.row(name)
	r.tried++
	r.last = time.Now()
	if survived {
		r.survived++
	}
}

func (s *scoreTable) note(name, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row(name).note = fmt.Sprintf(format, args...)
}

func (s *scoreTable) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.rows))
	for name := range s.rows {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(s.rows[a].first.UnixNano(), s.rows[b].first.UnixNano()) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tTRIED\tSURVIVED\t")
	for _, name := range names {
		r := s.rows[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", name, r.tried, r.survived, r.note)
	}
	_ = w.Flush()
	fmt.Printf("in %s\n", time.Since(s.started).Round(time.Second))
}

// within polls until ok returns true, for a limited time.
func within(ctx context.Context, d time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(d); ; {
		if ok() {
			return true
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
}
