package inspector

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
)

// collectFor is how long log lines are batched.
const collectFor = 80 * time.Millisecond

// logTail passes log lines to the screen in batches.
type logTail struct {
	mu    sync.Mutex
	lines []LogLine
	done  bool
	err   error
	more  chan struct{} // holds a token while lines are pending
	ended chan struct{} // closed at the end of the logs
}

func newLogTail() *logTail {
	return &logTail{more: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (t *logTail) add(line LogLine) {
	t.mu.Lock()
	t.lines = append(t.lines, line)
	if n := len(t.lines); n > 2*maxLogLines {
		t.lines = append(t.lines[:0:0], t.lines[n-maxLogLines:]...)
	}
	t.mu.Unlock()
	t.wake()
}

func (t *logTail) end(err error) {
	t.mu.Lock()
	t.done, t.err = true, err
	t.mu.Unlock()
	close(t.ended)
	t.wake()
}

func (t *logTail) wake() {
	select {
	case t.more <- struct{}{}:
	default:
	}
}

func (t *logTail) take() (lines []LogLine, done bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines, t.lines = t.lines, nil
	return lines, t.done, t.err
}

// LogMsg is a batch of log lines of query n.
type LogMsg struct {
	n     int
	lines []LogLine
	done  bool
	err   error
}

// followLogs follows the logs of an object until the tab closes.
func (i *Inspector) followLogs(o plan.Object) tea.Cmd {
	answers := i.answers
	ctx, cancel := context.WithCancel(i.ctx)
	i.cancel, i.tail = cancel, newLogTail()
	tail := i.tail
	follow := func() tea.Msg {
		tail.end(answers.Logs(ctx, o, tail.add))
		return nil
	}
	return tea.Batch(follow, i.nextLines(ctx))
}

// nextLines waits for the next batch of log lines.
func (i *Inspector) nextLines(ctx context.Context) tea.Cmd {
	n, tail := i.N, i.tail
	return func() tea.Msg {
		select {
		case <-tail.more:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(collectFor):
		case <-tail.ended:
		case <-ctx.Done():
		}
		lines, done, err := tail.take()
		return LogMsg{n, lines, done, err}
	}
}

// logged stores log lines and waits for more.
func (i *Inspector) logged(a LogMsg) tea.Cmd {
	if a.n != i.N {
		return nil
	}
	i.busy = false
	for n, l := range a.lines {
		l.Pod, l.Container = canvas.Clean(l.Pod), canvas.Clean(l.Container)
		l.Text = canvas.Clean(l.Text)
		a.lines[n] = l
	}
	i.logs.add(a.lines)
	if !a.done {
		return i.nextLines(i.ctx)
	}
	i.note = logError(a.err)
	switch {
	case i.note != "":
	case len(i.logs.lines) == 0:
		i.note = "nothing here"
	default:
		i.note = "the log ends here"
	}
	return nil
}
