package container

import (
	"strings"
	"sync"
	"time"
)

// logSize is the maximum size of a log in bytes; the oldest lines are dropped first.
const logSize = 10 << 20

// Line is one line of a container's log.
type Line struct {
	At   time.Time
	Text string
}

// Log is the output of a process: both streams, line by line.
type Log struct {
	mu      sync.Mutex
	lines   []Line
	dropped int // number of lines dropped before lines[0]
	size    int
	changed chan struct{} // closed at the next change; nil if no reader waits
	ended   bool
}

func (l *Log) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text = strings.TrimSuffix(text, "\n")
	l.lines = append(l.lines, Line{time.Now(), text})
	if l.size += len(text); l.size > logSize {
		n := 0
		for ; l.size > logSize/2 && n < len(l.lines)-1; n++ {
			l.size -= len(l.lines[n].Text)
		}
		l.lines, l.dropped = append([]Line(nil), l.lines[n:]...), l.dropped+n
	}
	l.wake()
}

func (l *Log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

// tail returns the last lines, up to the size of a termination message.
func (l *Log) tail() string {
	const maxLines, maxBytes = 80, 2048
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	for _, line := range l.lines[max(0, len(l.lines)-maxLines):] {
		text.WriteString(line.Text + "\n")
	}
	return text.String()[max(0, text.Len()-maxBytes):]
}

func (l *Log) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// From returns the lines from number n on, counted from 0, and the number of the line after them. changed is
// closed when there is more to read; it is nil if the process has ended.
func (l *Log) From(n int) (lines []Line, next int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines, next = l.lines[max(0, n-l.dropped):], l.dropped+len(l.lines)
	if l.ended {
		return lines, next, nil
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return lines, next, l.changed
}
