package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/helmfile"
	"lockstep/kube/operation"
	"lockstep/kube/program"
	"lockstep/kube/session"
)

// stage returns the stage of a phase. Only steps hold the run by their own failures: those of a release are held in its operation.
func (s *Stack) stage(phase event.Phase) run.Stage {
	return run.Stage{Phase: phase, Cluster: s, Holds: func(g *plan.Group) bool { return g.Step != nil }}
}

// runStep runs the program or the Job of a step.
func (s *Stack) runStep(ctx context.Context, st *step, o plan.Object) (run.Response, error) {
	s.mu.Lock()
	report := st.report
	s.mu.Unlock()
	if s.doneEarlier(st) {
		report(run.Observation{Object: o, Status: event.Ready, Message: phrase.RanBeforeKill})
		return run.Response{Change: event.Ran, Message: phrase.RanBeforeKill}, nil
	}
	p, err := st.hook.Program(st.at)
	if err != nil {
		return run.Response{}, err
	}
	lock, err := s.lockRelease(ctx, st)
	if err != nil {
		return run.Response{}, err
	}
	s.mu.Lock()
	s.ranStep = true
	s.mu.Unlock()
	timeout := &stepTimeout{s.stepTimeout(st), "still running"}
	ctx, cancel := context.WithTimeoutCause(run.RetryContext(ctx), timeout.After, timeout)
	defer cancel()
	var last []string
	output := func(lines []string) {
		if last = append(last, lines...); len(last) > event.MaxEvidence {
			last = slices.Clone(last[len(last)-event.MaxEvidence:])
		}
		s.engine.Publish(event.Event{Kind: event.KindLog, Phase: st.phase, Group: st.id, Object: &o, Lines: lines})
	}
	var of map[string]string
	if s.opts.TraceEnv != nil {
		of = s.opts.TraceEnv(event.Unit{Phase: st.phase, Group: st.id})
	}
	if p.Image != nil {
		err = s.runJob(ctx, st, p, of, lock, output, func(message string) { report(run.Observation{Object: o, Status: event.Applying, Message: message}) }, &timeout.why)
	} else {
		err = s.runProgram(ctx, st, p, of, output)
	}
	if err != nil {
		return run.Response{}, newStepFailure(p, err, last, st.fact.Job)
	}
	s.unlockAfter(st)
	report(run.Observation{Object: o, Status: event.Ready, Message: phrase.Exited(0)})
	return run.Response{Change: event.Ran, Message: phrase.Exited(0)}, nil
}

// runProgram runs a program on this machine. Its kubectl uses the context of its release (S8).
func (s *Stack) runProgram(ctx context.Context, st *step, p helmfile.Program, of map[string]string, output func([]string)) error {
	var env []string
	for name, value := range of {
		env = append(env, name+"="+value)
	}
	if c, _ := s.placeOf(st); c != nil {
		folder, err := os.MkdirTemp("", "lockstep-hook-")
		if err != nil {
			return fmt.Errorf("make a folder for the kubeconfig: %w", err)
		}
		defer os.RemoveAll(folder)
		kubeconfig, err := c.Kubeconfig(folder)
		if err != nil {
			return err
		}
		if kubeconfig != "" {
			env = append(env, "KUBECONFIG="+kubeconfig)
		}
	}
	return program.Program{Command: p.Command, Args: p.Args, Dir: st.hook.Folder, Env: env}.Run(ctx, output)
}

// lockedBy returns the release under whose lock a step runs, nil for none: its own, and for a step of the whole file the first that
// the run changes.
func (s *Stack) lockedBy(st *step) *member {
	m := st.member
	if i := slices.IndexFunc(s.members, func(m *member) bool { return s.plannedOperation(m) != nil && !s.isUnchanged(m) }); m == nil && i >= 0 {
		m = s.members[i]
	}
	if m == nil || s.isUnchanged(m) {
		return nil
	}
	return m
}

