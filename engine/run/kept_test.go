package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// keptWorld is a cluster that outlives the processes of a run.
type keptWorld struct {
	version uint64
	applied map[string]bool
	ready   map[string]bool // also of objects that somebody else has fixed
	slow    map[string]bool // an applied object is ready only after "finish"
	bad     map[string]bool // its request is refused until "fix"
	writes  map[string]int
}

// keptRun is the current process of a run.
type keptRun struct {
	*keptWorld
	m       *machine
	kept    *Steering
	queue   []message
	watched map[string]*group
	over    bool
	// killAt is the number of keeps after which the process is killed, before any other effect; 0 for never.
	killAt, keeps int
	broken        bool // nothing can be kept
	holds         bool // failures hold the run
	onEffect      func()
	phase         event.Phase
	answers       []string
}

var (
	// keptPlan has parallel groups. Which of them fails first is a matter of time, so only the groups of keptChain fail.
	keptPlan  = keptPhase(nil, nil, []string{"a"}, []string{"a", "b"}, []string{"c"}, []string{"d", "e"})
	keptChain = keptPhase(nil, []string{"a"}, []string{"b"}, []string{"c"}, []string{"d"}, []string{"e"})
)

func keptPhase(needs ...[]string) (p event.Phase) {
	p = event.Phase{Name: "apply", Kind: event.PhaseApply}
	for n, after := range needs {
		id := string(rune('a' + n))
		p.Groups = append(p.Groups, &plan.Group{ID: id, Name: id, After: after, Objects: []plan.Object{{Kind: "ConfigMap", Name: id}}, Waves: []plan.Wave{{Count: 1}}})
	}
	return p
}

// start starts a process. It continues from what the one before it kept.
func (x *keptRun) start(flags Options) {
	flags.Operation = event.Operation{Name: "upgrade"}
	flags.HoldOnFailure = x.holds
	flags.Kept = nil
	if x.kept != nil {
		var kept Steering
		text, err := json.Marshal(*x.kept) // as in the cluster
		if err == nil {
			err = json.Unmarshal(text, &kept)
		}
		if err != nil {
			panic(err)
		}
		flags.Kept = &kept
	}
	flags.Keep = func(Steering) error { return nil }
	x.m, x.watched, x.queue = newMachine(flags, epoch), map[string]*group{}, nil
	x.perform(x.m.effects)
	x.handle(announced{[]event.Phase{x.phase}})
	x.handle(stageStarted{Stage{Phase: x.phase}, &StageRun{}})
}

// handle handles a message and all that follow from it. It reports whether the process was killed.
func (x *keptRun) handle(msg message) (killed bool) {
	x.queue = append(x.queue, msg)
	for len(x.queue) > 0 {
		msg, x.queue = x.queue[0], x.queue[1:]
		if x.perform(x.m.handle(epoch.Add(time.Second), msg)) {
			return true
		}
	}
	return false
}

func (x *keptRun) perform(effects []effect) (killed bool) {
	for _, eff := range slices.Clone(effects) {
		switch eff := eff.(type) {
		case keepSteering:
			if x.broken {
				defer func() {
					killed = killed || x.perform(x.m.handle(epoch.Add(time.Second), steeringKept{errors.New("no answer")}))
				}()
				break
			}
			x.kept = &eff.steering
			if x.keeps++; x.keeps == x.killAt {
				return true
			}
			defer func() { killed = killed || x.perform(x.m.handle(epoch.Add(time.Second), steeringKept{})) }()
		case publish:
			if e := eff.event; e.Kind == event.KindCommand {
				x.answers = append(x.answers, fmt.Sprint(e.Command, " ", e.Group, ": ", e.Status, " ", e.Message))
			}
		case sendRequest:
			x.request(eff.request)
		case startWatch:
			x.watched[eff.group.Group] = eff.group
			x.report(eff.group.Group)
		case endStage:
			x.over = true
		}
		if x.onEffect != nil {
			x.onEffect()
		}
	}
	return false
}

func (x *keptRun) request(r request) {
	name := r.object.Name
	if x.bad[name] {
		x.queue = append(x.queue, answered{r, Response{}, errors.New("refused")})
		return
	}
	x.version++
	change := event.Unchanged
	if !x.applied[name] {
		change = event.Created
		x.writes[name]++
	}
	x.applied[name] = true
	x.ready[name] = x.ready[name] || !x.slow[name]
	x.queue = append(x.queue, answered{r, Response{Change: change, Version: x.version}, nil})
	x.report(name)
}

