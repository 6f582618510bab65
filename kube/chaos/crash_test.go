package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// crashes kills an operation at each of its writes: before the API server gets the request, or before the response
// arrives. Running the same command again must complete the operation (R50, R52).
func crashes(t *testing.T) []trialGroup {
	var all []trialGroup
	for i, name := range []string{"install", "upgrade", "rollback", "uninstall"} {
		all = append(all, crashesOf(t, i+1, single(name))...)
	}
	return all
}

// crashesOf returns the trials of one operation, the number-th of a row.
func crashesOf(t *testing.T, number int, o operation) (all []trialGroup) {
	want, err := baselineOf(t, o, false)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= want.writes; n++ {
		for after := range 2 {
			seed := number*1000 + n*10 + after
			all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
				what, err := runWithCrash(t, o, want, n, after == 1)
				report(seed, what, err)
			}})
		}
	}
	return all
}

func runWithCrash(t *testing.T, o operation, want *baseline, n int, after bool) (what string, err error) {
	h := newHarness(t, n%2 == 0, false)
	defer h.close()
	where := map[bool]string{false: "before", true: "after"}[after]
	what = fmt.Sprintf("%s, killed %s write %d of %d", o.name, where, n, want.writes)
	if err := h.runPreceding(o); err != nil {
		return what, err
	}
	kept := h.stateful()
	var p *process
	started := make(chan struct{})
	killed := make(chan struct{})
	p, _ = h.start(o, func(q request) handler {
		if q.write != n {
			return nil
		}
		what += ": " + q.key
		return func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
			if after {
				dropResponse(r, next)
			}
			<-started
			p.kill()
			close(killed)
			panic(http.ErrAbortHandler)
		}
	})
	close(started)
	if err := p.wait(2 * time.Minute); err != nil {
		return what, fmt.Errorf("the run was not killed: %w\n%s", err, p.outputTail())
	}
	select {
	case <-killed:
	default:
		return what + " (sent fewer writes this time)", nil
	}
	left := h.snapshot()
	again, _ := h.start(o, nil)
	if err := again.wait(2 * time.Minute); err != nil {
		return what, fmt.Errorf("the same command again: %w\n%s", err, again.outputTail())
	}
	return what, errors.Join(h.judgeRepeated(want, left, again), h.judgeApprovals(o, p, again), h.judgeStateful(kept))
}

// judgeRepeated checks the result after the same command ran again. If the first run had already completed, the second
// one may refuse.
func (h *harness) judgeRepeated(want *baseline, left snapshot, again *process) error {
	var wrong []string
	if complete := len((snapshot{objects: left.objects}).diff(snapshot{objects: want.target.objects}, false)) == 0; again.exitCode != 0 {
		if complete && again.exitCode == 2 && len(left.unfinished()) == 0 && left.count("deployed") == want.target.count("deployed") {
			return nil
		}
		wrong = append(wrong, fmt.Sprintf("the same command again: exit code %d", again.exitCode))
	}
	wrong = append(wrong, h.waitUntil(want.target, false)...)
	now := h.snapshot()
	if wrong = append(wrong, now.wrongRevisions(want.target)...); len(wrong) == 0 {
		return nil
	}
	return errors.New("  " + strings.Join(wrong, "\n  ") + fmt.Sprintf("\n  the crash left %q; the history is now %q\n", left.history, now.history) + again.outputTail())
}
