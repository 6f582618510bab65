package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// staysRun drives a machine with the groups a and b, of which b waits for a, on a virtual clock. The objects x and y are ready
// as soon as they are applied.
type staysRun struct {
	m     *machine
	now   time.Time
	run   *StageRun
	ended map[*StageRun]error
	trace []string
	// onLook reports what a look at the pods shows and, if read is set, a read of the object x.
	onLook func(read bool)
}

func newStaysRun(stage Stage, opts Options) *staysRun {
	r := &staysRun{now: epoch, run: &StageRun{}, ended: map[*StageRun]error{}}
	stage.Phase = event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: groupsOf("a: x", "b < a: y")}
	r.m = newMachine(opts, r.now)
	r.handle(stageStarted{stage, r.run})
	return r
}

func (r *staysRun) add(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf("%.1fs ", r.now.Sub(epoch).Seconds())+fmt.Sprintf(format, args...))
}

func (r *staysRun) handle(msg message) {
	for _, eff := range slices.Clone(r.m.handle(r.now, msg)) {
		switch eff := eff.(type) {
		case sendRequest:
			r.handle(answered{eff.request, Response{Change: event.Created, Version: 1}, nil})
			r.see(eff.request.object.Name, Observation{Status: event.Ready, Version: 2, ReadyBy: event.ByKstatus})
		case startLook:
			r.add("look%s", strings.Repeat(", read x", len(eff.lost)))
			r.onLook(len(eff.lost) > 0)
			r.handle(lookedAtPods{eff.settling})
		case endStage:
			r.ended[eff.run] = eff.err
		case publish:
			switch e := eff.event; {
			case e.Kind == event.KindGroup:
				r.add("%s %s", e.Group[len(e.Group)-1:], e.Status)
			case e.Kind == event.KindWaiting && e.ReadyBy == event.BySettling:
				r.add("%s settles until %.1fs", e.Object.Name, e.Until.Sub(epoch).Seconds())
			case e.Kind == event.KindObject && e.ReadyBy == event.BySettling:
				r.add("%s settled", e.Object.Name)
			case e.Kind == event.KindObject && !e.Until.IsZero():
				r.add("%s until %.1fs", e.Object.Name, e.Until.Sub(epoch).Seconds())
			}
		}
	}
}

// see delivers an observation of an object.
func (r *staysRun) see(name string, ob Observation) {
	for _, s := range append(slices.Clone(r.m.confirmable), r.m.stage) {
		if s == nil {
			continue
		}
		for _, g := range s.groups {
			for _, o := range g.objects {
				if o.Name == name {
					ob.Object = o.Object
					r.handle(observed{g, ob})
					return
				}
			}
		}
	}
}

// until lets time pass.
func (r *staysRun) until(d time.Duration) {
	for {
		next := r.m.wake()
		if next.IsZero() || next.After(epoch.Add(d)) {
			break
		}
		r.now = next
		r.handle(ticked{})
	}
	r.now = epoch.Add(d)
}

// confirm starts the look before the outcome; over returns its result.
func (r *staysRun) confirm() (over func() (ended bool, err error)) {
	run := &StageRun{}
	r.handle(confirmRequested{run})
	return func() (bool, error) { err, ended := r.ended[run]; return ended, err }
}

func pods(restarted, started time.Duration, down bool) Observation {
	p := &Pods{Down: down}
	if restarted != 0 {
		p.Restarted, p.Restart = epoch.Add(restarted), "container app exited with code 3"
	}
	if started != 0 {
		p.Started = epoch.Add(started)
	}
	return Observation{Pods: p}
}

