package run

import (
	"errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// operator performs a scenario as kube performs an operation: phase by phase, then a final
// state, or a rollback if a phase failed or was aborted.
type operator interface {
	announce(p phaseSpec)
	admit(p phaseSpec, g *plan.Group) error
	stage(p phaseSpec, groups event.Phase) error
	confirm(last phaseSpec) error
	endingCommand() *event.Command
	rollback() error
	startEditedRevision() error
	finish(End) error
	sleep(ms int)
}

func operate(s scenario, x operator) {
	for _, p := range s.Phases {
		x.announce(p)
	}
	err := runPhases(s.Phases, x)
	if err == nil && s.Confirm {
		err = x.confirm(s.Phases[len(s.Phases)-1])
	}
	if err == nil {
		x.sleep(s.Finalize)
		err = x.finish(End{Status: event.Succeeded})
	}
	for err != nil {
		err = conclude(s, x)
	}
}

func runPhases(phases []phaseSpec, x operator) error {
	for _, p := range phases {
		def := p.phase()
		if p.Kind != event.PhaseHooks {
			if err := x.stage(p, def); err != nil {
				return err
			}
			continue
		}
		for _, g := range def.Groups {
			if err := x.admit(p, g); err != nil {
				return err
			}
			one := def
			one.Groups = []*plan.Group{g}
			if err := x.stage(p, one); err != nil {
				return err
			}
		}
	}
	return nil
}

func conclude(s scenario, x operator) error {
	ending := x.endingCommand()
	x.sleep(s.Finalize)
	if ending != nil && ending.Name == event.Edit {
		if err := x.startEditedRevision(); err != nil {
			return err
		}
		if err := runPhases(s.Phases, x); err != nil {
			return err
		}
		if s.Confirm {
			if err := x.confirm(s.Phases[len(s.Phases)-1]); err != nil {
				return err
			}
		}
		x.sleep(s.Finalize)
		return x.finish(End{Status: event.Succeeded})
	}
	end := End{Status: event.Failed, Exit: 1}
	if ending != nil {
		end = End{Status: event.Aborted, Exit: 3}
	}
	if ending == nil && !s.Rollback || ending != nil && ending.Name != event.Rollback {
		return x.finish(end)
	}
	switch err := x.rollback(); {
	case errors.Is(err, ErrNoReturn):
		return x.finish(end)
	case err != nil:
		return err
	}
	var back []phaseSpec
	for _, p := range s.Phases {
		if p.Kind == event.PhaseApply {
			back = append(back, reversed(p, "rollback/remove", nil))
			x.announce(back[0])
		}
	}
	_ = runPhases(back, x)
	x.sleep(s.Finalize)
	if x.finish(end) != nil {
		return x.finish(End{Status: event.Aborted, Exit: 3})
	}
	return nil
}

// world is the behaviour of the objects of a scenario, attempt by attempt.
type world struct {
	version uint64
	tries   map[string]int
}

// attempt returns the outcome of the next request for the object.
func (w *world) attempt(p phaseSpec, o objectSpec) objectSpec {
	if w.tries == nil {
		w.tries, w.version = map[string]int{}, 100
	}
	key := string(p.Kind) + o.Name
	w.tries[key]++
	if o.Times > 0 && w.tries[key] > o.Times {
		o.Hang, o.Denied, o.Result, o.Fixed = false, false, p.goal(), 0
	}
	return o
}

func (p phaseSpec) goal() string {
	if p.Kind == event.PhaseRemove {
		return "gone"
	}
	return "ready"
}

func (w *world) next() uint64 { w.version++; return w.version }

var errRefused = errors.New("the API server refuses it")
