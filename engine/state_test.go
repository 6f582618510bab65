package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestStateDrawsTheSamePictureFromTheFeed(t *testing.T) {
	fake := newFake(map[string]behaviour{"x": {ready: sec}, "y": {failed: "exit code 2"}})
	var s State
	var halfway Counts
	_, err := run(t, Options{Operation: Operation{Name: "install", Release: "shop"}}, Stage{Phase: Phase{Groups: groupsOf("a: x", "b < a: y", "c < b: z")}}, fake, func(b *bench) {
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
	if want := (Counts{Total: 3, Active: 1, Waiting: 2}); halfway != want {
		t.Errorf("halfway %+v, want %+v", halfway, want)
	}
	if want := (Counts{Total: 3, Done: 1, Failed: 1, Waiting: 1}); s.Count() != want {
		t.Errorf("in the end %+v, want %+v", s.Count(), want)
	}
	a, c := s.Find("apply", "c:a"), s.Find("apply", "c:c")
	if a.Status != Ready || a.Done != 1 || a.Ended.Sub(a.Started) != sec || c.Status != Skipped || s.Operation.Release != "shop" {
		t.Errorf("a %+v, c %+v, operation %+v", a, c, s.Operation)
	}
}

func TestActiveTimeLeavesPausesOut(t *testing.T) { // R25
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * sec) }
	var s State
	for _, e := range []Event{
		{Time: at(0), Kind: KindOperation, Status: Running},
		{Time: at(10), Kind: KindRun, Status: Paused},
		{Time: at(40), Kind: KindRun, Status: Held},
		{Time: at(50), Kind: KindRun, Status: Running},
	} {
		s.Apply(e)
	}
	for now, want := range map[int]time.Duration{50: 10 * sec, 55: 15 * sec} {
		if got := s.Active(at(now)); got != want {
			t.Errorf("active at %ds is %s, want %s", now, got, want)
		}
	}
	s.Apply(Event{Time: at(60), Kind: KindOperation, Status: Succeeded})
	if got := s.Active(at(99)); got != 20*sec {
		t.Errorf("active after the end is %s, want 20s", got)
	}
}

func TestFeedReadersMissNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Feed{}
		const n = 1000
		got := make(chan int)
		for range 3 {
			go func() {
				r, count := f.Reader(), 0
				for {
					batch, ok := r.Next(context.Background())
					if !ok {
						got <- count
						return
					}
					for _, e := range batch {
						if count++; e.Seq != uint64(count) {
							t.Errorf("event %d after %d", e.Seq, count-1)
						}
					}
				}
			}()
		}
		for i := range n {
			if f.Publish(Event{Kind: KindWarning}); i%100 == 0 {
				synctest.Wait()
			}
		}
		f.Close()
		f.Publish(Event{Kind: KindWarning})
		for range 3 {
			if c := <-got; c != n {
				t.Errorf("a reader got %d events, want %d", c, n)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, ok := (&Feed{}).Reader().Next(ctx); ok {
			t.Error("an event from an empty feed")
		}
	})
}
