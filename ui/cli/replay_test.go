package cli

import (
	"fmt"
	"path/filepath"
	"testing"

	"lockstep/ui/report"
)

// TestReplayBackAndForth replays a record in a terminal: it moves by failures, groups and events,
// inspects an object, quits, and returns to the same event.
func TestReplayBackAndForth(t *testing.T) {
	file := filepath.Join(data, "runs", "sandbox-held.ndjson")
	r, err := report.ReadRecord("", file)
	if err != nil {
		t.Fatal(err)
	}
	event := func(n int) string { return fmt.Sprintf("event %d of %d", n, len(r.Events)) }
	const failure = 108
	c := inTerminal(t, 36, 160, nil, "replay", file, "--at", "3")
	c.await(0, "REPLAY")
	c.await(0, event(3))
	// The terminal receives only changes, for example the last digits of a number. So the tests
	// wait for texts that no earlier frame contains.
	c.press("!", "gave up after 5s")
	c.press("<", "preparing")
	c.press(" ", "ause") // "play" becomes "pause"; the p is not sent again
	c.press(" ", "lay")
	c.press("!", "failed")
	c.press("\r", "next tab")
	c.press("\x1b", "inspect")
	m := c.mark()
	c.done()
	c.await(m, fmt.Sprintf("quit the replay at event %d of %d", failure, len(r.Events)))
	c.await(m, fmt.Sprintf("--at %d", failure))
	c.await(m, "Deployment/shop-api")
}
