package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Most runs take seconds and keep little: an upgrade of 1,000 objects makes 190 MB of
// garbage and keeps 20 MB. Go's default collects 25 times, a fifth of the CPU time. So
// nothing is collected below smallHeap. With a large live heap, such as 10,000 objects on
// the screen, doubling costs too much memory: beyond largeRoom the heap grows by half.
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

// liveHeap is the size after the last collection in bytes, 0 before the first.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// gcPercent is how much the heap may grow before the next collection, in percent of the
// live heap.
func gcPercent(kept uint64) int {
	// Go's minimum heap is 4 MB times GOGC/100.
	const most = smallHeap / (4 << 20) * 100
	if kept <= smallHeap/most*100 {
		return most
	}
	room := min(kept, max(largeRoom, kept/2))
	if kept < smallHeap {
		room = max(room, smallHeap-kept)
	}
	return int(min(most, room*100/kept))
}
