package run

import (
	"context"
	"testing"

	"lockstep/engine/event"
)

func TestStateDrawsTheSamePictureFromTheFeed(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: sec}, "y": {failed: "exit code 2"}})
	var s event.State
	var halfway event.Counts
	_, err := run(t, Options{Operation: event.Operation{Name: "install", Release: "shop"}}, Stage{Phase: event.Phase{Groups: groupsOf("a: x", "b < a: y", "c < b: z")}}, fake, func(b *bench) {
		r := b.feed.Reader()
		batch, _ := r.Next(context.Background())
		for _, e := range batch {
			s.Apply(e)
		}
		halfway = s.Count()
		b.at(2 * sec)
		batch, _ = r.Next(context.Background())
		for _, e := range batch {
			s.Apply(e)
		}
	})
	if err == nil {
		t.Fatal("no error")
	}
	if want := (event.Counts{Total: 3, Active: 1, Waiting: 2}); halfway != want {
		t.Errorf("halfway %+v, want %+v", halfway, want)
	}
	if want := (event.Counts{Total: 3, Done: 1, Failed: 1, Waiting: 1}); s.Count() != want {
		t.Errorf("in the end %+v, want %+v", s.Count(), want)
	}
	a, c := s.Find("apply", "c:a"), s.Find("apply", "c:c")
	if a.Status != event.Ready || a.Done != 1 || a.Ended.Sub(a.Started) != sec || c.Status != event.Skipped || s.Operation.Release != "shop" {
		t.Errorf("a %+v, c %+v, operation %+v", a, c, s.Operation)
	}
}
