package event

import (
	"slices"
	"time"

	"lockstep/engine/plan"
)

// State is the state of an operation after a sequence of events. Only Apply changes it. The
// screen, the reports, the exit code and the summary all use it. The zero value is ready to
// use.
type State struct {
	Operation Operation
	// Status is that of the operation: Running, RollingBack, Succeeded,
	// Failed or Aborted; empty before the first event.
	Status  Status
	Message string
	// Root is the object that made the operation fail, Cause and Evidence are why,
	// once it has ended.
	Root     *plan.Object
	Cause    string
	Evidence []string
	Exit     int
	// Outcome is what happened to the release, in words; Unchecked is as Event has
	// it.
	Outcome   string
	Unchecked int
	// Release is what the record of the release says in the end, as Event has
	// it.
	Release string
	// Run is that of the run: Running, Paused, Held, Replacing or Aborting.
	Run        Status
	RunMessage string

	Started, Ended time.Time
	// Now is the time of the last event.
	Now time.Time
	// Seq is the number of the last event.
	Seq uint64

	Phases      []*PhaseState
	Breakpoints map[Unit]bool // those that there are, and whether they stop (R42)
	Warnings    []Event
	// Waiting is the last heartbeat, Answer the last answer to a command.
	Waiting, Answer Event
	// Away is since when the API server has not answered, zero while it does,
	// and AwayMessage what was told of that (R53).
	Away        time.Time
	AwayMessage string
	Notes       []string
	// Scopes are the states of a stack's releases that have started, by Event.Scope.
	Scopes map[string]*State
	fixTracker

	idle   stopwatch // runs while the operation is paused or held
	frozen stopwatch // runs while no readiness timeout does: also in an outage
	groups map[Unit]*GroupState
}

// Apply draws one event into the picture.
func (s *State) Apply(e Event) {
	if e.Kind == KindManifest {
		return // it tells nothing that happens
	}
	if s.Started.IsZero() {
		s.Started = e.Time
	}
	s.Now, s.Seq = e.Time, e.Seq
	if e.Scope != "" {
		s.scope(e.Scope).Apply(e.unscoped())
		return
	}
	switch e.Kind {
	case KindOperation:
		s.applyOperation(e)
	case KindPlan:
		for _, p := range e.Phases {
			s.addPhase(p)
		}
	case KindRun:
		s.applyRun(e)
	case KindGroup:
		s.applyGroup(e)
	case KindObject:
		s.applyObject(e)
	case KindDiagnosis:
		if o := s.object(e); o != nil {
			o.Diagnosis, o.Degraded = e.Lines, e.Status == Degraded
			o.explain(e)
		}
	case KindLog:
		if o := s.object(e); o != nil {
			o.Log = append(o.Log, e.Lines...)
		}
	case KindBreakpoint:
		s.applyBreakpoint(e)
	case KindWarning:
		s.Warnings = append(s.Warnings, e)
	case KindWaiting:
		s.Waiting = e
		s.object(e).renew(e)
	case KindServer:
		s.Away, s.AwayMessage = e.Since, ""
		if e.Status == Away {
			s.AwayMessage = e.Message
		}
		s.setClocks(e.Time)
	case KindCommand:
		s.Answer = e
		s.fixTracker.command(e)
	case KindNotes:
		s.Notes = e.Lines
	}
}

// scope returns the state of a release of a stack.
func (s *State) scope(name string) *State {
	if s.Scopes == nil {
		s.Scopes = map[string]*State{}
	}
	if s.Scopes[name] == nil {
		s.Scopes[name] = &State{}
	}
	return s.Scopes[name]
}

// unscoped returns the event as that of an operation of its own.
func (e Event) unscoped() Event {
	e.Scope = ""
	return e
}

func (s *State) applyOperation(e Event) {
	if s.Status != "" && e.Status == Running && !s.Operation.Watches() { // an edited revision begins (R46)
		s.fixTracker.replace(s.groups)
		s.Phases, s.groups, s.Breakpoints, s.Waiting = nil, nil, nil, Event{}
	}
	if s.Status == "" { // of a stack's release, only the plan has come before
		s.Started = e.Time
	}
	s.Status, s.Message = e.Status, e.Message
	s.Root, s.Cause, s.Evidence = e.Object, e.Cause, e.Evidence
	if e.Operation != nil && e.Status != RollingBack {
		s.Operation = *e.Operation
	}
	switch e.Status {
	case Running, RollingBack:
		s.setRun(e.Time, Running, "")
	default:
		if e.Status == Succeeded {
			s.fixTracker.succeed(e.Time)
		}
		s.Ended, s.Away, s.AwayMessage = e.Time, time.Time{}, ""
		s.setRun(e.Time, Running, "")
	}
	if e.Exit != nil {
		s.Exit, s.Outcome, s.Release, s.Unchecked = *e.Exit, e.Outcome, e.Release, e.Unchecked
	}
}

