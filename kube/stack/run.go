package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/engine/text"
	"lockstep/kube/lease"
	"lockstep/kube/operation"
)

// Run runs the operations of all releases to the end and returns why they failed. The closing event has the exit code.
func (s *Stack) Run() error {
	defer s.Close()
	kept, outdated := s.keptSteering()
	eng := s.start(kept)
	for _, w := range slices.Concat(s.warnings, outdated) {
		eng.Publish(event.WarningEvent(w))
	}
	for _, m := range s.members {
		if m.op != nil && !m.unchanged {
			eng.Publish(m.planEvent(m.op))
		}
	}
	for _, m := range s.members {
		m.client.CacheKinds()
	}
	phases := s.Phases()
	eng.Announce(phases...)
	if ended, err := s.continueEnding(); ended {
		return err
	}
	if err := s.keepStarts(); err != nil {
		return s.fail(err)
	}
	for _, phase := range phases {
		if err := eng.Run(s.stage(phase)); err != nil {
			return s.fail(err)
		}
	}
	if err := s.lookAgain(); err != nil {
		return s.fail(err)
	}
	ctx, cancel := s.recordContext()
	defer cancel()
	results := s.results(ctx)
	if err := s.failedResults(results); err != nil {
		return s.fail(err)
	}
	s.tidyJobs()
	noStatus, notAwaited := s.counts()
	if err := eng.Finish(run.End{Status: event.Succeeded, Results: results, NoStatus: noStatus, NotAwaited: notAwaited}); err != nil {
		return s.fail(err)
	}
	return nil
}

// planEvent announces what will happen to a release.
func (m *member) planEvent(op *operation.Operation) event.Event {
	info := op.Info()
	return event.Event{Kind: event.KindPlan, Scope: m.id, Operation: &info, Phases: op.Phases()}
}

// start starts the engine as an earlier pod has kept it, nil for none, and sends it the queued commands.
func (s *Stack) start(kept *run.Steering) *run.Engine {
	s.feed.OnEvent = func(e event.Event) {
		if e.Scope == "" {
			s.mu.Lock()
			before := s.state.Run
			s.state.Apply(e)
			s.mu.Unlock()
			s.passOnHold(before, e)
			if e.Kind == event.KindNoReturn && e.Group != "" { // a hook has passed it
				s.passNoReturn(nil, e.Message)
			}
		}
	}
	eng := run.New(run.Options{
		Operation: s.info, Feed: &s.feed, MaxRequests: len(s.members) + len(s.steps), MaxGroups: max(0, s.opts.Concurrency),
		Paused: s.opts.Common.Step, HoldOnFailure: s.opts.Common.HoldOnFailure, Breakpoints: s.releaseBreakpoints(),
		NoReturn: s.passedEarlier(), PastNoReturn: s.opts.Common.PastNoReturn,
		Approve: s.approved, Author: lease.NewAuthor(s.opts.Common.Job).Name,
		Kept: kept, Keep: s.steeringKeeper(),
		BeforeEnd: s.unlockReleases,
	})
	s.mu.Lock()
	s.engine = eng
	queued := s.queued
	s.queued = nil
	s.mu.Unlock()
	for _, c := range queued {
		s.Command(c)
	}
	return eng
}

