package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// records makes each write of a release record fail: its response is lost, it is refused once, or it is refused for
// three seconds. The result must be the same as without faults (R32a, R53).
func records(t *testing.T) []trialGroup {
	kinds := []string{"response lost", "refused once", "refused for 3s", "response lost at a gateway"}
	var all []trialGroup
	for i, o := range operations {
		if len(o.preceding) > 2 {
			o = single(o.name)
		}
		want, err := baselineOf(t, o, false)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= want.records; n++ {
			for k, kind := range kinds {
				seed := i*1000 + n*10 + k
				all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
					report(seed, fmt.Sprintf("%s, record write %d of %d: %s", o.name, n, want.records, kind), runWithRecordFault(t, o, want, n, k))
				}})
			}
		}
	}
	return all
}

func runWithRecordFault(t *testing.T, o operation, want *baseline, n, kind int) error {
	h := newHarness(t, n%2 == 0, false)
	defer h.close()
	if err := h.runPreceding(o); err != nil {
		return err
	}
	var until time.Time
	p, _ := h.start(o, func(q request) handler {
		switch {
		case q.record == n:
			until = time.Now().Add(3 * time.Second)
			return requestFaults[[]string{"reset after", "500", "503", "done, then 504"}[kind]]
		case kind == 2 && q.record > n && time.Now().Before(until):
			return requestFaults["503"]
		}
		return nil
	})
	return h.judge(p, want, p.wait(3*time.Minute))
}

// judge checks that the result is the same as without faults.
func (h *harness) judge(p *process, want *baseline, hangs error) error {
	if hangs != nil {
		return fmt.Errorf("  %w\n%s", hangs, p.outputTail())
	}
	var wrong []string
	if p.exitCode != want.exitCode {
		wrong = append(wrong, fmt.Sprintf("exit code %d, want %d", p.exitCode, want.exitCode))
	}
	if wrong = append(wrong, h.waitUntil(want.target, true)...); len(wrong) > 0 {
		return errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + p.outputTail())
	}
	return nil
}

// stalls never answers some requests, or answers very slowly. With a timeout of some seconds, the operation succeeds, or
// fails in time with the release in a final state (R25, R34, R53).
func stalls(t *testing.T) []trialGroup {
	var all []trialGroup
	for i, name := range []string{"install", "upgrade", "rollback", "uninstall"} {
		o := single(name)
		want, err := baselineOf(t, o, false)
		if err != nil {
			t.Fatal(err)
		}
		for j, phase := range []string{phaseChecks, phaseLease, phaseHooks, phaseRecord, phaseApplies, phaseRemovals, phaseWatches, phaseReads} {
			for k, kind := range []string{"never answered", "trickles", "never answered again"} {
				// An operation that never gets the record or the Lease cannot reach a final state.
				if want.phases[phase] == 0 || kind == "never answered again" && (phase == phaseRecord || phase == phaseLease || phase == phaseReads) {
					continue
				}
				seed := i*1000 + j*10 + k
				all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
					nth := (want.phases[phase] - 1) * (seed % 3) / 2
					report(seed, fmt.Sprintf("%s, %s[%d] is %s", o.name, phase, nth, kind), runWithStall(t, o, want, phase, nth, kind))
				}})
			}
		}
	}
	return all
}

const stallTimeout = 8 * time.Second

func runWithStall(t *testing.T, o operation, want *baseline, phase string, nth int, kind string) error {
	h := newHarness(t, nth%2 == 0, false)
	defer h.close()
	if err := h.runPreceding(o); err != nil {
		return err
	}
	before := h.snapshot()
	p, _ := h.start(o, func(q request) handler {
		switch {
		case q.phase != phase || q.nth < nth || q.nth > nth && kind != "never answered again":
			return nil
		case kind == "trickles":
			return trickle
		}
		return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }
	}, "--timeout", stallTimeout.String(), "--readiness-timeout", "6s")
	if err := p.wait(stallTimeout + 15*time.Second*slowdown); err != nil {
		return fmt.Errorf("  %w\n%s", err, p.outputTail())
	}
	var wrong []string
	if limit := stallTimeout + 4*time.Second*slowdown; p.duration > limit {
		wrong = append(wrong, fmt.Sprintf("the operation took %s", p.duration.Round(time.Second)))
	}
	wrong = append(wrong, h.checkFinalState(p, before, want)...)
	if len(wrong) > 0 {
		return errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + p.outputTail())
	}
	return nil
}

// checkFinalState checks the cluster after an operation that may have failed: it must match the exit code, and no
// revision may be unfinished.
func (h *harness) checkFinalState(p *process, before snapshot, want *baseline) (wrong []string) {
	switch p.exitCode {
	case 0:
		return h.waitUntil(want.target, true)
	case 2: // nothing was written
		return h.waitUntil(before, true)
	case 1, 3:
	default:
		wrong = append(wrong, fmt.Sprintf("exit code %d", p.exitCode))
	}
	within(h.t.Context(), slowdown*time.Second, func() bool { return len(h.snapshot().leases) == 0 })
	now := h.snapshot()
	if u := now.unfinished(); len(u) > 0 {
		wrong = append(wrong, fmt.Sprintf("unfinished: %q", u))
	}
	if len(now.leases) > 0 {
		wrong = append(wrong, fmt.Sprintf("Leases were not deleted: %q", now.leases))
	}
	if n := now.count("deployed"); n > 1 {
		wrong = append(wrong, fmt.Sprintf("%d revisions are deployed", n))
	}
	return wrong
}

// trickle sends a byte of the response every half second.
func trickle(w http.ResponseWriter, r *http.Request, next http.Handler) {
	slow := slowWriter{w, r}
	next.ServeHTTP(slow, r)
}

type slowWriter struct {
	http.ResponseWriter
	r *http.Request
}

func (s slowWriter) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := s.ResponseWriter.Write(p[i : i+1]); err != nil {
			return i, err
		}
		_ = http.NewResponseController(s.ResponseWriter).Flush()
		select {
		case <-s.r.Context().Done():
			return i, s.r.Context().Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	return len(p), nil
}