// Ending returns the status by which the outcome is shown: Applied where an operation has
// succeeded and nobody has seen all of its groups ready (R21), else Status.
func (s *State) Ending() Status { return Ending(s.Status, s.Unchecked) }

// Ending returns the status by which an outcome is shown, see State.
func Ending(status Status, unchecked int) Status {
	if status == Succeeded && unchecked > 0 {
		return Applied
	}
	return status
}

// applyRun also forgets a refusal: it was about the state that has ended.
func (s *State) applyRun(e Event) {
	s.setRun(e.Time, e.Status, e.Message)
	if s.Answer.Status == Refused {
		s.Answer = Event{}
	}
}

func (s *State) setRun(at time.Time, run Status, message string) {
	s.Run, s.RunMessage = run, message
	s.setClocks(at)
}

func (s *State) setClocks(at time.Time) {
	stands := s.Run == Paused || s.Run == Held
	s.idle.run(stands, at)
	s.frozen.run(stands || !s.Away.IsZero(), at)
}

func (s *State) applyBreakpoint(e Event) {
	if s.Breakpoints == nil {
		s.Breakpoints = map[Unit]bool{}
	}
	if e.Status == Cleared {
		delete(s.Breakpoints, e.Unit())
	} else {
		s.Breakpoints[e.Unit()] = e.Status == Set
	}
}

// Breaks reports whether there is a breakpoint on a unit, be it disabled.
func (s *State) Breaks(u Unit) bool {
	_, ok := s.Breakpoints[u]
	_, old := s.Breakpoints[Unit{Group: u.Group}]
	return ok || old
}

// Stops reports whether a breakpoint stops before a unit. Records from before
// breakpoints had phases name the group alone.
func (s *State) Stops(u Unit) bool { return s.Breakpoints[u] || s.Breakpoints[Unit{Group: u.Group}] }

// Active returns how long the operation has run at the given time, without the
// time it was paused or held (R25).
func (s *State) Active(now time.Time) time.Duration {
	if s.Started.IsZero() {
		return 0
	}
	if !s.Ended.IsZero() {
		now = s.Ended
	}
	return max(now.Sub(s.Started)-s.idle.read(now), 0)
}

// TimeLeft returns how long an object of the chart may still be in progress before
// --readiness-timeout fails it (R25). ok is false if nothing limits it.
func (s *State) TimeLeft(g *GroupState, o *ObjectState, now time.Time) (left time.Duration, ok bool) {
	limit := s.Operation.ReadinessTimeout
	inChart := slices.ContainsFunc(s.Phases, func(p *PhaseState) bool { return p.Name == g.Phase && p.Kind == PhaseApply })
	if limit <= 0 || !inChart || !s.Ended.IsZero() || g.Status != Running || o.Status != InProgress || o.Answered.IsZero() || s.Run == Aborting || !s.frozen.since.IsZero() {
		return 0, false
	}
	return max(limit-(now.Sub(o.Answered)-(s.frozen.read(now)-o.frozen)), 0), true
}

// stopwatch adds up the times between its starts and stops.
type stopwatch struct {
	total time.Duration // before since
	since time.Time     // zero while it is stopped
}

func (w *stopwatch) run(on bool, at time.Time) {
	if on == !w.since.IsZero() {
		return
	}
	w.total, w.since = w.read(at), time.Time{}
	if on {
		w.since = at
	}
}

func (w stopwatch) read(now time.Time) time.Duration {
	if w.since.IsZero() {
		return w.total
	}
	return w.total + now.Sub(w.since)
}

// Groups returns those of all phases, in the order of the plan.
func (s *State) Groups() (all []*plan.Group) {
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			all = append(all, g.Group)
		}
	}
	return all
}

// Find returns the group of a phase, or nil.
func (s *State) Find(phase, id string) *GroupState { return s.groups[Unit{phase, id}] }

// Counts says how many objects of all phases there are and in what state.
type Counts struct{ Total, Done, Active, Failed, Waiting int }

// Count adds up the objects of all phases.
func (s *State) Count() Counts {
	var c Counts
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			c.Total += len(g.Objects)
			for _, o := range g.Objects {
				switch o.Status {
				case Ready, Gone:
					c.Done++
				case Waiting:
					c.Waiting++
				case Failed:
					c.Failed++
				default:
					c.Active++
				}
			}
		}
	}
	return c
}
