package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// LineError is an error in a line of a record.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d is not an event: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Read reads recorded events, one JSON object per line. If a line is not an event, it
// returns the events before it and a *LineError.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return events, err
		}
		if len(line) > 0 {
			var e Event
			if bad := json.Unmarshal(line, &e); bad != nil {
				return events, &LineError{n, bad}
			}
			for _, p := range e.Phases {
				if slices.Contains(p.Groups, nil) {
					return events, &LineError{n, fmt.Errorf("phase %q has a null group", p.Name)}
				}
			}
			events = append(events, e)
		}
		if err != nil {
			return events, nil
		}
	}
}
