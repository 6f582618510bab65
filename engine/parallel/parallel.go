// Package parallel spreads work over the cores. Any package may import it; Each is all it has.
package parallel

import (
	"runtime"
	"sync"
)

// worthSharing is the number of calls that justifies another goroutine.
const worthSharing = 64

// Each calls f with all numbers below n, on all cores if n is large, and returns after all
// calls. f may change only data that belongs to its number.
func Each(n int, f func(i int)) {
	each := func(from, to int) {
		for i := from; i < to; i++ {
			f(i)
		}
	}
	workers := min(runtime.GOMAXPROCS(0), n/worthSharing)
	if workers < 2 {
		each(0, n)
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { each(w*n/workers, (w+1)*n/workers) })
	}
	wg.Wait()
}
