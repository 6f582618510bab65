// Package parallel shares work among cores.
package parallel

import (
	"runtime"
	"sync"
)

// worthSharing is for how many calls another goroutine is worth it: starting to share
// takes as long as some of them.
const worthSharing = 64

// Each calls f with all numbers below n, on all cores where there are many, and returns
// when all calls have. What f changes may be what its number stands for, and nothing
// else.
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
