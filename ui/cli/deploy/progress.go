package deploy

import (
	"fmt"
	"time"

	"lockstep/kube"
	"lockstep/kube/connect"
	"lockstep/ui/report"
)

// unreachableDelay is how long the API server must be unreachable before a message is printed.
const unreachableDelay = 1500 * time.Millisecond

// reportUnreachable prints a message whenever the API server becomes unreachable, until stop is called.
// Events report it once an operation runs.
func reportUnreachable(client *kube.Client, notices report.Notices) (stop func()) {
	var timer *time.Timer
	stopTimer := func() {
		if timer != nil {
			timer.Stop()
		}
	}
	unlisten := client.Link().Listen(connect.Listener{ // never calls both functions at the same time
		Unreachable: func(since, _ time.Time, reason string) {
			stopTimer()
			timer = time.AfterFunc(unreachableDelay, func() {
				notices.Note(fmt.Sprintf("the API server has been unreachable for %s (%s); waiting", time.Since(since).Round(time.Second), reason))
			})
		},
		Reachable: stopTimer,
	})
	return func() {
		unlisten()
		stopTimer()
	}
}
