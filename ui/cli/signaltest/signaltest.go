//go:build unix

// Package signaltest sends signals to lockstep in every phase of an operation, to
// a process of its own against a real API server, and looks what becomes of it.
// Tests choose from the table that Cases returns. A phase is met exactly, since
// the answer to the request that it consists of is held back (see holding), or
// since the record of the run says that it has begun.
package signaltest

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
)

// Action is what happens to the process.
type Action string

const (
	INT    Action = "SIGINT"
	TERM   Action = "SIGTERM"
	HUP    Action = "SIGHUP"
	CtrlC  Action = "ctrl-c"          // the key, on the screen
	Closed Action = "terminal closed" // its other end, once
)

// hangup tells that the terminal goes away by it.
func (a Action) hangup() bool { return a == HUP || a == Closed }

// Case is one cell of the table.
type Case struct {
	Phase  *Phase
	Screen bool
	Action Action
	Times  int
	// Flags are added to the command, Wants are what is different then.
	Flags []string
	Wants *Wants
}

func (c Case) String() string {
	where, times := "headless", "once"
	if c.Screen {
		where = "screen"
	}
	if c.Times == 2 {
		times = "twice"
	}
	return strings.TrimSpace(fmt.Sprintf("%s, %s %s %s %s", where, c.Phase.Name, c.Action, times, strings.Join(c.Flags, " ")))
}

// Wants is what has to become of a run. The terminal is as it was before and no
// release is pending in every case.
type Wants struct {
	Exit int
	// Release is the status of each revision, "" where there is no release.
	Release string
	// Says is on stdout or stderr, Answered in the record.
	Says, Answered string
}

// Phase is a part of an operation.
type Phase struct {
	Name string
	args func(*run) []string
	// One of these tells that the phase has been reached: a request whose
	// answer is then held back until the signals have been sent, a connection
	// to a server that never answers, or an event.
	holds    func(method, path string) bool
	passes   bool // what holds names is not held, only seen
	deaf     bool
	reached  func(event.Event) bool
	prepares bool // nothing is written yet
	rollback bool
	finished bool
}

func install(set ...string) func(*run) []string {
	return func(r *run) []string {
		args := []string{"install", "s", r.chart}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		return args
	}
}

// Phases are all phases of an installation, in order.
var Phases = []*Phase{
	{Name: "loading", prepares: true, deaf: true,
		args: func(r *run) []string { return []string{"install", "s", r.deafURL + "/chart-1.0.0.tgz"} }},
	{Name: "dependency build", prepares: true, deaf: true,
		args: func(r *run) []string { return []string{"install", "s", r.dependent(), "--dependency-update"} }},
	{Name: "rendering", prepares: true, passes: true, args: install("spin=true"), // and the template spins
		holds: func(_, path string) bool { return strings.HasSuffix(path, "/configmaps/reached") }},
	{Name: "checking", prepares: true, args: install(),
		holds: func(_, path string) bool { return strings.HasSuffix(path, "/selfsubjectrulesreviews") }},
	{Name: "hooks", args: install("hook=true"),
		reached: func(e event.Event) bool { return e.Phase == "pre-install" && e.Status == event.InProgress }},
	{Name: "applying", args: install(),
		holds: func(method, path string) bool {
			return method == "PATCH" && strings.HasSuffix(path, "/configmaps/first")
		}},
	{Name: "waiting", args: install(),
		reached: func(e event.Event) bool { return e.Phase == "apply" && e.Status == event.InProgress }},
	{Name: "rolling back", rollback: true, args: func(r *run) []string {
		return append(install("fail=true")(r), "--rollback-on-failure", "--hold-on-failure=false")
	},
		holds: func(method, path string) bool {
			return method == "DELETE" && strings.HasSuffix(path, "/configmaps/first")
		}},
	{Name: "writing the record", args: install("delay=0s"),
		holds: func(method, path string) bool {
			return method == "PUT" && strings.Contains(path, "/secrets/sh.helm.release.v1.s.")
		}},
	{Name: "finished", finished: true, args: install("delay=0s")},
}

// Named is the phase of a name.
func Named(name string) *Phase {
	for _, p := range Phases {
		if p.Name == name {
			return p
		}
	}
	panic("no phase " + name)
}

// Cases is the whole table: signals, once and twice, by phases, headless and on
// the screen.
func Cases() []Case {
	var out []Case
	for _, screen := range []bool{false, true} {
		for _, p := range Phases {
			if p.finished && !screen {
				continue // it has ended by itself
			}
			for _, a := range []Action{INT, TERM, HUP} {
				for times := 1; times <= 2; times++ {
					out = append(out, Case{Phase: p, Screen: screen, Action: a, Times: times})
				}
			}
			if !p.prepares {
				out = append(out, Case{Phase: p, Screen: screen, Action: Closed, Times: 1})
			}
			if screen && !p.prepares {
				out = append(out, Case{Phase: p, Screen: true, Action: CtrlC, Times: 2})
			}
		}
	}
	return out
}

// wants is what has to become of a case.
func (c Case) wants() Wants {
	const done, aborted, failed = "s done in", "s aborted after", "s failed after"
	var w Wants
	p, stop := c.Phase, c.Action == CtrlC || c.Times == 2
	switch {
	case c.Wants != nil:
		return *c.Wants
	case p.prepares:
		w = Wants{Exit: 3, Says: "interrupted; nothing was written"}
	case p.finished:
		w = Wants{Release: "deployed", Says: done}
	case p.rollback && c.Action.hangup():
		w = Wants{Exit: 1, Says: failed}
	case c.Action.hangup():
		w = Wants{Release: "deployed", Says: done}
	case p.rollback && stop:
		w = Wants{Exit: 3, Release: "failed", Says: "left behind"}
	case p.rollback:
		w = Wants{Exit: 1, Says: failed, Answered: "once more stops it"}
	case p.Name == "writing the record": // all is deployed, and it is told so
		w = Wants{Exit: 3, Release: "deployed", Says: aborted}
	default:
		w = Wants{Exit: 3, Release: "failed", Says: aborted}
	}
	if c.Action.hangup() && !p.prepares && (c.Screen || c.Action == Closed) {
		w.Says = "" // to whom?
	}
	return w
}

// Check returns what is wrong about the end of a run.
func (c Case) Check(o Outcome) []string {
	w := c.wants()
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if o.Exit != w.Exit {
		add("exit code %d, want %d", o.Exit, w.Exit)
	}
	if o.Release != w.Release {
		add("the release is %q, want %q", o.Release, w.Release)
	}
	if !strings.Contains(strings.Join(strings.Fields(o.Text), " "), w.Says) { // a terminal breaks lines
		add("it does not say %q", w.Says)
	}
	answered := w.Answered == ""
	for _, e := range o.Events {
		answered = answered || e.Kind == event.KindCommand && strings.Contains(e.Message, w.Answered)
	}
	if !answered {
		add("nothing in its record says %q", w.Answered)
	}
	if !c.Phase.prepares && (len(o.Events) == 0 || o.Events[len(o.Events)-1].Exit == nil) {
		add("its record has no end")
	}
	if o.Terminal != "" {
		add("%s", o.Terminal)
	}
	return wrong
}
