package charts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"text/template"
	"time"
)

// Limits are what the templates of a chart may take. Where a field is 0 it is
// that of DefaultLimits.
type Limits struct {
	// Memory is how much the process may grow while a template renders, in
	// bytes, and Time how long all of them may take.
	Memory uint64
	Time   time.Duration
}

// DefaultLimits are far above what charts need, and below what a machine dies of:
// on a small one, a quarter of the memory that is left is the limit.
var DefaultLimits = Limits{Memory: 2 << 30, Time: 5 * time.Minute}

// LimitError says that a chart takes more than it may.
type LimitError struct {
	// Template is the one that was being rendered, where that is known.
	Template string
	Reason   string
}

func (e *LimitError) Error() string {
	if e.Template == "" {
		return "rendering " + e.Reason
	}
	return "template " + e.Template + " " + e.Reason
}

// Guard keeps one rendering within limits.
//
// Why a guard in the process, and none around a process of its own: Helm renders
// in the middle of its actions, with a connection to the cluster, so a trial in a
// child would double the time of every chart and prove nothing about the second
// rendering. Go cannot end a goroutine, and text/template looks at nothing while
// it executes. So the guard watches: functions that make something as large as
// their arguments say refuse what is too large (see sized), and all else is
// watched from beside. What goes beyond a limit is given up: Run returns an error
// that names the template, before anything was written, and what was given up ends
// with the process, or at the next function of ours that it calls.
type Guard struct {
	limits Limits

	mu      sync.Mutex
	running []string // templates, each included by the one before
	begun   time.Time
	gone    error // why the rendering was given up
}

// NewGuard returns the guard of one rendering.
func NewGuard(l Limits) *Guard {
	if l.Memory == 0 {
		l.Memory = DefaultLimits.Memory
		if left := available(); left > 0 { // what is given up goes on for a moment
			l.Memory = min(l.Memory, left/4)
		}
	}
	if l.Time == 0 {
		l.Time = DefaultLimits.Time
	}
	return &Guard{limits: l}
}

// Funcs are the functions that the templates need that WrapTemplates has wrapped,
// for action.Configuration.CustomTemplateFuncs.
func (g *Guard) Funcs() template.FuncMap {
	funcs := g.sized()
	funcs[enterer] = g.enter
	funcs[leaver] = func(output string) string { g.leave(); return output }
	funcs[normaliser] = func(output string) string { g.leave(); return normalise(output) }
	return funcs
}

// enter notes which template is being rendered.
func (g *Guard) enter(name string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = append(g.running, name)
	if g.begun.IsZero() {
		g.begun = time.Now()
	}
	return "", g.gone
}

func (g *Guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.running); n > 0 {
		g.running = g.running[:n-1]
	}
}

// over returns why the rendering was given up, nil where it was not.
func (g *Guard) over() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

// giveUp gives the rendering up, and returns why. Where templates are told of and
// none is being rendered now, it returns nil.
func (g *Guard) giveUp(always bool, reason string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.running)
	if n == 0 && !always {
		return nil
	}
	err := &LimitError{Reason: reason}
	if n > 0 {
		err.Template = g.running[n-1]
	}
	g.gone = err
	return err
}

// watchEvery is how often the guard looks: what allocates as fast as it can makes
// a few 100 MiB in between.
const watchEvery = 20 * time.Millisecond

// Run calls do, which renders and may do other things afterwards, and returns its
// error, or as soon as a template goes beyond a limit, or ctx ends while one is
// being rendered, a *LimitError or the cause of ctx.
func (g *Guard) Run(ctx context.Context, do func() error) error { return g.run(ctx, false, do) }

// RunAll is Run for what does nothing but render, in templates that may not be
// wrapped.
func (g *Guard) RunAll(ctx context.Context, do func() error) error {
	g.begun = time.Now()
	return g.run(ctx, true, do)
}

func (g *Guard) run(ctx context.Context, all bool, do func() error) error {
	// Recursion without end is to be found out by its size as well, and not by the
	// death of the process; so it stays where a rendering was given up.
	before := debug.SetMaxStack(math.MaxInt32)
	memory := newGrowth()
	done := make(chan error, 1)
	go func() { done <- do() }()
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			debug.SetMaxStack(before)
			return err
		case <-ticks.C:
		}
		if err := g.look(ctx, all, memory); err != nil {
			return err
		}
	}
}

// look returns why the rendering is given up, nil where it is not.
func (g *Guard) look(ctx context.Context, all bool, memory growth) error {
	heap, stack := memory.now()
	switch {
	case heap > g.limits.Memory:
		return g.giveUp(all, fmt.Sprintf("takes more than %s of memory; LOCKSTEP_RENDER_MEMORY allows more", quantity(float64(g.limits.Memory))))
	case stack > maxStack:
		return g.giveUp(all, "calls itself without end")
	case g.spent() > g.limits.Time:
		return g.giveUp(all, fmt.Sprintf("does not end within %s", g.limits.Time))
	case ctx.Err() != nil:
		if g.giveUp(all, "was interrupted") != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// spent is how long the templates have been rendered.
func (g *Guard) spent() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun.IsZero() {
		return 0
	}
	return time.Since(g.begun)
}

// maxStack is how large the stacks of the process may grow: no chart nests deep
// enough for a tenth of it.
const maxStack = 256 << 20

// growth tells how much memory the process uses beyond what it did.
type growth struct{ heap, stack uint64 }

func newGrowth() growth {
	var g growth
	g.heap, g.stack = used()
	return g
}

func (g growth) now() (heap, stack uint64) {
	heap, stack = used()
	return heap - min(heap, g.heap), stack - min(stack, g.stack)
}

// used is what the objects and the stacks of the process take.
func used() (heap, stack uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

// quantity writes an amount of memory: 256 MiB, 2 GiB.
func quantity(bytes float64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.4g MiB", bytes/(1<<20))
	}
	return fmt.Sprintf("%.4g GiB", bytes/(1<<30))
}

// available is how much memory the machine, the control group and the limits of the
// process have left; 0 where that is not known.
func available() uint64 {
	left := uint64(math.MaxUint64)
	if kib, ok := numberIn("/proc/meminfo", "MemAvailable:"); ok {
		left = kib << 10
	}
	most, limited := numberIn("/sys/fs/cgroup/memory.max", "")
	if now, ok := numberIn("/sys/fs/cgroup/memory.current", ""); ok && limited {
		left = min(left, most-min(most, now))
	}
	most, limited = numberIn("/proc/self/limits", "Max address space")
	if kib, ok := numberIn("/proc/self/status", "VmSize:"); ok && limited {
		left = min(left, most-min(most, kib<<10))
	}
	if left == math.MaxUint64 {
		return 0
	}
	return left
}

// numberIn is the number that comes behind a word in a file.
func numberIn(file, word string) (n uint64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	_, rest, found := strings.Cut(string(text), word)
	_, err = fmt.Sscan(rest, &n)
	return n, found && err == nil
}

// IsLimit reports whether an error is that a chart goes beyond a limit.
func IsLimit(err error) bool { return errors.As(err, new(*LimitError)) }