// TestRestartedContainers: a container that restarted since the apply makes its workload in progress until it has run for 10 s
// again, before and after its gate has opened, unless the rule of an operator or the chart decides (R22c).
func TestRestartedContainers(t *testing.T) {
	cases := []struct {
		name  string
		do    func(r *staysRun)
		trace []string
	}{
		{"before the apply", func(r *staysRun) { r.see("x", pods(-time.Minute, -time.Minute, false)) }, []string{"0.0s a ready", "0.0s b running", "0.0s b ready"}},
		{"seen before the gate opens", func(r *staysRun) {
			r.see("x", Observation{Status: event.InProgress, Version: 3})
			r.until(time.Second)
			r.see("x", pods(time.Second, 0, true))
			r.see("x", Observation{Status: event.Ready, Version: 4, ReadyBy: event.ByKstatus})
			r.until(5 * time.Second)
			r.see("x", pods(5*time.Second, 0, false))
			r.until(30 * time.Second)
		}, []string{"5.0s x until 15.0s", "15.0s a ready", "15.0s b running", "15.0s b ready"}},
		{"again while it is held", func(r *staysRun) {
			r.see("x", Observation{Status: event.InProgress, Version: 3})
			r.until(time.Second)
			r.see("x", pods(time.Second, 0, false))
			r.see("x", Observation{Status: event.Ready, Version: 4, ReadyBy: event.ByKstatus})
			r.until(9 * time.Second)
			r.see("x", pods(9*time.Second, 0, false))
			r.until(30 * time.Second)
		}, []string{"1.0s x until 11.0s", "9.0s x until 19.0s", "19.0s a ready", "19.0s b running", "19.0s b ready"}},
		{"the chart's rule decides", func(r *staysRun) {
			r.see("x", Observation{Status: event.InProgress, Version: 3})
			r.until(time.Second)
			r.see("x", pods(time.Second, 0, true))
			r.see("x", Observation{Status: event.Ready, Version: 4, ReadyBy: event.ByChart})
		}, []string{"1.0s a ready", "1.0s b running", "1.0s b ready"}},
		{"it never runs again", func(r *staysRun) {
			r.see("x", Observation{Status: event.InProgress, Version: 3})
			r.until(time.Second)
			r.see("x", pods(time.Second, 0, true))
			r.see("x", Observation{Status: event.Ready, Version: 4, ReadyBy: event.ByKstatus})
			r.until(2 * time.Minute)
		}, []string{"60.0s a failed", "60.0s b skipped"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			stage := Stage{ObjectTimeout: time.Minute}
			r := newStaysRun(stage, Options{})
			if c.name != "before the apply" { // x becomes ready only when the case says so
				r = newSlowRun(stage, Options{}, plan.Wait{})
			}
			c.do(r)
			got := slices.DeleteFunc(r.trace, func(line string) bool { return line == "0.0s a running" })
			if !slices.Equal(got, c.trace) {
				t.Errorf("got  %q\nwant %q", got, c.trace)
			}
		})
	}
}

// newSlowRun is a staysRun whose object x is not ready at first.
func newSlowRun(stage Stage, opts Options, x plan.Wait) *staysRun {
	r := &staysRun{now: epoch, run: &StageRun{}, ended: map[*StageRun]error{}}
	stage.Phase = event.Phase{Name: "apply", Kind: event.PhaseApply, Groups: withWaits(groupsOf("a: x", "b < a: y"), map[string]plan.Wait{"x": x})}
	r.m = newMachine(opts, r.now)
	for _, eff := range slices.Clone(r.m.handle(r.now, stageStarted{stage, r.run})) {
		if eff, ok := eff.(sendRequest); ok {
			r.handle(answered{eff.request, Response{Change: event.Created, Version: 1}, nil})
		}
	}
	return r
}

