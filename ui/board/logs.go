package board

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
)

// maxLogLines is how much of a log is kept.
const maxLogLines = 5000

// logTail hands the lines of a followed log over to the screen, which takes
// them in batches.
type logTail struct {
	mu    sync.Mutex
	lines []string
	done  bool
	err   error
	more  chan struct{} // holds a token while there is something to take
}

func newLogTail() *logTail { return &logTail{more: make(chan struct{}, 1)} }

func (t *logTail) add(line string) {
	t.mu.Lock()
	t.lines = append(t.lines, line)
	if n := len(t.lines); n > maxLogLines {
		t.lines = t.lines[n-maxLogLines:]
	}
	t.mu.Unlock()
	t.wake()
}

func (t *logTail) end(err error) {
	t.mu.Lock()
	t.done, t.err = true, err
	t.mu.Unlock()
	t.wake()
}

func (t *logTail) wake() {
	select {
	case t.more <- struct{}{}:
	default:
	}
}

func (t *logTail) take() (lines []string, done bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines, t.lines = t.lines, nil
	return lines, t.done, t.err
}

// logMsg brings lines of the log that the n-th question follows.
type logMsg struct {
	n     int
	lines []string
	done  bool
	err   error
}

// followLogs follows the logs of an object until the tab is left.
func (m *model) followLogs(o plan.Object) tea.Cmd {
	i, insp := m.insp, m.opts.Inspector
	ctx, cancel := context.WithCancel(m.ctx)
	i.cancel, i.tail = cancel, newLogTail()
	tail := i.tail
	follow := func() tea.Msg {
		tail.end(insp.Logs(ctx, o, tail.add))
		return nil
	}
	return tea.Batch(follow, i.nextLines(ctx))
}

// nextLines waits for lines of the log, and collects what comes soon after.
func (i *inspection) nextLines(ctx context.Context) tea.Cmd {
	n, tail := i.n, i.tail
	return func() tea.Msg {
		select {
		case <-tail.more:
		case <-ctx.Done():
			return nil
		}
		sleep(ctx, 2*batchEvery+time.Millisecond)
		lines, done, err := tail.take()
		return logMsg{n, lines, done, err}
	}
}

func (m *model) logged(a logMsg) tea.Cmd {
	i := m.insp
	if i == nil || a.n != i.n {
		return nil
	}
	m.stale = true
	i.busy = false
	i.text = append(i.text, cleanLines(a.lines)...)
	if n := len(i.text); n > maxLogLines {
		i.text = i.text[n-maxLogLines:]
	}
	if a.done {
		i.note = errText(a.err)
		if i.note == "" {
			i.note = "the log ends here"
			if len(i.text) == 0 {
				i.note = "there is nothing"
			}
		}
		return nil
	}
	return i.nextLines(m.ctx)
}