// Watch reports the progress of a release to the engine.
func (s *Stack) Watch(_ context.Context, g *plan.Group, report func(run.Observation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.findStep(g.ID); st != nil {
		st.report = report
		return
	}
	s.byID[g.ID].report = report
}

// Apply deploys a release, or rolls it back, and returns when its operation has ended. It skips an unchanged release that is
// ready.
//
// Rule S2: a release that needs another one starts when that one is deployed, all its groups are
// ready, and its post hooks are done.
func (s *Stack) Apply(ctx context.Context, g *plan.Group, o plan.Object) (run.Response, error) {
	if st := s.findStep(g.ID); st != nil {
		return s.runStep(ctx, st, o)
	}
	m := s.byID[g.ID]
	if s.isRollingBack() {
		return s.rollBackRelease(m, phaseRollback, o, event.Ready)
	}
	if s.isUnchanged(m) && !s.needsReplan(m) {
		return s.pass(m, o)
	}
	if err := s.checkNeeds(m, phaseReleases); err != nil {
		return run.Response{}, err
	}
	planned := s.plannedOperation(m)
	op, err := s.freshOperation(m)
	if err != nil {
		return run.Response{}, err
	}
	if s.isUnchanged(m) {
		return s.pass(m, o)
	}
	if err := errors.Join(s.checkAsked(m, g, planned, op), s.checkUnplanned(m)); err != nil {
		return run.Response{}, err
	}
	change := event.Configured
	if op.Info().Name == "install" {
		change = event.Created
	}
	if err := s.runOperation(m, phaseReleases, o, op); err != nil {
		return run.Response{}, err
	}
	m.observe(o, event.Ready, resultText(m.op.Info()))
	return run.Response{Change: change}, nil
}

// pass skips an unchanged release if it is ready.
func (s *Stack) pass(m *member, o plan.Object) (run.Response, error) {
	if err := s.check(m, phaseReleases, o); err != nil {
		return run.Response{}, err
	}
	s.mu.Lock()
	m.skipped = true
	s.mu.Unlock()
	if err := m.op.DeleteDeadLease(); err != nil {
		s.engine.Publish(event.Event{Kind: event.KindWarning, Scope: m.id, Rule: "R51", Message: err.Error()})
	}
	change, message := s.changeOfUnchanged(m)
	m.observe(o, event.Ready, message)
	s.stepPast()
	return run.Response{Change: change}, nil
}

// changeOfUnchanged returns what the run has done to a release that this pod found unchanged: an earlier pod of the Job may have
// deployed it (S13).
func (s *Stack) changeOfUnchanged(m *member) (event.Change, string) {
	start := s.opts.Journal.Entry(m.id).Before().Start
	if !m.changedEarlier() {
		return event.Unchanged, "unchanged"
	}
	change := event.Configured
	if start.Last == 0 {
		change = event.Created
	}
	return change, fmt.Sprintf("revision %d", m.op.LatestRevision())
}

// resultText describes the result of a successful operation.
func resultText(info event.Operation) string {
	if info.Name == "uninstall" {
		return "uninstalled"
	}
	return fmt.Sprintf("revision %d", info.Revision)
}

// Delete uninstalls a release.
func (s *Stack) Delete(ctx context.Context, g *plan.Group, o plan.Object) (run.Response, error) {
	if st := s.findStep(g.ID); st != nil {
		return s.runStep(ctx, st, o)
	}
	m := s.byID[g.ID]
	if s.isRollingBack() {
		return s.rollBackRelease(m, phaseUninstall, o, event.Gone)
	}
	if m.op == nil && s.goneEarlier(m) {
		m.observe(o, event.Gone, "")
		return run.Response{Change: event.Deleted}, nil
	}
	if m.op == nil {
		return run.Response{Change: event.Absent}, nil
	}
	if err := s.runOperation(m, phaseRemove, o, m.op); err != nil {
		return run.Response{}, err
	}
	m.observe(o, event.Gone, "")
	return run.Response{Change: event.Deleted}, nil
}

func (m *member) observe(o plan.Object, status event.Status, message string) {
	m.report(run.Observation{Object: o, Status: status, Message: message})
}

// runOperation runs an operation on a release and relays its events.
func (s *Stack) runOperation(m *member, phase string, o plan.Object, op *operation.Operation) error {
	s.operationStarted(m, op)
	err := drive(op, func(e event.Event) { s.relay(m, phase, o, e) })
	s.operationEnded(m, err)
	if err == nil {
		return nil
	}
	return s.explain(m, err)
}

// drive runs an operation, and calls on for each of its events.
func drive(op *operation.Operation, on func(event.Event)) error {
	reader := op.Feed().Reader()
	var relayed sync.WaitGroup
	relayed.Go(func() {
		for e := range reader.All(context.Background()) {
			on(e)
		}
	})
	err := op.Run() // closes its feed
	relayed.Wait()
	return err
}

// relay publishes an event of a release in the stack's feed, and reports the progress of the release to the engine.
func (s *Stack) relay(m *member, phase string, o plan.Object, e event.Event) {
	if e.Kind == event.KindCommand && e.Answers == event.InternalID {
		return // the stack publishes its own reply
	}
	e.Scope = m.id
	s.engine.Publish(e)
	e.Scope = ""
	s.mu.Lock()
	m.state.Apply(e)
	if e.Kind == event.KindOperation && e.Status == event.Succeeded {
		m.ended = e
	}
	progress, report := m.progress(), m.report
	diagnosis, changed := m.diagnosis(e)
	s.mu.Unlock()
	if e.Kind == event.KindGroup || e.Kind == event.KindRun || e.Kind == event.KindPlan || e.Kind == event.KindOperation {
		report(run.Observation{Object: o, Status: event.Applying, Message: progress})
	}
	switch {
	case e.Kind == event.KindNoReturn && e.Group != "":
		s.passNoReturn(m, e.Message)
	case e.Kind == event.KindRun:
		s.propagatePause(m, e)
	case changed:
		diagnosis.Phase, diagnosis.Group, diagnosis.Object = phase, m.id, &o
		s.engine.Publish(diagnosis)
	}
}

func (m *member) progress() string {
	all, done, failed := 0, 0, ""
	for g := range m.state.GroupStates() {
		all++
		switch g.Status {
		case event.Ready, event.Gone, event.Applied:
			done++
		case event.Failed:
			failed = g.ID + " failed; "
		}
	}
	progress := fmt.Sprintf("%s%d of %s done", failed, done, text.Count(all, "group"))
	switch {
	case m.state.Status == event.RollingBack:
		return "rolling back: " + progress
	case m.state.Run != event.Running && m.state.Run != "":
		return text.Join("; ", progress, m.state.InProgress())
	}
	return progress
}

func (s *Stack) isRollingBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rollingBack
}

