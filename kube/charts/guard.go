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

// Limits are the limits for rendering a chart. A field that is 0 stands for the default.
type Limits struct {
	Memory uint64        // growth of the process while a template renders, in bytes
	Time   time.Duration // for all templates together
}

// defaultLimits are far above the needs of charts. On a small machine the memory limit is a
// quarter of the available memory.
var defaultLimits = Limits{Memory: 2 << 30, Time: 5 * time.Minute}

// limitError is the error for a chart that exceeds a limit.
type limitError struct {
	template string // being rendered, "" if unknown
	reason   string
}

func (e *limitError) Error() string {
	if e.template == "" {
		return "rendering " + e.reason
	}
	return "template " + e.template + " " + e.reason
}

// IsLimit reports whether an error is about a chart that exceeds a limit.
func IsLimit(err error) bool { return errors.As(err, new(*limitError)) }

// Guard keeps one rendering within limits.
//
// It works inside the process. Helm renders in the middle of its actions, with a connection to
// the cluster, so a child process would have to render first: that would take twice the time and
// would not limit the second rendering. Go cannot stop a goroutine, and text/template ignores
// contexts. So functions whose result is as large as an argument refuse large arguments (see
// limitedFuncs), and Run polls time and memory. When a limit is exceeded, Run returns an
// error that names the template. The abandoned goroutine ends when it next leaves a template or
// calls a limited function, or with the process.
//
// Memory, stacks and their limit belong to the whole process, so only one rendering runs at a
// time. An abandoned rendering keeps renderSlot until its goroutine ends.
type Guard struct {
	limits  Limits
	started time.Time // when Run got renderSlot
	base    usage     // of the process at that time

	mu       sync.Mutex
	left     []executedTemplate // those that have not ended, the first is running
	abortErr error              // why the rendering was abandoned
}

// renderSlot is a semaphore for one rendering.
var renderSlot = make(chan struct{}, 1)

// NewGuard returns the guard of one rendering.
func NewGuard(l Limits) *Guard {
	if l.Memory == 0 {
		l.Memory = defaultLimits.Memory
		if left := availableMemory(); left > 0 {
			l.Memory = min(l.Memory, left/4) // a reserve, because an abandoned rendering continues for a moment
		}
	}
	l.Time = cmp.Or(l.Time, defaultLimits.Time)
	return &Guard{limits: l}
}

// start returns the functions for an engine that executes the templates.
func (g *Guard) start(templates []executedTemplate) template.FuncMap {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = templates
	funcs := g.limitedFuncs()
	funcs[leaveFunc] = g.leave
	return funcs
}

// leave records the end of a template, unless another one includes it. It returns "", because the template prints the result,
// and why the rendering was abandoned.
func (g *Guard) leave(number int) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.left) > 0 && g.left[0].number == number {
		g.left = g.left[1:]
	}
	return "", g.abortErr
}

// waitForSlot acquires renderSlot. It returns an error after timeout, because an abandoned
// rendering may hold the slot forever.
func waitForSlot(ctx context.Context, timeout time.Duration) error {
	select {
	case renderSlot <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case renderSlot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return &limitError{reason: fmt.Sprintf("did not start within %s, because another rendering is still running; run the command again", timeout)}
	}
}

// abandoned returns why the rendering was abandoned, nil if it was not.
func (g *Guard) abandoned() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.abortErr
}

// abort marks the rendering as abandoned and returns the error. The caller must hold g.mu.
func (g *Guard) abort(reason string) *limitError {
	err := &limitError{reason: reason}
	if len(g.left) > 0 {
		err.template = g.left[0].name
	}
	g.abortErr = err
	return err
}

// pollInterval is the time between two checks of the limits. In that time a template can allocate
// a few hundred MiB.
const pollInterval = 20 * time.Millisecond

// Run calls do and returns its error. If do exceeds a limit, or ctx ends, Run returns without waiting for do, with a
// *limitError or the cause of ctx. A Guard runs once.
func (g *Guard) Run(ctx context.Context, do func() error) error {
	if err := waitForSlot(ctx, g.limits.Time); err != nil {
		return err
	}
	// Endless recursion must exceed our limit before it exceeds Go's, which kills the process.
	oldLimit := debug.SetMaxStack(math.MaxInt32)
	g.started, g.base = time.Now(), memoryUsage()
	done := make(chan error, 1)
	go func() {
		err := do()
		debug.SetMaxStack(oldLimit)
		done <- err // before another rendering starts, whose memory must not count
		<-renderSlot
	}()
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticks.C:
		}
		if err := g.checkLimits(ctx); err != nil {
			select {
			case err = <-done: // it ended before the limits were read
			default:
			}
			return err
		}
	}
}

// checkLimits abandons the rendering if it exceeds a limit or ctx has ended, and returns why.
func (g *Guard) checkLimits(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	growth := memoryUsage().minus(g.base)
	switch {
	case growth.heap > g.limits.Memory:
		return g.abort(fmt.Sprintf("needs more than %s of memory; raise LOCKSTEP_RENDER_MEMORY to allow it", formatBytes(float64(g.limits.Memory))))
	case growth.stack > maxStack:
		return g.abort("calls itself endlessly")
	case time.Since(g.started) > g.limits.Time:
		return g.abort(fmt.Sprintf("did not finish within %s", g.limits.Time))
	case ctx.Err() != nil:
		err := g.abort("was interrupted")
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && err.template != "" {
			return fmt.Errorf("%w while rendering %s", context.Cause(ctx), err.template)
		}
		return context.Cause(ctx)
	}
	return nil
}

// maxStack limits the growth of the process's stacks, in bytes. Charts need less than a tenth of it.
const maxStack = 256 << 20

// usage is the memory of objects and stacks, in bytes.
type usage struct{ heap, stack uint64 }

// minus returns the difference of each field, 0 if it would be negative.
func (u usage) minus(v usage) usage {
	return usage{u.heap - min(u.heap, v.heap), u.stack - min(u.stack, v.stack)}
}

// memoryUsage returns the memory of the objects and the stacks of the process.
func memoryUsage() usage {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return usage{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// formatBytes formats a number of bytes, such as 256 MiB or 2 GiB.
func formatBytes(bytes float64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.4g MiB", bytes/(1<<20))
	}
	return fmt.Sprintf("%.4g GiB", bytes/(1<<30))
}

// availableMemory returns how much more memory the process can use, in bytes, within the memory
// of the machine, the control group and the limits of the process; 0 if unknown.
func availableMemory() uint64 {
	left := uint64(math.MaxUint64)
	if kib, ok := numberIn("/proc/meminfo", "MemAvailable:"); ok {
		left = kib << 10
	}
	limit, limited := numberIn("/sys/fs/cgroup/memory.max", "")
	if now, ok := numberIn("/sys/fs/cgroup/memory.current", ""); ok && limited {
		left = min(left, limit-min(limit, now))
	}
	limit, limited = numberIn("/proc/self/limits", "Max address space")
	if kib, ok := numberIn("/proc/self/status", "VmSize:"); ok && limited {
		left = min(left, limit-min(limit, kib<<10))
	}
	if left == math.MaxUint64 {
		return 0
	}
	return left
}

// numberIn returns the number after the first occurrence of prefix in a file.
func numberIn(file, prefix string) (n uint64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	_, rest, found := strings.Cut(string(text), prefix)
	_, err = fmt.Sscan(rest, &n)
	return n, found && err == nil
}