// report reports the state of an object, if the process watches it.
func (x *keptRun) report(name string) {
	g := x.watched[name]
	if g == nil || !x.applied[name] && !x.ready[name] {
		return
	}
	status := event.InProgress
	if x.ready[name] {
		status = event.Ready
	}
	x.version++
	x.queue = append(x.queue, observed{g, Observation{Object: plan.Object{Kind: "ConfigMap", Name: name}, Status: status, Version: x.version}})
}

// act performs one action: a command, or a change of the world.
func (x *keptRun) act(a event.Command) (killed bool) {
	switch a.Name {
	case "finish":
		x.ready[a.Group] = x.ready[a.Group] || x.applied[a.Group]
		x.report(a.Group)
	case "fix": // a hold itself is not kept: the next process tries again
		x.bad[a.Group] = false
		return x.handle(commanded{event.Command{Name: event.Retry, Group: a.Group}})
	case "fixedByHand":
		x.bad[a.Group], x.ready[a.Group] = false, true
		x.report(a.Group)
		return x.handle(commanded{event.Command{Name: event.Accept, Group: a.Group}})
	default:
		return x.handle(commanded{a})
	}
	return x.handle(serverReachable{})
}

// state describes the run and the cluster when nothing is in flight.
func (x *keptRun) state() string {
	var s strings.Builder
	status, why := x.m.runStatus()
	fmt.Fprintf(&s, "%s (%s) over=%t step=%t\n", status, why, x.over, x.m.steering.step)
	for _, u := range x.m.units.all {
		fmt.Fprintf(&s, "%s %s breakpoint %d applied %t writes %d\n", u.Group, u.status, u.breakpoint, x.applied[u.Group], x.writes[u.Group])
	}
	return s.String()
}

func newKeptRun(r *rand.Rand) (x *keptRun, flags Options) {
	x = &keptRun{holds: true, keptWorld: &keptWorld{applied: map[string]bool{}, ready: map[string]bool{}, slow: map[string]bool{}, bad: map[string]bool{}, writes: map[string]int{}}}
	x.phase = keptPlan
	if chain := r.IntN(2) == 0; chain {
		x.phase = keptChain
	}
	for _, g := range x.phase.Groups {
		x.slow[g.ID], x.bad[g.ID] = r.IntN(3) == 0, len(x.phase.Groups[1].After) > 0 && r.IntN(3) == 0
	}
	flags.Paused = r.IntN(3) == 0
	if r.IntN(3) == 0 {
		flags.Breakpoints = []string{keptPlan.Groups[r.IntN(6)].ID}
	}
	return x, flags
}

func randomAction(r *rand.Rand) event.Command {
	group := keptPlan.Groups[r.IntN(6)].ID
	names := []event.CommandName{
		"finish", "finish", "finish", "finish", "fix", "fixedByHand", event.Pause, event.Pause, event.Resume, event.Resume, event.Step, event.Step, event.RunTo,
		event.Break, event.Break, event.Disable, event.Retry, event.Accept, event.GiveUp,
	}
	c := event.Command{Name: names[r.IntN(len(names))]}
	switch c.Name {
	case event.Pause, event.Resume, event.Retry, event.Accept, event.GiveUp:
	case event.Step:
		if r.IntN(2) == 0 {
			c.Group = group
		}
	default:
		c.Group = group
	}
	return c
}

// TestKeptSteering (S13): random commands, breakpoints and failures, and processes that are killed between any two
// messages, or right after a write: the process that continues is in the state of a run that nobody killed, has
// answered the same commands in the same way, and has written the same. A command that cannot be kept is refused and
// changes nothing.
func TestKeptSteering(t *testing.T) {
	runs := 3000
	if testing.Short() {
		runs = 300
	}
	kills, keeps, refused := 0, 0, 0
	for seed := range uint64(runs) {
		whole, flags := newKeptRun(rand.New(rand.NewPCG(seed, 1)))
		parts, _ := newKeptRun(rand.New(rand.NewPCG(seed, 1)))
		r := rand.New(rand.NewPCG(seed, 2))
		whole.start(flags)
		parts.start(flags)
		var log []string
		for range 14 {
			a := randomAction(r)
			log = append(log, fmt.Sprint(a.Name, " ", a.Group))
			before := whole.keeps
			whole.act(a)
			if r.IntN(3) == 0 {
				parts.killAt = parts.keeps + max(1, whole.keeps-before)
				if len(parts.phase.Groups[1].After) > 0 && r.IntN(2) == 0 { // a chain: there is one order to start in
					parts.killAt = parts.keeps + 1
				}
			}
			if r.IntN(4) == 0 && parts.refuses(a) {
				refused++
			}
			killed := parts.act(a)
			parts.killAt = 0
			if killed || r.IntN(4) == 0 {
				log = append(log, fmt.Sprint("killed, right after a write: ", killed))
				kills++
				parts.start(flags)
			}
			if want, got := whole.state(), parts.state(); got != want {
				t.Fatalf("seed %d: after\n%s\nthe state is\n%s\nand without kills\n%s\nkept %+v", seed, strings.Join(log, "\n"), got, want, parts.kept)
			}
			if whole.over {
				break
			}
		}
		keeps += parts.keeps
	}
	if kills < runs || keeps < runs || refused < runs/2 {
		t.Errorf("%d kills, %d writes, %d refused in %d runs", kills, keeps, refused, runs)
	}
}

