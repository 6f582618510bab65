package charts

import (
	"cmp"
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
// that of defaultLimits.
type Limits struct {
	// Memory is how much the process may grow while a template renders, in
	// bytes, and Time how long all of them may take.
	Memory uint64
	Time   time.Duration
}

// defaultLimits are far above what charts need, and below what a machine dies of:
// on a small one, a quarter of the memory that is left is the limit.
var defaultLimits = Limits{Memory: 2 << 30, Time: 5 * time.Minute}

// limitError says that a chart takes more than it may.
type limitError struct {
	// Template is the one that was being rendered, if that is known.
	Template string
	Reason   string
}

func (e *limitError) Error() string {
	if e.Template == "" {
		return "rendering " + e.Reason
	}
	return "template " + e.Template + " " + e.Reason
}

// Guard keeps one rendering within limits.
//
// Why a guard in the process, and none around its own process: Helm renders
// in the middle of its actions, with a connection to the cluster, so a trial in a
// child would double the time of every chart and prove nothing about the second
// rendering. Go cannot end a goroutine, and text/template looks at nothing while
// it executes. So the guard watches: functions that make something as large as
// their arguments say refuse what is too large (see sized), and all else is
// watched from beside. What goes beyond a limit is given up: Run returns an error
// that names the template, before anything was written, and what was given up ends
// with the process, or at the next function of ours that it calls.
//
// The memory, the stacks and their limit are the process's. So one rendering at a time
// has the turn: the outermost template takes it and gives it back at its end, or at
// the end of Run where it has failed. What is given up keeps it until it ends.
type Guard struct {
	limits Limits

	mu      sync.Mutex
	ctx     context.Context // of Run, nil before
	all     bool            // Run has the turn from its beginning to its end
	running []string        // templates, each included by the one before
	outputs Outputs         // of the templates that ended
	gone    error           // why the rendering was given up

	turn     bool // it has the turn, since began
	began    time.Time
	maxStack int           // of the process, before the turn
	base     usage         // of the process, without what is this rendering's
	own      usage         // of this rendering, in the turns before
	took     time.Duration // by the turns before
}

// turns is where a rendering takes its turn.
var turns = make(chan struct{}, 1)

// NewGuard returns the guard of one rendering.
func NewGuard(l Limits) *Guard {
	if l.Memory == 0 {
		l.Memory = defaultLimits.Memory
		if left := available(); left > 0 { // what is given up continues for a moment
			l.Memory = min(l.Memory, left/4)
		}
	}
	if l.Time == 0 {
		l.Time = defaultLimits.Time
	}
	return &Guard{limits: l}
}

// Funcs returns the functions that the templates need that WrapTemplates has wrapped,
// for action.Configuration.CustomTemplateFuncs.
func (g *Guard) Funcs() template.FuncMap {
	funcs := g.sized()
	funcs[enterer] = g.enter
	funcs[leaver] = func(output string) string { return g.leave()(output) }
	funcs[normaliser] = func(output string) string { return g.leave()(normalise(output)) }
	return funcs
}

// enter notes which template is being rendered.
func (g *Guard) enter(name string) (string, error) {
	if err := g.takeTurn(); err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = append(g.running, name)
	return "", g.gone
}

// leave notes that a template has ended. What it returns records the output of the
// template, unless another one includes it.
func (g *Guard) leave() (record func(output string) string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.running)
	if n > 1 {
		g.running = g.running[:n-1]
		return func(output string) string { return output }
	}
	name := ""
	if n == 1 {
		name = g.running[0]
	}
	g.running = nil
	if !g.all {
		g.endTurn()
	}
	return func(output string) string {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.outputs = append(g.outputs, templateOutput{name, output})
		return output
	}
}

