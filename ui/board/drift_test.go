package board

import (
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/ui/board/edit"
	"lockstep/ui/board/screen"
)

// TestChartChangedOnDisk: while the run is held, the screen says once that the chart changed, and
// offers the key that renders it again (R46).
func TestChartChangedOnDisk(t *testing.T) {
	s := with("sandbox-held", 0, "", editable)(t)
	if !s.edit.Polling {
		t.Fatal("the chart is not polled")
	}
	s.send(edit.ChartChecked(false))
	s.showsNot(t, "chart changed")
	s.send(edit.ChartChecked(true))
	s.shows(t, "chart changed on disk; press E to render it again", "E chart changed, render again")
	s.send(screen.FlashOver(s.Flash.N))
	s.send(edit.ChartChecked(true))
	s.showsNot(t, "on disk")
	s.press("E")
	s.showsNot(t, "E chart changed")
	s.feed(event.Event{Kind: event.KindRun, Status: event.Running, Time: s.State.Now})
	s.edit.Polling = false
	if s.send(edit.ChartChecked(true)); s.edit.Polling {
		t.Error("the chart is polled while the run is running")
	}
	if s := with("sandbox-held", 0, "")(t); s.edit.Polling {
		t.Error("the chart is polled without an editor")
	}
}

// TestRetryHintNamesReverts: the hint for retry names the changes in the cluster that it would revert
// (R44).
func TestRetryHintNamesReverts(t *testing.T) {
	image := inspect.Change{Action: inspect.Modify, Fields: []inspect.Field{{In: "spec", Lines: []string{"-image: example/api:fixed", "+image: example/no-such-image:1"}}}}
	more := image
	more.Fields = append(more.Fields, inspect.Field{In: "spec", Lines: []string{"-replicas: 2", "+replicas: 3"}}, inspect.Field{In: "spec", Lines: []string{"+paused: true"}})
	for want, change := range map[string]inspect.Change{
		"retry api:server (reverts image: example/api:fixed)":            image,
		"retry api:server (reverts image: example/api:fixed and 1 more)": more,
		"R retry api:server   ": {Action: inspect.Unchanged},
	} {
		answers := &answerer{changes: map[string]inspect.Change{"Deployment/shop-api": change}}
		s := with("sandbox-held", 0, "", func(o *Options) { o.Inspector = answers })(t)
		s.shows(t, want)
		if s.resized(60, 20); change.Action == inspect.Modify {
			s.shows(t, "R retry (reverts)   G stop here   a abort")
		}
	}
	if s := with("sandbox-install", 63, "", answered)(t); s.insp.Reverted() != "" {
		t.Error("the change was queried although nothing is held")
	}
}
