package run

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// scenario is one run of the model test: the plan, the behaviour of objects, and the
// commands with their times. Times are in milliseconds.
type scenario struct {
	Phases      []phaseSpec
	Commands    []commandSpec `json:",omitempty"`
	Outages     []outageSpec  `json:",omitempty"` // one after the other
	Breakpoints []string      `json:",omitempty"`
	Hold        bool          `json:",omitempty"`
	Paused      bool          `json:",omitempty"`
	Rollback    bool          `json:",omitempty"` // a failure is rolled back
	Parallel    int           `json:",omitempty"`
	Groups      int           `json:",omitempty"`
	Timeout     int           `json:",omitempty"`
	Readiness   int           `json:",omitempty"`
	FirstStatus int           `json:",omitempty"` // how long custom objects wait for a first status
	Diagnosis   int           `json:",omitempty"` // duration of a diagnosis; 0 for no diagnoses
	Finalize    int           `json:",omitempty"` // duration of the final write of the release record
	Confirm     bool          `json:",omitempty"` // at the end, all groups must be ready at the same time (R21)
	Hasty       bool          `json:",omitempty"` // the caller does not wait for a stage after a stop, as with Helm's action
}

type phaseSpec struct {
	Name    string
	Kind    event.PhaseKind
	Lenient bool `json:",omitempty"` // a lenient removal
	Groups  []groupSpec
}

type groupSpec struct {
	Name    string
	After   []string      `json:",omitempty"`
	Leaf    bool          `json:",omitempty"` // it is not awaited
	Objects []objectSpec  `json:",omitempty"`
	Outside []outsideSpec `json:",omitempty"`
	// NoReturn makes it a point of no return (R33a).
	NoReturn bool `json:",omitempty"`
}

// outsideSpec is an object from outside the release (R22d). Until the first change it does not exist.
type outsideSpec struct {
	Name    string
	Changes []outsideChange `json:",omitempty"`
}

// outsideChange is a change of the object's status, from the start of the run.
type outsideChange struct {
	At     int
	Status string // a key of results
}

// objectSpec is an object with its behaviour when it is applied or removed.
type objectSpec struct {
	Name    string
	Kind    int  // index into kinds; a group's objects are sorted by it
	Request int  `json:",omitempty"` // until the response
	Hang    bool `json:",omitempty"` // no response until it is cancelled
	Denied  bool `json:",omitempty"`
	Result  string
	After   int  `json:",omitempty"` // from the response until Result
	Times   int  `json:",omitempty"` // number of attempts with this outcome, 0 for all
	Stale   bool `json:",omitempty"` // an outdated status says ready
	Custom  bool `json:",omitempty"` // a controller writes its status (R22a)
	Speaks  int  `json:",omitempty"` // from Result until the controller of a custom object writes its status, 0 for never
	Blocked int  `json:",omitempty"` // the first apply finds an object of the same name, gone after this; -1 for never
	Fixed   int  `json:",omitempty"` // from the failure until somebody else fixes it; 0 for never
	// Breaks is how long the object is ready until its status is Broken, 0 for ever. It heals after Heals, 0 for never.
	Breaks, Heals int    `json:",omitempty"`
	Broken        string `json:",omitempty"`
	// Restarts is how long after its Result a container of the object restarts, 0 for never (R22c).
	Restarts int `json:",omitempty"`
}

type commandSpec struct {
	At      int
	Command event.Command
}

type outageSpec struct{ At, For int }

var kinds = []string{"Namespace", "ServiceAccount", "Secret", "ConfigMap", "Service", "Pod", "Deployment", "Job"}

