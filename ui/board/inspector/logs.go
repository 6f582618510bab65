package inspector

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/plan"
)

// maxLogLines is how much of a log is kept.
const maxLogLines = 5000

// collectFor is how long lines are collected before they are shown.
const collectFor = 80 * time.Millisecond

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

// LogMsg brings lines of the log that the n-th question follows.
type LogMsg struct {
	n     int
	lines []string
	done  bool
	err   error
}

// followLogs follows the logs of an object until the tab is left.
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

// nextLines waits for lines of the log, and collects what comes soon after.
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
		case <-ctx.Done():
		}
		lines, done, err := tail.take()
		return LogMsg{n, lines, done, err}
	}
}

// logged takes lines of the log, and waits for more.
func (i *Inspector) logged(a LogMsg) tea.Cmd {
	if a.n != i.N {
		return nil
	}
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
	return i.nextLines(i.ctx)
}
