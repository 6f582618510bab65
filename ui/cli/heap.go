package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Most runs take seconds and keep little memory: an upgrade of 1,000 objects creates 190 MB of garbage
// and keeps 20 MB. Go's default would collect 25 times, which takes a fifth of the CPU time. Therefore
// nothing is collected below smallHeap. A larger heap doubles between collections, but grows by at
// most largeRoom or half its size, whichever is more: with 10,000 objects on the screen, doubling it
// would cost too much memory.
const (
	smallHeap = 32 << 20
	largeRoom = 64 << 20
)

// tuneGC sets the GC percentage after each collection, unless the user set GOGC or
// GOMEMLIMIT.
func tuneGC() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent(liveHeap()))
	// The cleanup of an unreachable object runs after the next collection.
	runtime.AddCleanup(new([64]byte), func(int) { tuneGC() }, 0)
}

// liveHeap returns the size of the heap after the last collection in bytes, 0 before the first.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// gcPercent returns how much the heap may grow before the next collection, in percent of the live
// heap.
func gcPercent(live uint64) int {
	// Go's minimum heap is 4 MB times GOGC/100.
	const maxPercent = smallHeap / (4 << 20) * 100
	if live <= smallHeap/maxPercent*100 {
		return maxPercent
	}
	room := min(live, max(largeRoom, live/2))
	if live < smallHeap {
		room = max(room, smallHeap-live)
	}
	return int(min(maxPercent, room*100/live))
}
