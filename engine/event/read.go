package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Read reads recorded events, one JSON object per line. If a line is not an event, it
// returns the events before it and an error that names the line.
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
				return events, fmt.Errorf("line %d is not an event: %w", n, bad)
			}
			for _, p := range e.Phases {
				if slices.Contains(p.Groups, nil) {
					return events, fmt.Errorf("line %d is not an event: phase %q has a null group", n, p.Name)
				}
			}
			events = append(events, e)
		}
		if err != nil {
			return events, nil
		}
	}
}
