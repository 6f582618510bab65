package program

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxBytes and maxLines limit the output that is passed on while a program runs; of what comes later, only the end is kept.
	maxBytes = 1 << 20
	maxLines = 10_000
	// maxTail is how many lines of the end are kept, maxLine how many bytes of a line: a longer one is passed on in pieces.
	maxTail = 200
	maxLine = 16 << 10
	// flushInterval joins lines that come at almost the same time.
	flushInterval = 100 * time.Millisecond
)

// Output splits what a program writes into lines, and passes them on in batches. Of much output, it passes the start and the end
// on.
type Output struct {
	emit func([]string)

	mu           sync.Mutex
	rest         []byte // an incomplete line
	pending      []string
	timer        *time.Timer
	bytes, lines int // passed on
	tail         []string
	left         int // lines that were left out before tail
	closed       bool
}

// NewOutput returns an Output that passes lines on to emit.
func NewOutput(emit func([]string)) *Output { return &Output{emit: emit} }

// Write never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed { // a child that outlives the program
		return len(p), nil
	}
	for data := p; len(data) > 0; {
		end := bytes.IndexByte(data, '\n')
		piece := data
		if end >= 0 {
			piece = data[:end]
		}
		if room := maxLine - len(o.rest); len(piece) > room {
			o.rest = append(o.rest, piece[:room]...)
			o.endLine()
			data = data[room:]
			continue
		}
		o.rest = append(o.rest, piece...)
		if end < 0 {
			break
		}
		o.endLine()
		data = data[end+1:]
	}
	return len(p), nil
}

// endLine adds the line in rest.
func (o *Output) endLine() {
	line := strings.ToValidUTF8(strings.TrimRight(string(o.rest), "\r"), "\uFFFD")
	o.rest = o.rest[:0]
	if o.bytes+len(line) > maxBytes || o.lines >= maxLines {
		if o.tail = append(o.tail, line); len(o.tail) > maxTail {
			o.tail = slices.Delete(o.tail, 0, 1)
			o.left++
		}
		o.bytes = maxBytes // from now on
		return
	}
	o.bytes, o.lines = o.bytes+len(line), o.lines+1
	o.pending = append(o.pending, line)
	if o.timer == nil {
		o.timer = time.AfterFunc(flushInterval, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.flush()
		})
	}
}

func (o *Output) flush() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if len(o.pending) > 0 {
		o.emit(o.pending)
		o.pending = nil
	}
}

// Close passes on the end of the output. What is written later is dropped.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rest) > 0 {
		o.endLine()
	}
	if o.left > 0 {
		o.pending = append(o.pending, fmt.Sprintf("… %d lines left out …", o.left))
	}
	o.pending = append(o.pending, o.tail...)
	o.closed = true
	o.flush()
}
