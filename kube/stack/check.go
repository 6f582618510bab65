package stack

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
)

// A release that was unchanged at planning is checked when its turn comes (S4). It is checked again when a release that needs
// it starts, and at the end, and so is one that this run has deployed (R21).

// lookInterval is how long a check counts while no operation of the stack starts or ends.
const lookInterval = 10 * time.Second

// look is when a release was last looked at.
type look struct {
	checking sync.Mutex // held during a check
	ran      int        // Stack.ran at that time, guarded by Stack.mu
	at       time.Time  // zero before the first look, guarded by Stack.mu
}

// lastLook returns how many operations of the stack have started or ended, and whether a look at a release would show
// nothing new. first is set if the release has not been looked at since planning.
func (s *Stack) lastLook(m *member) (ran int, first, current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran, m.look.at.IsZero(), m.look.ran == s.ran && time.Since(m.look.at) < lookInterval
}

func (s *Stack) setLook(m *member, ran int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.look.ran, m.look.at = ran, time.Now()
}

// check waits until a release that is unchanged or that this run has deployed is ready. It returns an error if it does not
// become ready, or if somebody else has changed it. Its events are published only if it is not ready at once.
func (s *Stack) check(m *member, phase string, o plan.Object) error {
	m.look.checking.Lock()
	defer m.look.checking.Unlock()
	ran, first, current := s.lastLook(m)
	if current {
		return nil
	}
	var check *operation.Check
	var err error
	if s.isUnchanged(m) {
		check, err = s.plannedOperation(m).Check(!first || ran > 0, !first) // planning has compared the objects
	} else {
		check, err = s.plannedOperation(m).CheckDeployed()
	}
	if err != nil {
		return err
	}
	err = s.runCheck(m, phase, o, check)
	if err == nil {
		s.setLook(m, ran)
	}
	return err
}

// runCheck runs a check and records what it found.
func (s *Stack) runCheck(m *member, phase string, o plan.Object, check *operation.Check) error {
	s.mu.Lock()
	m.current = check.Operation
	relay := func(e event.Event) { s.relay(m, phase, o, e) }
	if m.unchanged {
		m.state = event.State{}
	} else {
		relay = unreadyAgain(m.ended, relay)
	}
	s.active = append(s.active, m)
	s.mu.Unlock()
	var held []event.Event // until the first sign that the release is not ready
	shown, reopened, noStatus, notAwaited := false, false, 0, 0
	settle := func(error) {}
	show := func() {
		for _, e := range held {
			relay(e)
		}
		held, shown = nil, true
	}
	err := drive(check.Operation, func(e event.Event) {
		if e.Kind == event.KindDrift { // somebody else has changed an object
			relay(e)
			return
		}
		held = append(held, e)
		noStatus, notAwaited = e.NoStatus, e.NotAwaited
		unready := e.Kind == event.KindObject && (e.Status == event.InProgress || e.Status == event.Failed)
		if unready && !reopened {
			settle, reopened = s.reopen(m, phase, o), true
		}
		if unready || shown || e.Kind == event.KindRun || e.Kind == event.KindDiagnosis || e.Kind == event.KindServer {
			show()
		}
	})
	if err != nil {
		show()
	}
	s.mu.Lock()
	m.current = nil
	s.active = slices.DeleteFunc(s.active, func(other *member) bool { return other == m })
	s.stepNext = s.stepNext && err == nil
	m.changed = check.Changed()
	if lost := (*operation.LostObject)(nil); errors.As(err, &lost) {
		m.changed = append(m.changed, lost.Object)
	}
	if m.unchanged { // else its own operation has counted them
		m.state.NoStatus, m.state.NotAwaited = noStatus, notAwaited // also if the events are not shown
	}
	m.notReady = err != nil && len(m.changed) == 0 && m.state.Newer == nil && m.state.FailedGroups() > 0
	s.mu.Unlock()
	if err != nil {
		err = s.explain(m, err)
	}
	settle(err)
	return err
}

// reopen publishes that a release that was ready is in progress again, so that its failure can be held and decided like any other.
// settle publishes how that ended. They do nothing for a release whose turn has only come.
func (s *Stack) reopen(m *member, phase string, o plan.Object) (settle func(error)) {
	e := event.Event{Kind: event.KindGroup, Phase: phase, Group: m.id, Object: &o}
	s.mu.Lock()
	g := s.state.Find(phase, m.id)
	if g == nil || g.Status != event.Ready {
		s.mu.Unlock()
		return func(error) {}
	}
	message, result := g.Message, ""
	if i := slices.IndexFunc(g.Objects, func(seen *event.ObjectState) bool { return seen.Object == o }); i >= 0 {
		result = g.Objects[i].Message
	}
	s.mu.Unlock()
	publish := func(status event.Status, message string) { // the release counts as the object of its group
		s.engine.Publish(event.Event{Kind: event.KindObject, Phase: phase, Group: m.id, Object: &o, Status: status, Message: message, Cause: e.Cause, Evidence: e.Evidence})
	}
	e.Status, e.Message = event.Running, event.UnreadyAgain
	s.engine.Publish(e)
	publish(event.InProgress, event.UnreadyAgain)
	return func(err error) {
		f := (*failure)(nil)
		errors.As(err, &f)
		s.mu.Lock()
		notReady := m.notReady
		s.mu.Unlock()
		switch {
		case f != nil && f.aborted:
			e.Status, e.Message = event.Aborted, f.reason
		case f != nil && notReady:
			e.Status, e.Message, e.Cause, e.Evidence = event.Failed, f.text, f.finding.Cause, f.finding.Evidence
			publish(event.Failed, f.text)
		default: // it is ready, or somebody else has changed it, which the results say
			e.Object, e.Status, e.Message = nil, event.Ready, message
			publish(event.Ready, result)
		}
		s.engine.Publish(e)
	}
}