// TestSettling: the outcome waits until the containers without probes have run for Stage.Settle, once for all groups, while
// gates do not wait. What breaks meanwhile is waited for, a command ends the wait, and the operation's timeout does not turn it
// into a failure (R22c).
func TestSettling(t *testing.T) {
	aborted := func(r *staysRun) { r.handle(commanded{event.Command{Name: event.Abort}}) }
	cases := []struct {
		name   string
		settle time.Duration
		limit  time.Duration // of the operation
		x, y   time.Duration // when their containers started, 0 for no such container
		then   func(r *staysRun)
		end    time.Duration // when the look before the outcome ends
		err    error
		trace  []string
	}{
		{name: "no such container", settle: 5 * sec},
		{name: "started long ago", settle: 5 * sec, x: -time.Hour, y: -5 * sec},
		{name: "turned off", x: 1, y: 1},
		{name: "once for all", settle: 5 * sec, x: -sec, y: sec, end: 6 * sec, trace: []string{"1.0s y settles until 6.0s", "6.0s x settled", "6.0s y settled"}},
		{name: "started earlier", settle: 5 * sec, x: -2 * sec, end: 3 * sec, trace: []string{"1.0s x settles until 3.0s", "3.0s x settled"}},
		{name: "cut off by the timeout", settle: 20 * sec, limit: 10 * sec, x: sec, end: 9 * sec, trace: []string{"1.0s x settles until 9.0s", "9.0s x settled"}},
		{name: "aborted", settle: 5 * sec, x: sec, then: aborted, end: 2 * sec, err: ErrAborted, trace: []string{"1.0s x settles until 6.0s"}},
		{name: "paused", settle: 5 * sec, x: sec, then: func(r *staysRun) { r.handle(commanded{event.Command{Name: event.Pause}}) }, end: 6 * sec,
			trace: []string{"1.0s x settles until 6.0s", "6.0s x settled"}},
		{name: "an outage", settle: 5 * sec, x: sec, then: func(r *staysRun) {
			r.handle(serverUnreachable{r.now, r.now, "cut"})
			r.until(20 * sec)
			r.handle(serverReachable{})
		}, end: 22 * sec, trace: []string{"1.0s x settles until 6.0s", "20.0s x settles until 22.0s", "22.0s x settled"}},
		{name: "crashed and recovered", settle: 5 * sec, x: sec, then: func(r *staysRun) {
			r.see("x", pods(2*sec, sec, true))
			r.until(3 * sec)
			r.see("x", pods(3*sec, 3*sec, false))
		}, end: 13 * sec, trace: []string{"1.0s x settles until 6.0s", "2.0s a running", "3.0s x until 13.0s", "13.0s a ready", "13.0s x settled"}},
		{name: "crashed for good", settle: 5 * sec, x: sec, then: func(r *staysRun) { r.see("x", pods(2*sec, sec, true)) }, end: 62 * sec, err: errors.New("failed"),
			trace: []string{"1.0s x settles until 6.0s", "2.0s a running", "62.0s a failed"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newStaysRun(Stage{ObjectTimeout: time.Minute, Settle: c.settle}, Options{Operation: event.Operation{Timeout: c.limit}})
			if err, ended := r.ended[r.run]; !ended || err != nil {
				t.Fatalf("the gates waited: %v %v", err, r.trace)
			}
			r.trace = nil
			r.until(sec)
			r.see("x", pods(0, c.x, false))
			r.see("y", pods(0, c.y, false))
			over := r.confirm()
			if c.then != nil {
				r.until(2 * sec)
				c.then(r)
			}
			end := max(c.end, sec)
			if c.end > 2*sec {
				r.until(c.end - sec/10)
				if ended, err := over(); ended {
					t.Errorf("it ended before %s: %v", c.end, err)
				}
				r.until(c.end)
			}
			if ended, err := over(); !ended || (err == nil) != (c.err == nil) || errors.Is(c.err, ErrAborted) && !errors.Is(err, ErrAborted) {
				t.Errorf("at %s: ended %t with %v, want %v", end, ended, err, c.err)
			}
			if !slices.Equal(r.trace, c.trace) {
				t.Errorf("got  %q\nwant %q", r.trace, c.trace)
			}
		})
	}
}

