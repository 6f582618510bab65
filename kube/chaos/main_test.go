// Package chaos runs the real program against a real API server, through a front
// that makes requests fail, and kills it, signals it, and runs it beside itself.
//
// Its test has a row for each kind of trouble. A row makes trials; a trial has a
// seed, which is all that it depends on: `make chaos ROW=faults SEED=123` repeats
// one. `go test` runs a few trials of each row, `make chaos` all of them.
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

	"lockstep/kube/throwaway/testcluster"
	_ "lockstep/ui/cli" // the program: go test must not reuse results after it has changed
)

var (
	sandbox         *testcluster.Cluster
	lockstepProgram string // the program
	admin           *observer
	// long is `make chaos`; only is the seed to repeat, or -1.
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
	admin, err = newObserver(sandbox.Kubeconfig)
	return err
}

// trialGroup are the trials that a worker runs in sequence. tell is called for each seed, with nil
// for success.
type trialGroup struct {
	seeds []int
	run   func(t *testing.T, report func(seed int, what string, trouble error))
}

// TestChaos runs all trials of all rows.
func TestChaos(t *testing.T) {
	rows := []struct {
		name  string
		of    func(t *testing.T) []trialGroup
		short int // how many of them go test runs
	}{
		{"crash", crashes, 5},
		{"in-cluster", podKills, 2},
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
			all := row.of(t)
			if !long && only < 0 {
				all = sample(all, row.short)
			}
			runRow(t, row.name, all)
		})
	}
}

// sample returns n trials from all parts of a row. Neighbours in a row are alike, so it moves on by one
// more each time.
func sample(all []trialGroup, n int) (some []trialGroup) {
	for i := range min(n, len(all)) {
		some = append(some, all[((2*i+1)*len(all)/(2*n)+i)%len(all)])
	}
	return some
}

// workers are how many trials of all rows run at once: most of their time is waiting.
var workers = make(chan struct{}, 8)

func runRow(t *testing.T, name string, all []trialGroup) {
	if only >= 0 {
		all = slices.DeleteFunc(all, func(x trialGroup) bool { return !slices.Contains(x.seeds, only) })
	}
	if part, of, ok := strings.Cut(os.Getenv("CHAOS_PART"), "/"); ok { // 1/8 is an eighth of them
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

// runTrials runs trials and reports them. An error of the harness counts as a failure.
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
			report(x.seeds[0], "the harness fails", fmt.Errorf("%v\n%s", r, debug.Stack()))
		}
	}()
	x.run(t, report)
}

// scoreTable counts trials and successes.
type scoreTable struct {
	mu    sync.Mutex
	rows  map[string]*score
	begun time.Time
}

type score struct {
	tried, survived int
	note            string
	first, last     time.Time
}

var table = scoreTable{rows: map[string]*score{}, begun: time.Now()}

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
	fmt.Printf("in %s\n", time.Since(s.begun).Round(time.Second))
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