func (s scenario) String() string {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// newScenario returns a random scenario.
func newScenario(seed uint64) scenario {
	r := rand.New(rand.NewPCG(seed, 8))
	s := scenario{
		Hold: r.IntN(3) > 0, Paused: r.IntN(4) == 0, Rollback: r.IntN(3) == 0, Parallel: []int{1, 2, 32}[r.IntN(3)],
		Hasty: seed%3 == 0, Finalize: r.IntN(3) * 10, Readiness: []int{0, 40, 100}[r.IntN(3)], Timeout: []int{0, 0, 60, 300}[r.IntN(4)],
		Groups: []int{0, 0, 0, 1, 2}[seed%5],
	}
	if r.IntN(3) == 0 {
		s.Phases = append(s.Phases, hookPhase(r))
	}
	apply := applyPhase(r)
	s.Phases = append(s.Phases, apply)
	if r.IntN(3) == 0 { // the removal has the ids of the applied groups
		s.Phases = append(s.Phases, reversed(apply, "remove", r))
	}
	for range r.IntN(6) {
		s.Commands = append(s.Commands, randomCommand(r, s))
	}
	if r.IntN(3) == 0 { // somebody handles failures
		s.Hold = true
		for range 3 {
			names := []event.CommandName{event.GiveUp, event.Retry, event.Retry, event.Accept}
			s.Commands = append(s.Commands, commandSpec{At: r.IntN(30) * 5, Command: event.Command{Name: names[r.IntN(len(names))]}})
		}
	}
	if r.IntN(4) == 0 {
		s.Diagnosis = 1 + r.IntN(60)
	}
	slices.SortStableFunc(s.Commands, func(a, b commandSpec) int { return a.At - b.At })
	if r.IntN(5) == 0 {
		s.Breakpoints = []string{"c:" + apply.Groups[r.IntN(len(apply.Groups))].Name}
	}
	for at := 0; r.IntN(3) == 0; {
		o := outageSpec{At: at + r.IntN(12)*10, For: []int{5, 30, 80, 4000}[r.IntN(4)]}
		s.Outages = append(s.Outages, o)
		at = o.At + o.For + 10
	}
	s.addBreaks(rand.New(rand.NewPCG(seed, 21)), apply.Name)
	s.addRestarts(rand.New(rand.NewPCG(seed, 23)), apply.Name)
	s.addCustom(rand.New(rand.NewPCG(seed, 22)), apply.Name)
	s.addOutside(rand.New(rand.NewPCG(seed, 23)), apply.Name)
	s.addNoReturn(rand.New(rand.NewPCG(seed, 24)), apply.Name)
	return s
}

// noWayBack is the reason of all points of no return.
const noWayBack = "the old version cannot read it"

// addNoReturn makes a group of a phase a point of no return, and lets some of the commands that roll back give its reason.
func (s *scenario) addNoReturn(r *rand.Rand, phase string) {
	if r.IntN(3) > 0 {
		return
	}
	for _, p := range s.Phases {
		if p.Name == phase {
			p.Groups[r.IntN(len(p.Groups))].NoReturn = true
		}
	}
	for n := range s.Commands {
		if c := &s.Commands[n].Command; c.Name == event.Rollback && r.IntN(2) == 0 {
			c.PastNoReturn = noWayBack
		}
	}
}

// addRestarts makes containers of objects of a phase restart, before or after the objects are ready.
func (s *scenario) addRestarts(r *rand.Rand, phase string) {
	if r.IntN(4) > 0 {
		return
	}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			for i := range g.Objects {
				if p.Name == phase && r.IntN(4) == 0 {
					g.Objects[i].Restarts = 1 + r.IntN(8)*10
				}
			}
		}
	}
}

// addBreaks makes objects of a phase break after they are ready.
func (s *scenario) addBreaks(r *rand.Rand, phase string) {
	if r.IntN(2) == 0 || s.Phases[len(s.Phases)-1].Name != phase { // else a removal deletes them
		return
	}
	s.Confirm = true
	for _, g := range s.Phases[len(s.Phases)-1].Groups {
		for n := range g.Objects {
			if o := &g.Objects[n]; r.IntN(3) == 0 {
				o.Breaks, o.Broken = 1+r.IntN(8)*10, []string{"failed", "never", "never", "gone"}[r.IntN(4)]
				o.Heals = r.IntN(3) * 30
			}
		}
	}
}

// addCustom makes some objects of a phase custom ones.
func (s *scenario) addCustom(r *rand.Rand, phase string) {
	s.FirstStatus = []int{0, 15, 50}[r.IntN(3)]
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			for n := range g.Objects {
				if p.Name == phase && r.IntN(4) == 0 {
					g.Objects[n].Custom, g.Objects[n].Speaks = true, r.IntN(4)*20
				}
			}
		}
	}
}

// addOutside makes some groups of a phase wait for objects from outside the release.
func (s *scenario) addOutside(r *rand.Rand, phase string) {
	if r.IntN(3) > 0 {
		return
	}
	for _, p := range s.Phases {
		for n := range p.Groups {
			for m := range []int{0, 1, 1, 2}[r.IntN(4)] {
				if p.Name != phase {
					continue
				}
				o := outsideSpec{Name: fmt.Sprint("out-", p.Groups[n].Name, m)}
				for at := r.IntN(2) * r.IntN(12) * 10; r.IntN(5) > 0; at += 5 + r.IntN(8)*10 {
					o.Changes = append(o.Changes, outsideChange{at, []string{"ready", "ready", "ready", "ready", "never", "failed", "gone"}[r.IntN(7)]})
				}
				p.Groups[n].Outside = append(p.Groups[n].Outside, o)
			}
		}
	}
}

func hookPhase(r *rand.Rand) phaseSpec {
	p := phaseSpec{Name: "pre-install", Kind: event.PhaseHooks}
	for n := range 1 + r.IntN(2) {
		g := groupSpec{Name: fmt.Sprint("h", n), Objects: []objectSpec{randomObject(r, fmt.Sprint("h", n), 7)}}
		if n > 0 {
			g.After = []string{fmt.Sprint("h", n-1)}
		}
		p.Groups = append(p.Groups, g)
	}
	return p
}

