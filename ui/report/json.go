package report

import (
	"encoding/json"
	"io"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// JSON writes one event per line, as json.Marshal writes it, with all
// that is unsafe to show escaped; events.md documents every field. It goes on quietly where the writer fails.
type JSON struct{ w io.Writer }

// NewJSON returns a JSON that writes to w.
func NewJSON(w io.Writer) *JSON { return &JSON{w: w} }

// Consume writes an event.
func (j *JSON) Consume(e event.Event) { _ = writeEvent(j.w, e) }

// writeEvent writes a line in one Write, so that lines of several writers to
// one file do not mix.
func writeEvent(w io.Writer, e event.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text.EscapeJSON(line), '\n'))
	return err
}
