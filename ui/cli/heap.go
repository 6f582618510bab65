package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Most runs of this program are over within seconds, and keep little: an upgrade of a
// thousand objects makes 190 MB of garbage beside 20 MB that it keeps. Go collects as
// often as the heap has doubled, from 4 MB on, which came to 25 collections and a fifth
// of all the program did. So up to smallHeap nothing is collected, which is what such
// an upgrade comes to in any case. Where much is kept, as of 10,000 objects with the
// screen, doubling would be what the program takes most memory for; beyond largeRoom
// there is room for half of what is kept, and no more.
const (
	smallHeap = 32 << 20
	largeRoom = 64 << 20
)

// tendHeap has the heap collected so, unless the user says how.
func tendHeap() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent(kept()))
	// What nobody has is cleaned up by the next collection, which tells that there was
	// one: only then is it known what is kept.
	runtime.AddCleanup(new([64]byte), func(int) { tendHeap() }, 0)
}

// kept is what the last collection has left, 0 before the first.
func kept() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// gcPercent is how much of what is kept may be made before it is collected again, in
// percent of that.
func gcPercent(kept uint64) int {
	// Go takes 4 MB, times this, for the smallest heap worth a collection.
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