// fail ends a failed or aborted run, with a rollback if asked to (R33).
//
// Rule S5: after a failure no further release starts, and running ones finish. Then the run
// fails, or rolls back everything that it changed.
func (s *Stack) fail(cause error) error {
	for {
		ending := s.engine.EndingCommand()
		end := run.End{Status: event.Failed, Exit: event.ExitFailed}
		if ending != nil {
			end.Status, end.Exit = event.Aborted, event.ExitAborted
			cause = operation.Aborted(ending, cause)
		}
		if ending == nil && !s.anyWritten() {
			end.Exit = event.ExitNothingWritten
		}
		rollBack := operation.ShouldRollBack(s.opts.Common, ending) && s.info.Name == "up" && len(s.toRollBack()) > 0
		barred := ""
		if rollBack {
			barred = s.engine.NoReturn()
		}
		var notKept error
		if ending == nil {
			notKept = operation.KeepFailure(s.engine, s.opts.Common, cause)
		}
		if rollBack && notKept == nil && barred == "" {
			err := s.rollBack(&end, cause)
			if errors.Is(err, run.ErrAborted) {
				continue
			}
			s.runFinally(cause)
			s.tidyJobs()
			s.engine.Close(end)
			return errors.Join(cause, err)
		}
		if ending == nil {
			s.runFinally(cause)
		}
		s.tidyJobs()
		end.Results = s.finalResults()
		if end.Outcome = outcomeOf(end.Results); s.rollingBackEarlier() || s.isRollingBack() {
			end.Outcome = rollbackOutcomeOf(end.Results)
		}
		switch {
		case barred != "":
			end.Outcome += "; " + phrase.NotRolledBack(barred)
		case rollBack:
			end.Outcome += "; " + notKept.Error()
		}
		end.Message = end.Outcome
		if ending != nil || !s.anyFailedGroup() {
			end.Message = messageOf(end.Outcome, cause)
		}
		if stage := (*run.StageError)(nil); ending == nil && errors.As(cause, &stage) && len(stage.Skipped) > 0 {
			end.Message += "; " + stage.SkippedNote()
		}
		if s.engine.Finish(end) == nil {
			return cause
		}
	}
}

// anyWritten reports whether the operation of any release may have written something.
func (s *Stack) anyWritten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ranStep || slices.ContainsFunc(s.members, func(m *member) bool { return m.started && !m.unwritten || m.changedEarlier() })
}

// anyFailedGroup reports whether a group failed, which then shows why the run failed.
func (s *Stack) anyFailedGroup() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.FailedGroups() > 0
}
