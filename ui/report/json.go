package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lockstep/engine"
)

// JSON writes one event per line, as json.Marshal writes it; events.md
// documents every field. It goes on quietly where the writer fails.
type JSON struct{ w io.Writer }

// NewJSON returns a JSON that writes to w.
func NewJSON(w io.Writer) *JSON { return &JSON{w: w} }

// Consume writes an event.
func (j *JSON) Consume(e engine.Event) { _ = writeEvent(j.w, e) }

// writeEvent writes a line in one Write, so that lines of several writers to
// one file do not mix.
func writeEvent(w io.Writer, e engine.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Read reads what JSON has written. Where a line is no event it returns those
// before it with an error that names the line.
func Read(r io.Reader) ([]engine.Event, error) {
	var events []engine.Event
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return events, err
		}
		if len(line) > 0 {
			var e engine.Event
			if bad := json.Unmarshal(line, &e); bad != nil {
				return events, fmt.Errorf("line %d is no event: %w", n, bad)
			}
			events = append(events, e)
		}
		if err != nil {
			return events, nil
		}
	}
}