// lockRelease makes sure that a step runs under its lock (R51): of two runs, only one starts the migration of a release, and none
// changes it while its smoke test runs. A step before the operation of the release locks it for that, one after it has its lock. It
// returns the cluster and the release, "" if the step runs without a lock.
func (s *Stack) lockRelease(ctx context.Context, st *step) (lock string, err error) {
	m := s.lockedBy(st)
	if m == nil {
		return "", nil
	}
	m.locking.Lock()
	defer m.locking.Unlock()
	s.mu.Lock()
	op, started := m.op, m.started
	if m.rollback != nil {
		op = m.rollback
	}
	s.mu.Unlock()
	if op == nil {
		return "", nil
	}
	if !started && st.phase != phaseCleanup && !op.HoldsLease() {
		err = op.Lock(ctx, m.publisher(s.engine))
	}
	if op.HoldsLease() {
		lock = m.cluster.String() + " " + m.Namespace + "/" + m.Name
	}
	return lock, err
}

// stepsAfter returns the steps that run under the lock of a release after its operation.
func (s *Stack) stepsAfter(m *member) []*step {
	last := slices.DeleteFunc(s.cleaning(), func(st *step) bool { return s.lockedBy(st) != m })
	return append(s.stepsAt(m, s.planned, helmfile.Postuninstall, helmfile.Postsync), last...)
}

// unlockAfter unlocks the release of a step if that was the last one under its lock.
func (s *Stack) unlockAfter(st *step) {
	m := s.lockedBy(st)
	if m == nil {
		return
	}
	if after := s.stepsAfter(m); len(after) > 0 && after[len(after)-1] == st {
		m.unlock(s)
	}
}

// unlockReleases unlocks the releases whose operations were not started, or have ended before steps that did not run or failed.
func (s *Stack) unlockReleases() {
	for _, m := range s.members {
		m.unlock(s)
	}
}

// unlock unlocks a release whose operation does not run.
func (m *member) unlock(s *Stack) {
	s.mu.Lock()
	op, rollback := m.op, m.rollback
	s.mu.Unlock()
	for _, op := range []*operation.Operation{op, rollback} {
		if op != nil {
			op.Unlock(m.publisher(s.engine))
		}
	}
}

// publisher returns how events of the release are published outside of its operation.
func (m *member) publisher(eng *run.Engine) func(event.Event) {
	return func(e event.Event) {
		e.Scope = m.id
		eng.Publish(e)
	}
}

// stepTimeout returns how long a step may run.
func (s *Stack) stepTimeout(st *step) event.Timeout {
	if st.member != nil && st.member.Timeout > 0 {
		return event.Timeout{After: st.member.Timeout, Flag: "timeout of the release"}
	}
	return event.Timeout{After: cmp.Or(s.opts.Common.Timeout, session.DefaultTimeout), Flag: string(event.LimitOperation)}
}

// stepTimeout is the error of a step that did not end in time.
type stepTimeout struct {
	event.Timeout
	why string
}

func (t *stepTimeout) Error() string { return phrase.Failure(t.why, &t.Timeout) }

// stepFailure is the error of a step, with the end of its output as evidence.
type stepFailure struct {
	error
	finding run.Finding
}

func (f *stepFailure) Error() string        { return f.finding.Cause }
func (f *stepFailure) Unwrap() error        { return f.error }
func (f *stepFailure) Finding() run.Finding { return f.finding }

// newStepFailure returns the error of a program, or of a Job that stays for its log.
func newStepFailure(p helmfile.Program, err error, last []string, job string) error {
	last = slices.DeleteFunc(last, func(l string) bool { return strings.TrimSpace(l) == "" })
	details := event.Details{Log: last}
	why := err.Error()
	if exit := (*program.ExitError)(nil); errors.As(err, &exit) && exit.Signal == "" {
		details.ExitCode = &exit.Code
		why = phrase.Exited(exit.Code)
		if job != "" {
			details.Notes = []string{"the Job stays until the hook runs again: kubectl logs " + job}
		}
	}
	what := p.Command
	if what == "" {
		what = p.Image.Name
	}
	cause := filepath.Base(what) + " " + why
	if n := len(last); n > 0 {
		cause += ": " + strings.TrimSpace(last[n-1])
	}
	return &stepFailure{err, run.Finding{Cause: cause, Evidence: last, Degraded: true, Details: details}}
}

