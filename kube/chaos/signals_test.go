package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// signals sends signals, once and twice, in each phase of an operation. SIGINT and SIGTERM end it with exit code 3 and
// the release in a final state, but a rollback on failure continues after the first one (R43). SIGHUP ends an operation
// only during the checks.
func signals(t *testing.T) []trialGroup {
	var all []trialGroup
	for i, name := range []string{"install", "upgrade", "rollback", "uninstall", "bad-upgrade"} {
		o := single(name)
		want, err := baselineOf(t, o, false)
		if err != nil {
			t.Fatal(err)
		}
		for j, phase := range []string{phaseChecks, phaseHooks, phaseApplies, phaseWatches, phaseRemovals, phaseRecord, phaseRollback} {
			if want.phases[phase] == 0 || o.mustFail() && phase != phaseRollback {
				continue
			}
			for k, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
				for times := 1; times <= 2; times++ {
					seed := i*1000 + j*100 + k*10 + times
					all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
						nth := (want.phases[phase] - 1) * ((i + k) % 3) / 2
						report(seed, fmt.Sprintf("%s, %s ×%d at %s[%d]", o.name, s, times, phase, nth), runSignalled(t, o, want, phase, nth, s, times))
					}})
				}
			}
		}
	}
	return all
}

func runSignalled(t *testing.T, o operation, want *baseline, phase string, nth int, s syscall.Signal, times int) error {
	h := newHarness(t, times == 1, false)
	defer h.close()
	if err := h.runPreceding(o); err != nil {
		return err
	}
	before := h.snapshot()
	started := make(chan struct{})
	var p *process
	p, _ = h.start(o, func(q request) handler {
		if q.phase != phase || q.nth != nth {
			return nil
		}
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			<-started
			for range times {
				_ = p.cmd.Process.Signal(s) // fails if the process has exited after the first one
				time.Sleep(150 * time.Millisecond)
			}
			next.ServeHTTP(w, r)
		}
	})
	close(started)
	if err := p.wait(30 * time.Second * slowdown); err != nil {
		return fmt.Errorf("  %w\n%s", err, p.outputTail())
	}
	continues := s == syscall.SIGHUP && phase != phaseChecks || phase == phaseRollback && times == 1
	if continues || s == syscall.SIGHUP && p.exitCode == want.exitCode {
		return h.judge(p, want, nil)
	}
	var wrong []string
	switch {
	case phase == phaseChecks:
		if wrong = h.waitUntil(before, true); len(wrong) > 0 { // it may have written the first record
			wrong = h.checkFinalState(p, before, want)
		}
		if p.exitCode != 3 {
			wrong = append(wrong, fmt.Sprintf("exit code %d, want 3", p.exitCode))
		}
	case phase == phaseRollback:
		if wrong = h.checkFinalState(p, before, want); p.exitCode == 0 || p.exitCode == 2 {
			wrong = append(wrong, fmt.Sprintf("exit code %d", p.exitCode))
		}
	default:
		// During the last writes it may be too late to stop.
		if wrong = h.checkFinalState(p, before, want); p.exitCode != 3 && (p.exitCode != 0 || phase != phaseRecord && phase != phaseRemovals && nth < want.phases[phase]-1) {
			wrong = append(wrong, fmt.Sprintf("exit code %d, want 3", p.exitCode))
		}
	}
	if len(wrong) > 0 {
		return errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + p.outputTail())
	}
	return nil
}
