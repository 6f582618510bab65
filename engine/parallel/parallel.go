// Package parallel spreads work over the cores (Each), and waits (Sleep). Any package may import it.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// minCalls is the number of calls that are worth another goroutine.
const minCalls = 64

// Each calls f for each i from 0 to n-1 and returns after the last call. If n is large, it uses all
// cores, so calls must not modify the same data.
func Each(n int, f func(i int)) {
	calls := func(from, to int) {
		for i := from; i < to; i++ {
			f(i)
		}
	}
	workers := min(runtime.GOMAXPROCS(0), n/minCalls)
	if workers < 2 {
		calls(0, n)
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { calls(w*n/workers, (w+1)*n/workers) })
	}
	wg.Wait()
}

// Sleep waits until d has passed. The only error is the cause of ctx's end.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