// runFinally runs, after a failure, what helmfile runs whatever happens: the postsync hooks of releases that failed, and the
// cleanup hooks that have not run.
func (s *Stack) runFinally(cause error) {
	if !s.anyWritten() { // then nothing has run
		return
	}
	var last []*step
	s.mu.Lock()
	for _, m := range s.members {
		g := s.failedGroup(m)
		if g == nil {
			continue
		}
		for _, st := range s.steps {
			if st.member == m && st.at.Event == helmfile.Postsync && st.phase != phaseCleanup && s.state.Find(st.phase, st.id) != nil {
				st.phase, st.at.Err = phaseCleanup, errors.New(cmp.Or(g.Cause, g.Message))
				last = append(last, st)
			}
		}
	}
	s.mu.Unlock()
	for _, st := range s.cleaning() {
		if g := s.stateOf(st); g == nil || g.Started.IsZero() {
			if st.member == nil {
				st.at.Err = cause
			}
			last = append(last, st)
		}
	}
	if len(last) == 0 {
		return
	}
	phase := event.Phase{Name: phaseCleanup, Kind: event.PhaseHooks, Groups: chain(last)}
	s.engine.Announce(phase)
	_ = s.engine.Run(s.stage(phase)) // the run has failed already, and the group shows why
}

// failedGroup returns the group of a release that has failed, or that of a hook right before it; nil if there is none.
func (s *Stack) failedGroup(m *member) *event.GroupState {
	ids := []string{m.id}
	for _, st := range s.stepsAt(m, anyStep, helmfile.Presync, helmfile.Preuninstall) {
		ids = append(ids, st.id)
	}
	for _, id := range ids {
		if g := s.state.Find(releasePhase(m), id); g != nil && g.Status == event.Failed {
			return g
		}
	}
	return nil
}

func releasePhase(m *member) string {
	if m.remove {
		return phaseRemove
	}
	return phaseReleases
}

func (s *Stack) stateOf(st *step) *event.GroupState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Find(st.phase, st.id)
}

// passOnHold pauses the running releases while the failure of a step holds the stack.
func (s *Stack) passOnHold(before event.Status, e event.Event) {
	c := event.Command{ID: event.InternalID}
	switch {
	case e.Kind != event.KindRun || before == e.Status:
		return
	case e.Status == event.Held:
		c.Name, c.Reason = event.Pause, e.Message
	case before == event.Held && e.Status == event.Running:
		c.Name = event.Resume
	default:
		return
	}
	s.sendToRunning(c, nil)
}

// decidesOnStep sends a decision about failures to the stack's own engine if a step holds that, unless the decision is about a
// release. A step that is accepted counts as done: nothing in the cluster says whether it is.
func (s *Stack) decidesOnStep(c event.Command) bool {
	s.mu.Lock()
	held := s.state.Run == event.Held
	s.mu.Unlock()
	switch {
	case !held && s.findStep(c.Group) == nil, s.byID[c.Group] != nil:
		return false
	case c.Name == event.Accept:
		accepted := c.Accepted
		c.Accepted = func() {
			if accepted != nil {
				accepted()
			}
			s.skipSteps(c)
		}
	}
	s.engine.Command(c)
	return true
}

// skipSteps reports the steps that a command has accepted as done.
func (s *Stack) skipSteps(c event.Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.steps {
		if g := s.state.Find(st.phase, st.id); g != nil && g.Code == event.Rechecking && g.Status == event.Running {
			status := event.Ready
			if st.phase == phaseRemove { // which waits until its objects are gone
				status = event.Gone
			}
			st.report(run.Observation{Object: st.object(), Status: status, Message: phrase.SkippedStep(c.Reason)})
		}
	}
}