func applyPhase(r *rand.Rand) phaseSpec {
	p := phaseSpec{Name: "apply", Kind: event.PhaseApply}
	for n := range 1 + r.IntN(4) {
		g := groupSpec{Name: string(rune('a' + n))}
		for m := range n {
			if r.IntN(5) < 2 {
				g.After = append(g.After, p.Groups[m].Name)
			}
		}
		kind := r.IntN(4)
		for m := range []int{0, 1, 1, 1, 2, 2, 3}[r.IntN(7)] {
			g.Objects = append(g.Objects, randomObject(r, fmt.Sprint(g.Name, m), kind))
			kind = min(kind+r.IntN(3), len(kinds)-1)
		}
		p.Groups = append(p.Groups, g)
	}
	for n := range p.Groups { // some leaves are not awaited (R21)
		dependency := slices.ContainsFunc(p.Groups, func(g groupSpec) bool { return slices.Contains(g.After, p.Groups[n].Name) })
		p.Groups[n].Leaf = !dependency && r.IntN(2) == 0
	}
	return p
}

func randomObject(r *rand.Rand, name string, kind int) objectSpec {
	o := objectSpec{Name: name, Kind: kind, Request: r.IntN(4) * 10, Result: "ready", After: r.IntN(4) * 10, Stale: r.IntN(4) == 0}
	switch r.IntN(10) {
	case 0, 1:
		o.Result = "failed"
	case 2:
		o.Result = "never"
	case 3:
		o.Denied = true
	case 4:
		o.Hang = r.IntN(3) == 0
	case 5:
		o.After = 80
	}
	o.Times = r.IntN(3)
	if r.IntN(8) == 0 {
		o.Blocked = []int{5, 30, 70, -1}[r.IntN(4)]
	}
	if r.IntN(2) == 0 {
		o.Fixed = 10 + r.IntN(5)*10
	}
	return o
}

// reversed is the removal of a phase.
func reversed(p phaseSpec, name string, r *rand.Rand) phaseSpec {
	back := phaseSpec{Name: name, Kind: event.PhaseRemove, Lenient: r != nil && r.IntN(2) == 0}
	for n, g := range p.Groups {
		rev := groupSpec{Name: g.Name}
		for _, later := range p.Groups[n+1:] {
			if slices.Contains(later.After, g.Name) {
				rev.After = append(rev.After, later.Name)
			}
		}
		for _, o := range slices.Backward(g.Objects) {
			o = objectSpec{Name: o.Name, Kind: o.Kind, Result: "gone", Request: o.Request, After: o.After, Times: o.Times}
			if r != nil && r.IntN(6) == 0 {
				o.Denied = true
			}
			if back.Lenient && r.IntN(4) == 0 {
				o.Result, o.Times = "deleting", 0
			}
			rev.Objects = append(rev.Objects, o)
		}
		back.Groups = append(back.Groups, rev)
	}
	return back
}

func randomCommand(r *rand.Rand, s scenario) commandSpec {
	names := []event.CommandName{
		event.Pause, event.Pause, event.Resume, event.Resume, event.Step, event.Step, event.Break, event.Break, event.RunTo, event.RunTo, event.Disable,
		event.Accept, event.Accept, event.Retry, event.Retry, event.Retry, event.GiveUp, event.GiveUp, event.Abort, event.Rollback, event.Stop,
		event.Edit, event.Edit,
	}
	c := event.Command{Name: names[r.IntN(len(names))]}
	switch c.Name {
	case event.Edit:
		c.Edit = 1
	case event.Abort, event.Rollback, event.Stop:
		c.KnowsRollback = r.IntN(2) == 0
	case event.Break, event.RunTo, event.Disable, event.Accept, event.Retry, event.GiveUp, event.Step:
		if c.Name == event.Break || c.Name == event.RunTo || c.Name == event.Disable || r.IntN(2) == 0 {
			p := s.Phases[r.IntN(len(s.Phases))]
			c.Phase, c.Group = p.Name, "c:"+p.Groups[r.IntN(len(p.Groups))].Name
			if r.IntN(4) == 0 {
				c.Phase = ""
			}
		}
	}
	return commandSpec{At: r.IntN(24) * 10, Command: c}
}

// phases are the phases for the engine.
func (s scenario) phases() (out []event.Phase) {
	for _, p := range s.Phases {
		out = append(out, p.phase())
	}
	return out
}