// refuses sends a command while nothing can be kept. It reports whether it was refused for that reason; then it has changed
// nothing. It sends no command that needs no write but starts requests.
func (x *keptRun) refuses(a event.Command) bool {
	switch a.Name {
	case "finish", "fix", "fixedByHand", event.Retry:
		return false
	case event.Accept, event.GiveUp:
		if x.m.heldFailure() == nil {
			return false
		}
	}
	before, kept, killAt, log := x.state(), x.kept, x.killAt, len(x.answers)
	clocks := [2]clock{x.m.clock, x.m.readinessClock}
	x.broken, x.killAt = true, 0
	x.handle(commanded{a})
	x.broken, x.killAt = false, killAt
	answer := x.answers[len(x.answers)-1]
	switch {
	case len(x.answers) != log+1:
		panic(fmt.Sprint(len(x.answers)-log, " answers to ", a.Name))
	case x.state() != before || x.kept != kept || clocks != [2]clock{x.m.clock, x.m.readinessClock}:
		panic(fmt.Sprintf("%s: the state is\n%s\nand before\n%s", answer, x.state(), before))
	}
	return strings.Contains(answer, "could not be kept")
}

// TestFailureIsKept (S13, R33): at every instant at which the process may be killed, the next one knows that the run fails once
// a group has failed or the caller has said so. It does not forget it, unless the failure is held.
func TestFailureIsKept(t *testing.T) {
	failures := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		x, flags := newKeptRun(r)
		x.holds = r.IntN(4) == 0
		x.start(flags)
		check := func(what string) {
			failed := slices.ContainsFunc(x.m.units.all, func(u *unit) bool { return u.status == event.Failed })
			known := x.kept != nil && x.kept.Failure != ""
			if failed && !x.holds && !known || known && x.holds {
				t.Fatalf("seed %d, after %s: failed %t, kept %+v", seed, what, failed, x.kept)
			}
			if failed {
				failures++
			}
		}
		x.onEffect = func() { check("an effect") }
		for range 14 {
			a := randomAction(r)
			x.act(a)
			check(string(a.Name))
			if x.over {
				break
			}
		}
		if x.holds {
			continue
		}
		reply := make(chan error, 1)
		x.broken = true
		x.m.failed = ""
		before := x.kept
		for _, eff := range slices.Clone(x.m.handle(epoch, failed{"a hook", reply})) {
			if _, ok := eff.(keepSteering); !ok && (before == nil || before.Failure == "") {
				t.Fatalf("seed %d: %T before the failure is kept", seed, eff)
			}
		}
	}
	if failures < 1000 {
		t.Errorf("%d instants after a failure", failures)
	}
}

// TestKeptByItsSender (S13): a command that a stack sends to one of its releases takes effect although it cannot be kept. What
// depends on a command happens once it is accepted.
func TestKeptByItsSender(t *testing.T) {
	broken, followed := true, 0
	keep := func(Steering) error {
		if broken {
			return errors.New("no answer")
		}
		return nil
	}
	stage := Stage{Phase: event.Phase{Groups: groupsOf("a: a", "b < a: b")}}
	trace, _ := run(t, Options{Keep: keep}, stage, newFake(map[string]behaviour{"a": {ready: 60 * sec}}), func(b *rig) {
		for _, c := range []event.Command{{Name: event.Pause}, {Name: event.Pause, ID: event.InternalID}, {Name: event.Step}} {
			c.Accepted = func() { followed++ }
			b.e.Command(c)
			synctest.Wait()
		}
		b.at(sec)
		broken = false
		b.e.Command(event.Command{Name: event.Resume, Accepted: func() { followed += 10 }})
	})
	const why = " refused (it could not be kept for the process that may continue the run: no answer)"
	want(t, trace, "0.0s c:a running", "0.0s pause"+why, "0.0s run paused", "0.0s pause accepted", "0.0s step"+why,
		"1.0s run running", "1.0s resume accepted", "60.0s c:a ready", "60.0s c:b running", "60.0s c:b ready")
	if followed != 11 {
		t.Errorf("followed %d", followed)
	}
}
