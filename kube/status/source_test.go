package status

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSpanOfWatches: watches become longer for as long as their news comes well before
// they end, and short again where it comes with their end.
func TestSpanOfWatches(t *testing.T) {
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
		if s.span != lastSpan {
			t.Errorf("at last %s", s.span)
		}
		if other := newSource(&stream{hub: h}); other.span != delayedSpan {
			t.Errorf("one that starts once watches are known to be held back: %s", other.span)
		}
	})
}