// takeTurn waits until no other rendering has the turn. A guard whose rendering is not
// run by it takes none.
func (g *Guard) takeTurn() error {
	g.mu.Lock()
	ctx, err := g.ctx, g.gone
	has := g.turn || ctx == nil
	g.mu.Unlock()
	if err != nil || has {
		return err
	}
	if err := waitForTurn(ctx, g.limits.Time); err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.gone = err
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// Recursion without end is to be found out by its size as well, and not by the
	// death of the process.
	g.maxStack = debug.SetMaxStack(math.MaxInt32)
	g.turn, g.began, g.base = true, time.Now(), used().less(g.own)
	return nil
}

// waitForTurn waits for the turn, for so long at the most: what was given up and does
// not end keeps it.
func waitForTurn(ctx context.Context, most time.Duration) error {
	select {
	case turns <- struct{}{}:
		return nil
	default:
	}
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over.C:
		return &limitError{Reason: fmt.Sprintf("did not start within %s: another chart is still being rendered, or was abandoned and is still running", most)}
	}
}

// endTurn gives the turn to the next one. It needs g.mu.
func (g *Guard) endTurn() {
	if !g.turn {
		return
	}
	g.turn, g.took, g.own = false, g.took+time.Since(g.began), used().less(g.base)
	debug.SetMaxStack(g.maxStack)
	<-turns
}

// over returns why the rendering was given up, nil where it was not.
func (g *Guard) over() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

// giveUp gives the rendering up, and returns why. It needs g.mu.
func (g *Guard) giveUp(reason string) error {
	err := &limitError{Reason: reason}
	if n := len(g.running); n > 0 {
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
// being rendered, a *limitError or the cause of ctx.
func (g *Guard) Run(ctx context.Context, do func() error) error {
	g.mu.Lock()
	g.ctx = ctx
	g.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := do()
		g.mu.Lock()
		g.endTurn() // where a template has failed
		g.mu.Unlock()
		done <- err
	}()
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				err = cmp.Or(g.over(), err)
			}
			return err
		case <-ticks.C:
		}
		if err := g.look(ctx); err != nil {
			return err
		}
	}
}

// RunAll returns Run for what does nothing but render, in templates that may not be
// wrapped.
func (g *Guard) RunAll(ctx context.Context, do func() error) error {
	g.all = true
	return g.Run(ctx, func() error {
		if err := g.takeTurn(); err != nil {
			return err
		}
		return do()
	})
}

// look returns why the rendering is given up, nil if it is not.
func (g *Guard) look(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.turn {
		return nil
	}
	grown := used().less(g.base)
	switch {
	case grown.heap > g.limits.Memory:
		return g.giveUp(fmt.Sprintf("needs more than %s of memory; raise LOCKSTEP_RENDER_MEMORY to allow it", quantity(float64(g.limits.Memory))))
	case grown.stack > maxStack:
		return g.giveUp("calls itself endlessly")
	case g.took+time.Since(g.began) > g.limits.Time:
		return g.giveUp(fmt.Sprintf("did not finish within %s", g.limits.Time))
	case ctx.Err() != nil:
		_ = g.giveUp("was interrupted")
		return context.Cause(ctx)
	}
	return nil
}

// maxStack is how large the stacks of the process may grow: no chart nests deep
// enough for a tenth of it.
const maxStack = 256 << 20

// usage is what objects and stacks take.
type usage struct{ heap, stack uint64 }

// less is how much more it is than another one.
func (u usage) less(v usage) usage {
	return usage{u.heap - min(u.heap, v.heap), u.stack - min(u.stack, v.stack)}
}

// used is what the objects and the stacks of the process take.
func used() usage {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return usage{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// quantity writes an amount of memory: 256 MiB, 2 GiB.
func quantity(bytes float64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.4g MiB", bytes/(1<<20))
	}
	return fmt.Sprintf("%.4g GiB", bytes/(1<<30))
}

// available is how much memory the machine, the control group and the limits of the
// process have left; 0 if that is not known.
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

// numberIn returns the number that comes behind a word in a file.
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
func IsLimit(err error) bool { return errors.As(err, new(*limitError)) }