// phase is the phase for the engine.
func (p phaseSpec) phase() event.Phase {
	out := event.Phase{Name: p.Name, Kind: p.Kind}
	for _, g := range p.Groups {
		pg := &plan.Group{ID: "c:" + g.Name, Chart: "c", Name: g.Name, After: []string{}}
		for _, a := range g.After {
			pg.After = append(pg.After, "c:"+a)
		}
		if g.NoReturn {
			pg.NoReturn = noWayBack
		}
		for _, o := range g.Outside {
			pg.WaitFor = append(pg.WaitFor, plan.Object{Kind: "Secret", Name: o.Name})
		}
		for n, o := range g.Objects {
			pg.Objects = append(pg.Objects, plan.Object{Kind: kinds[o.Kind], Name: o.Name})
			if n > 0 && g.Objects[n-1].Kind == o.Kind {
				pg.Waves[len(pg.Waves)-1].Count++
			} else {
				pg.Waves = append(pg.Waves, plan.Wave{Count: 1})
			}
		}
		out.Groups = append(out.Groups, pg)
	}
	return out
}

func (p phaseSpec) await(g *plan.Group) bool {
	return !slices.ContainsFunc(p.Groups, func(s groupSpec) bool { return s.Name == g.Name && s.Leaf })
}

func (p phaseSpec) spec(o plan.Object) objectSpec {
	for _, g := range p.Groups {
		for _, s := range g.Objects {
			if s.Name == o.Name {
				return s
			}
		}
	}
	return objectSpec{}
}

// smaller yields scenarios that are slightly smaller than s, the largest reductions first.
func (s scenario) smaller(yield func(scenario) bool) {
	clone := func() scenario {
		var c scenario
		text, _ := json.Marshal(s)
		_ = json.Unmarshal(text, &c)
		return c
	}
	try := func(change func(*scenario)) bool {
		c := clone()
		change(&c)
		return c.String() == s.String() || yield(c)
	}
	for p := range s.Phases {
		if len(s.Phases) > 1 && !try(func(c *scenario) { c.Phases = slices.Delete(c.Phases, p, p+1) }) {
			return
		}
		for g := range s.Phases[p].Groups {
			if len(s.Phases[p].Groups) > 1 && !try(func(c *scenario) { c.Phases[p].drop(g) }) {
				return
			}
			for o := range s.Phases[p].Groups[g].Outside {
				if !try(func(c *scenario) {
					c.Phases[p].Groups[g].Outside = slices.Delete(c.Phases[p].Groups[g].Outside, o, o+1)
				}) {
					return
				}
			}
			for o := range s.Phases[p].Groups[g].Objects {
				objects := func(c *scenario) *[]objectSpec { return &c.Phases[p].Groups[g].Objects }
				if !try(func(c *scenario) { *objects(c) = slices.Delete(*objects(c), o, o+1) }) ||
					!try(func(c *scenario) {
						was := (*objects(c))[o]
						(*objects(c))[o] = objectSpec{Name: was.Name, Kind: was.Kind, Result: map[bool]string{true: "gone", false: "ready"}[c.Phases[p].Kind == event.PhaseRemove]}
					}) {
					return
				}
			}
		}
	}
	for n := range s.Commands {
		if !try(func(c *scenario) { c.Commands = slices.Delete(c.Commands, n, n+1) }) {
			return
		}
	}
	for n := range s.Outages {
		if !try(func(c *scenario) { c.Outages = slices.Delete(c.Outages, n, n+1) }) {
			return
		}
	}
	for _, change := range []func(*scenario){
		func(c *scenario) { c.Breakpoints = nil }, func(c *scenario) { c.Paused = false }, func(c *scenario) { c.Rollback = false },
		func(c *scenario) { c.Hold = false }, func(c *scenario) { c.Parallel = 32 }, func(c *scenario) { c.Groups = 0 }, func(c *scenario) { c.Timeout = 0 },
		func(c *scenario) { c.Diagnosis = 0 },
		func(c *scenario) { c.FirstStatus = 0 }, func(c *scenario) { c.Readiness = 0 }, func(c *scenario) { c.Finalize = 0 }, func(c *scenario) { c.Hasty = false },
		func(c *scenario) { c.Confirm = false },
	} {
		if !try(change) {
			return
		}
	}
}

func (p *phaseSpec) drop(n int) {
	name := p.Groups[n].Name
	p.Groups = slices.Delete(p.Groups, n, n+1)
	for g := range p.Groups {
		p.Groups[g].After = slices.DeleteFunc(p.Groups[g].After, func(a string) bool { return a == name })
	}
}

// shrink returns the smallest scenario it finds for which fails is true.
func shrink(s scenario, fails func(scenario) bool) scenario {
	for tries := 0; tries < 5000; {
		found := false
		for c := range s.smaller {
			if tries++; fails(c) {
				s, found = c, true
				break
			}
		}
		if !found {
			break
		}
	}
	return s
}
