package cli

import (
	"fmt"
	"time"

	"lockstep/kube"
	"lockstep/ui/report"
)

// quietFor is how long the API server may be away without a word.
const quietFor = 1500 * time.Millisecond

// tellAway says, until it is stopped, that the API server does not answer, as
// long as there is no operation whose events tell that.
func tellAway(client *kube.Client, say report.Notices) (stop func()) {
	timer := time.AfterFunc(time.Hour, func() {})
	timer.Stop()
	forget := client.Link().Listen(kube.Listener{
		Away: func(since time.Time, reason string) {
			timer.Stop()
			timer = time.AfterFunc(quietFor, func() {
				say.Note(fmt.Sprintf("the API server has been unreachable for %s (%s); waiting", time.Since(since).Round(time.Second), reason))
			})
		},
		Back: func() { timer.Stop() },
	})
	return func() {
		forget()
		timer.Stop()
	}
}