// unreadyAgain returns a function that relays the events of a check of a deployed release as those of the operation that
// deployed it: its groups are ready, and only those that are not ready any more are in progress again. end is the event with
// which that operation ended: it ends so once more if they become ready.
func unreadyAgain(end event.Event, relay func(event.Event)) func(event.Event) {
	again := map[event.Unit]bool{}
	return func(e event.Event) {
		switch {
		case e.Kind == event.KindOperation && e.Status == event.Succeeded && len(again) > 0 && end.Kind != "":
			e = end
		case e.Kind == event.KindPlan, e.Kind == event.KindOperation && e.Status != event.Failed:
			return
		case e.Kind == event.KindOperation:
		case e.Kind == event.KindGroup && e.Status != event.Failed && !again[e.Unit()], e.Kind == event.KindGroup && e.Status == event.Running:
			return
		case e.Kind != event.KindObject:
		case e.Status != event.InProgress && e.Status != event.Failed:
			if e.Change = ""; !again[e.Unit()] || e.Status == event.Applying || e.Status == event.Applied {
				return
			}
		case !again[e.Unit()]:
			again[e.Unit()] = true
			relay(run.UnreadyAgain(e.Unit(), *e.Object, cmp.Or(e.Message, string(e.Status))))
		}
		relay(e)
	}
}

// checkNeeds looks again at the releases that a release needs, directly or indirectly, right before it starts.
func (s *Stack) checkNeeds(m *member, phase string) error {
	seen := map[*member]bool{}
	var visit func(m *member) error
	visit = func(m *member) error {
		for _, n := range m.needs {
			if seen[n] {
				continue
			}
			seen[n] = true
			if err := visit(n); err != nil {
				return err
			}
			if err := s.lookAt(n, phase); err != nil {
				return fmt.Errorf("not started: release %s, which it needs, %w", n.id, err)
			}
		}
		return nil
	}
	return visit(m)
}

// lookAt checks a release, unless the run removes it. The error completes a sentence about the release.
func (s *Stack) lookAt(m *member, phase string) error {
	if m.remove || s.plannedOperation(m) == nil {
		return nil
	}
	return sentence(s.check(m, phase, m.object()))
}

// sentence returns the error of a check as the end of a sentence about the release.
func sentence(err error) error {
	var lost *lease.LostError
	switch {
	case err == nil, errors.As(err, &lost) && lost.Newer == nil:
		return err
	case lost != nil:
		return errors.New(newerText(*lost.Newer))
	}
	return fmt.Errorf("is not as planned: %w", err)
}

// lookAgain checks all releases at the end, unless nothing has happened since the last check.
func (s *Stack) lookAgain() error {
	errs := make([]error, len(s.members))
	var checks errgroup.Group
	checks.SetLimit(maxChecks)
	for n, m := range s.members {
		checks.Go(func() error {
			if err := s.lookAt(m, phaseReleases); err != nil {
				errs[n] = fmt.Errorf("release %s %w", m.id, err)
				s.setWhy(m, err)
			}
			return nil
		})
	}
	_ = checks.Wait() // no function fails
	return namedInOutcome(errors.Join(errs...))
}

// setWhy records why a release is not as the run was to leave it.
func (s *Stack) setWhy(m *member, err error) {
	why := text.CollapseSpace(err.Error())
	if f := (*failure)(nil); errors.As(err, &f) {
		why = f.reason
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.why = why
}

// maxChecks limits how many releases are checked at the same time at the end.
const maxChecks = 8

// failedResults returns an error that names the releases whose records are not what the run was to achieve, nil for none.
func (s *Stack) failedResults(results []event.ReleaseResult) error {
	var all []string
	named := true
	for _, r := range s.unsuccessful(results) {
		note := noteOf(r, false)
		named = named && note != ""
		all = append(all, cmp.Or(note, fmt.Sprintf("%s is %s", r.Release, r.Result)))
	}
	if len(all) == 0 {
		return nil
	}
	err := errors.New(strings.Join(all, "; "))
	if named {
		return namedInOutcome(err)
	}
	return err
}

// counts returns the number of objects that count as ready although their controllers have written no status (R22a), and of
// those that the releases did not wait for (R22b).
func (s *Stack) counts() (noStatus, notAwaited int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		noStatus, notAwaited = noStatus+m.state.NoStatus, notAwaited+m.state.NotAwaited
	}
	return noStatus, notAwaited
}