// TestSettlingIsProven: whatever the watch of pods has reported, or not, the pods are looked at before the wait until they have
// settled, and again after it; only the look makes the outcome (R22c).
func TestSettlingIsProven(t *testing.T) {
	healthy, crashed := pods(0, -sec, false), pods(2*sec, -sec, true)
	unready := Observation{Pods: &Pods{Started: epoch.Add(-sec), Unready: 1}}
	silent := Observation{}
	for name, c := range map[string]struct {
		watch, first, last Observation
		end                time.Duration // of the look before the outcome, 0 for a failure
		trace              []string
	}{
		"started long ago":    {silent, pods(0, -time.Hour, false), silent, 1, []string{"0.0s look"}},
		"no such container":   {silent, pods(0, 0, false), silent, 1, []string{"0.0s look"}},
		"silent":              {silent, healthy, silent, 4 * sec, []string{"0.0s look", "0.0s x settles until 4.0s", "4.0s look", "4.0s x settled"}},
		"not silent":          {healthy, silent, silent, 4 * sec, []string{"0.0s x settles until 4.0s", "4.0s look", "4.0s x settled"}},
		"an unreported crash": {healthy, silent, crashed, 0, []string{"0.0s x settles until 4.0s", "4.0s look", "4.0s a running", "64.0s a failed"}},
		"a pod goes":          {healthy, silent, pods(0, 0, false), 0, []string{"0.0s x settles until 4.0s", "4.0s look", "4.0s x settles until 6.0s", "6.0s look, read x", "6.0s a running", "66.0s a failed"}},
		"a pod goes silently": {silent, healthy, pods(0, 0, false), 0, []string{"0.0s look", "0.0s x settles until 4.0s", "4.0s look", "4.0s x settles until 6.0s", "6.0s look, read x", "6.0s a running", "66.0s a failed"}},
		"an unready pod":      {healthy, silent, unready, 0, []string{"0.0s x settles until 4.0s", "4.0s look", "4.0s a running", "64.0s a failed"}},
		"it was known before": {unready, silent, silent, 0, []string{"0.0s x settles until 4.0s", "4.0s look", "4.0s a running", "64.0s a failed"}},
		"it is ready by now":  {unready, silent, healthy, 4 * sec, []string{"0.0s x settles until 4.0s", "4.0s look", "4.0s x settled"}},
		"a silent crash":      {silent, healthy, crashed, 0, []string{"0.0s look", "0.0s x settles until 4.0s", "4.0s look", "4.0s a running", "64.0s a failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newStaysRun(Stage{ObjectTimeout: time.Minute, Settle: 5 * sec}, Options{LookAtPods: func(context.Context, []plan.Object) {}})
			r.trace = nil
			next := []Observation{c.first, c.last, silent}
			if c.watch.Pods != nil {
				next = next[1:]
				r.see("x", c.watch)
			}
			r.onLook = func(read bool) {
				r.see("x", next[0])
				if next = next[1:]; read {
					r.see("x", Observation{Status: event.InProgress, Version: 3})
				}
			}
			over := r.confirm()
			if r.until(c.end - 1); c.end > sec {
				if ended, _ := over(); ended {
					t.Error("it ended before the pods had settled")
				}
			}
			r.until(2 * time.Minute)
			if ended, err := over(); !ended || (err == nil) != (c.end > 0) {
				t.Errorf("it has ended: %t, %v", ended, err)
			}
			if !slices.Equal(r.trace, c.trace) {
				t.Errorf("got  %q\nwant %q", r.trace, c.trace)
			}
		})
	}
}

// TestStableFor: lockstep/stable-for holds a gate until the object was ready for so long without falling back or a restart
// (R22c).
func TestStableFor(t *testing.T) {
	r := newSlowRun(Stage{ObjectTimeout: time.Minute}, Options{}, plan.Wait{StableFor: 30 * sec})
	r.until(sec)
	r.see("x", Observation{Status: event.Ready, Version: 2, ReadyBy: event.ByChart})
	r.until(5 * sec)
	r.see("x", Observation{Status: event.InProgress, Version: 3})
	r.until(6 * sec)
	r.see("x", Observation{Status: event.Ready, Version: 4, ReadyBy: event.ByChart})
	r.until(10 * sec)
	r.see("x", pods(10*sec, 0, false))
	r.until(50 * sec)
	want := []string{"1.0s x until 31.0s", "6.0s x until 36.0s", "10.0s x until 40.0s", "40.0s a ready", "40.0s b running", "40.0s b ready"}
	if !slices.Equal(r.trace, want) {
		t.Errorf("got  %q\nwant %q", r.trace, want)
	}
}
