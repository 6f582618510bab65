package inspector

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/board/canvas"
)

// batchFor is how long log lines are collected before they are shown.
const batchFor = 80 * time.Millisecond

// logTail passes log lines to the screen. If there are too many, the oldest are dropped.
type logTail struct {
	lines chan inspect.LogLine
	ended chan struct{} // closed at the end of the logs
	err   error         // valid after the end
	shown bool          // some of its lines are on the screen
}

func (t *logTail) add(line inspect.LogLine) {
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

// logMsg is a batch of log lines of query n.
type logMsg struct {
	n     int
	lines []inspect.LogLine
	done  bool
}

// followLogs follows the logs of an object until the tab closes.
func (i *Inspector) followLogs() tea.Cmd {
	ctx, cancel := context.WithCancel(i.ctx)
	tail := &logTail{lines: make(chan inspect.LogLine, maxLogLines), ended: make(chan struct{})}
	cluster, o := i.cluster, i.queried.Object
	i.cancel, i.tail = cancel, tail
	follow := func() tea.Msg {
		tail.err = cluster.Logs(ctx, o, tail.add)
		close(tail.ended)
		return nil
	}
	return tea.Batch(follow, i.nextLines())
}

// nextLines waits for the next batch of log lines.
func (i *Inspector) nextLines() tea.Cmd {
	n, tail := i.N, i.tail
	return func() tea.Msg {
		m := logMsg{n: n}
		select {
		case l := <-tail.lines:
			m.lines = append(m.lines, l)
		case <-tail.ended:
		}
		select {
		case <-time.After(batchFor):
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

// logged stores log lines and waits for more. The lines of a new query replace the old ones.
func (i *Inspector) logged(m logMsg) tea.Cmd {
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
	if !slices.ContainsFunc(i.logs.sources, func(s event.Source) bool { return s.Matches(i.logs.only) }) {
		i.logs.only = event.Source{} // the container at fault has no log any more
	}
	if !m.done {
		return i.nextLines()
	}
	switch err := i.tail.err; {
	case err != nil && !errors.Is(err, context.Canceled):
		i.note = explain("cannot follow the logs", err)
	case len(i.logs.lines) == 0:
		i.note = noResult
	case slices.ContainsFunc(i.logs.lines, func(l inspect.LogLine) bool { return !l.Note || l.Pod != "" }): // else there is no log
		i.note = "end of logs"
	}
	return nil
}
