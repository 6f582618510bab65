package inspector

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/ui/board/canvas"
)

// collectFor is how long log lines are batched.
const collectFor = 80 * time.Millisecond

// logTail passes log lines to the screen. If they are too many, the oldest are lost.
type logTail struct {
	lines chan LogLine
	ended chan struct{} // closed at the end of the logs
	err   error         // valid after the end
	shown bool          // the screen has lines of it
}

func (t *logTail) add(line LogLine) {
	for {
		select {
		case t.lines <- line:
			return
		default:
		}
		select {
		case <-t.lines:
		default:
		}
	}
}

// LogMsg is a batch of log lines of query n.
type LogMsg struct {
	n     int
	lines []LogLine
	done  bool
}

// followLogs follows the logs of an object until the tab closes.
func (i *Inspector) followLogs() tea.Cmd {
	ctx, cancel := context.WithCancel(i.ctx)
	tail := &logTail{lines: make(chan LogLine, maxLogLines), ended: make(chan struct{})}
	answers, o := i.answers, i.about.Object
	i.cancel, i.tail = cancel, tail
	follow := func() tea.Msg {
		tail.err = answers.Logs(ctx, o, tail.add)
		close(tail.ended)
		return nil
	}
	return tea.Batch(follow, i.nextLines())
}

func (i *Inspector) nextLines() tea.Cmd {
	n, tail := i.N, i.tail
	return func() tea.Msg {
		m := LogMsg{n: n}
		select {
		case l := <-tail.lines:
			m.lines = append(m.lines, l)
		case <-tail.ended:
		}
		select {
		case <-time.After(collectFor):
		case <-tail.ended:
			m.done = true
		}
		for {
			select {
			case l := <-tail.lines:
				m.lines = append(m.lines, l)
				continue
			default:
			}
			return m
		}
	}
}

// logged stores log lines and waits for more. Those of a repeated query replace the old ones.
func (i *Inspector) logged(m LogMsg) tea.Cmd {
	if m.n != i.N {
		return nil
	}
	i.busy = false
	if !i.tail.shown {
		i.logs.lines, i.logs.sources, i.tail.shown = nil, nil, true
	}
	for n, l := range m.lines {
		l.Pod, l.Container, l.Text = canvas.Clean(l.Pod), canvas.Clean(l.Container), canvas.Clean(l.Text)
		m.lines[n] = l
	}
	i.logs.add(m.lines)
	if !m.done {
		return i.nextLines()
	}
	switch err := i.tail.err; {
	case err != nil && !errors.Is(err, context.Canceled):
		i.note = explain("cannot follow the log", err)
	case len(i.logs.lines) == 0:
		i.note = noAnswer
	default:
		i.note = "the log ends here"
	}
	return nil
}
