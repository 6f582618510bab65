package board

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/run"
)

var record = flag.Bool("record", false, "record the runs in testdata/runs again")

const runsDir = "testdata/runs"

// scenario is a run of the sample with somebody who controls it.
type scenario struct {
	name   string
	script map[string]Behaviour
	opts   run.Options
	// steer sends commands; at sleeps until a number of seconds after the start.
	steer func(order func(event.CommandName), at func(float64))
	stop  float64 // the record is cut there, where above 0
}

// scenarios are runs in addition to those of the sandbox in testdata/runs.
func scenarios() []scenario {
	return []scenario{
		{name: "running", script: Script(), stop: 9.5},
		{name: "failed", script: Broken(0)},
		{name: "retried", script: Broken(1), opts: run.Options{HoldOnFailure: true},
			steer: func(order func(event.CommandName), at func(float64)) {
				at(16)
				order(event.Retry)
			}},
	}
}

// play runs a scenario in a bubble and returns its record.
func (s scenario) play(t *testing.T) (events []event.Event) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		feed := &event.Feed{}
		from := time.Now()
		s.opts.Feed = feed
		e := Start(s.opts, s.script)
		order := func(name event.CommandName) { e.Command(event.Command{Name: name}) }
		if s.steer != nil {
			go s.steer(order, func(at float64) {
				time.Sleep(time.Until(from.Add(time.Duration(at * float64(time.Second)))))
			})
		}
		if s.stop > 0 {
			time.Sleep(time.Duration(s.stop * float64(time.Second)))
			synctest.Wait()
			events = feed.Events()
			order(event.Stop)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if s.stop == 0 {
			events = feed.Events()
		}
	})
	return events
}

// TestRecord writes the runs in testdata/runs again with -record. The engine makes them with a scripted
// cluster.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("only with -record")
	}
	for _, s := range scenarios() {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		for _, e := range s.play(t) {
			if err := enc.Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(runsDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(runsDir, s.name+".ndjson"), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
