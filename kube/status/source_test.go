package status

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchSpan expects that watches become longer while events arrive well before their end, and short again if events
// arrive at the end.
func TestWatchSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(t.Context(), nil, Options{})
		defer h.Close()
		s := newSource(&stream{hub: h})
		for i, step := range []struct{ early, want time.Duration }{
			{-1, 5 * time.Second}, {2 * time.Second, 10 * time.Second}, {time.Second, 20 * time.Second}, {-1, 20 * time.Second},
			{0, 2 * time.Second}, {-1, 2 * time.Second}, {time.Second, 5 * time.Second}, {900 * time.Millisecond, 2 * time.Second},
		} {
			var first time.Time
			if step.early >= 0 {
				first = time.Now()
				time.Sleep(step.early)
			}
			if s.adaptSpan(first); s.span != step.want {
				t.Errorf("step %d: %s, want %s", i, s.span, step.want)
			}
		}
		for range 10 {
			first := time.Now()
			time.Sleep(time.Minute)
			s.adaptSpan(first)
		}
		if s.span != maxSpan {
			t.Errorf("final span %s", s.span)
		}
		if other := newSource(&stream{hub: h}); other.span != delayedSpan {
			t.Errorf("span of a new source while events are delayed: %s", other.span)
		}
	})
}
