//go:build unix

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube/throwaway/testcluster"
)

// signalAction is a signal to lockstep, or an action on its terminal.
type signalAction string

const (
	sendINT        signalAction = "SIGINT"
	sendTERM       signalAction = "SIGTERM"
	sendQUIT       signalAction = "SIGQUIT"
	sendHUP        signalAction = "SIGHUP"
	pressCtrlC     signalAction = "ctrl-c"
	closesTerminal signalAction = "terminal closed"
)

var signalOf = map[signalAction]syscall.Signal{sendINT: syscall.SIGINT, sendTERM: syscall.SIGTERM, sendQUIT: syscall.SIGQUIT, sendHUP: syscall.SIGHUP}

// hangsUp reports whether the action closes the terminal.
func (a signalAction) hangsUp() bool { return a == sendHUP || a == closesTerminal }

// signalPhase is a phase of an install. The run has reached it at a request, whose response is held
// until the signals are sent; at a connection to a server that never responds; or at an event.
type signalPhase struct {
	args     func(*signalRun) []string
	request  func(method, path string) bool
	passes   bool // the request is not held
	deaf     bool // a connection to the server that never responds
	event    func(event.Event) bool
	prepares bool // nothing is written yet
	rollback bool // the run rolls back
	finished bool // the run has ended, but its screen is open
}

// installing returns the arguments of an install with the values in set.
func installing(set ...string) func(*signalRun) []string {
	return func(r *signalRun) []string {
		args := []string{"install", "s", r.chart}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		return args
	}
}

// requests matches requests by their method and the end of their path.
func requests(method, end string) func(string, string) bool {
	return func(m, path string) bool { return m == method && strings.HasSuffix(path, end) }
}

var signalPhases = map[string]signalPhase{
	"loading": {prepares: true, deaf: true,
		args: func(r *signalRun) []string { return []string{"install", "s", r.deafURL + "/chart-1.0.0.tgz"} }},
	"dependency build": {prepares: true, deaf: true,
		args: func(r *signalRun) []string { return []string{"install", "s", r.dependent(), "--dependency-update"} }},
	"rendering": {prepares: true, passes: true, args: installing("spin=true"), // and the template spins
		request: requests("GET", "/configmaps/reached")},
	"checking": {prepares: true, args: installing(), request: requests("POST", "/selfsubjectrulesreviews")},
	"hooks": {args: installing("hook=true"),
		event: func(e event.Event) bool { return e.Phase == "pre-install" && e.Status == event.InProgress }},
	"applying": {args: installing(), request: requests("PATCH", "/configmaps/first")},
	"waiting": {args: installing(),
		event: func(e event.Event) bool { return e.Phase == "apply" && e.Status == event.InProgress }},
	"rolling back": {rollback: true, request: requests("DELETE", "/configmaps/first"),
		args: func(r *signalRun) []string {
			return append(installing("fail=true")(r), "--rollback-on-failure", "--hold-on-failure=false")
		}},
	"writing the record": {args: installing("delay=0s"),
		request: func(method, path string) bool {
			return method == "PUT" && strings.Contains(path, "/secrets/sh.helm.release.v1.s.")
		}},
	"finished": {finished: true, args: installing("delay=0s")},
}

// signalCase is an action in a phase, on the screen or headless, once or twice.
type signalCase struct {
	phase  string
	screen bool
	action signalAction
	times  int
	// flags are added to the command; other is the result expected with them.
	flags []string
	other *signalEnd
}

// signalEnd is the expected end of a run: its exit code, the status of the release or "", a text in its
// output, and the code of the answer to a command.
type signalEnd struct {
	exit                  int
	release, output, code string
}

const headless, onScreen = false, true

// signalCases has each phase and each signal once or twice, and the effects of flags. make chaos sends
// all signals in all phases.
var signalCases = []signalCase{
	{phase: "loading", action: sendINT, times: 2},
	{phase: "dependency build", screen: onScreen, action: sendTERM, times: 1},
	{phase: "rendering", action: sendTERM, times: 2},
	{phase: "rendering", screen: onScreen, action: sendINT, times: 1},
	{phase: "checking", action: sendHUP, times: 2},
	{phase: "checking", screen: onScreen, action: sendINT, times: 2},
	{phase: "hooks", action: sendTERM, times: 1},
	{phase: "hooks", screen: onScreen, action: sendHUP, times: 2},
	{phase: "applying", action: sendHUP, times: 1},
	{phase: "applying", screen: onScreen, action: pressCtrlC, times: 2},
	{phase: "applying", action: sendINT, times: 2},
	{phase: "waiting", action: sendINT, times: 1},
	{phase: "waiting", action: sendQUIT, times: 1},
	{phase: "waiting", action: closesTerminal, times: 1},
	{phase: "waiting", screen: onScreen, action: closesTerminal, times: 1},
	{phase: "rolling back", action: sendINT, times: 1},
	{phase: "rolling back", action: sendHUP, times: 1},
	{phase: "rolling back", screen: onScreen, action: sendTERM, times: 1},
	{phase: "rolling back", screen: onScreen, action: pressCtrlC, times: 2},
	{phase: "rolling back", screen: onScreen, action: sendINT, times: 2},
	{phase: "writing the record", action: sendTERM, times: 1},
	{phase: "writing the record", screen: onScreen, action: sendINT, times: 2},
	{phase: "finished", screen: onScreen, action: sendINT, times: 1},
	{phase: "finished", screen: onScreen, action: sendTERM, times: 2},
	{phase: "finished", screen: onScreen, action: sendHUP, times: 1},
	{phase: "finished", screen: onScreen, action: pressCtrlC, times: 2},
	{"waiting", headless, sendTERM, 1, []string{"--on-interrupt=rollback"}, &signalEnd{exit: 3, output: "uninstalled"}},
	{"waiting", headless, sendINT, 1, []string{"--rollback-on-failure", "--on-interrupt=keep"}, &signalEnd{exit: 3, release: "failed"}},
	{"waiting", headless, sendHUP, 1, []string{"--on-hangup=keep"}, &signalEnd{exit: 3, release: "failed"}},
	{"waiting", onScreen, sendHUP, 2, []string{"--on-hangup=rollback"}, &signalEnd{exit: 3}},
}

func (c signalCase) String() string {
	where := "headless"
	if c.screen {
		where = "screen"
	}
	return strings.TrimSpace(fmt.Sprintf("%s, %s %s ×%d %s", where, c.phase, c.action, c.times, strings.Join(c.flags, " ")))
}

// TestSignals sends signals in the phases of an install (R43, R34): the exit code is that of a signal,
// no release is left pending, the terminal is restored, and a closed terminal does not end the run.
func TestSignals(t *testing.T) {
	t.Parallel()
	kubeconfig := testcluster.Get(t).Kubeconfig
	for n, c := range signalCases {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			r := startSignalRun(t, ctx, c, kubeconfig, fmt.Sprintf("signal-%d", n))
			r.reach()
			r.act()
			if !r.prepares { // while it prepares, the signal alone must end it
				close(r.letGo)
			}
			r.await("the end", func() bool { return closed(r.over) })
			r.check()
		})
	}
}

// want returns the expected end of a case.
func (c signalCase) want() signalEnd {
	const done, aborted, failed = "s done in", "s aborted by ", "s failed after"
	var w signalEnd
	p, stop := signalPhases[c.phase], c.action == pressCtrlC || c.times == 2
	switch {
	case c.other != nil:
		return *c.other
	case p.prepares:
		return signalEnd{exit: 3, output: "interrupted; nothing was written"}
	case p.finished:
		w = signalEnd{release: "deployed", output: done}
	case p.rollback && c.action.hangsUp():
		w = signalEnd{exit: 1, output: failed}
	case c.action.hangsUp():
		w = signalEnd{release: "deployed", output: done}
	case p.rollback && stop:
		w = signalEnd{exit: 3, release: "failed", output: "created by this run and not deleted"}
	case p.rollback:
		w = signalEnd{exit: 1, output: failed, code: event.RollbackInProgress}
	case c.phase == "writing the record": // everything is deployed
		w = signalEnd{exit: 3, release: "deployed", output: aborted}
	default:
		w = signalEnd{exit: 3, release: "failed", output: aborted}
	}
	if c.action.hangsUp() && (c.screen || c.action == closesTerminal) {
		w.output = "" // there is no terminal
	}
	return w
}

// check compares the end of a run with the expected end.
func (r *signalRun) check() {
	w, wrong := r.want(), r.terminalChange()
	text := r.shown() // all output has been read
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if code := r.cmd.ProcessState.ExitCode(); code != w.exit {
		add("exit code %d, want %d", code, w.exit)
	}
	if status := r.release(); status != w.release {
		add("the release is %q, want %q", status, w.release)
	}
	if !strings.Contains(strings.Join(strings.Fields(text), " "), w.output) { // a terminal wraps lines
		add("no %q in the output", w.output)
	}
	events := r.events()
	if w.code != "" && !slices.ContainsFunc(events, func(e event.Event) bool {
		return e.Kind == event.KindCommand && e.Code == w.code
	}) {
		add("no command was refused with the code %q", w.code)
	}
	if w.exit == 3 && signalPhases[r.phase].rollback && !strings.Contains(text, "rollback stopped") {
		add("the summary does not say that the rollback was stopped")
	}
	if strings.Contains(text, "refused: a rollback is in progress") { // the notice says it
		add("the log has the reply to the signal")
	}
	if !r.prepares && (len(events) == 0 || events[len(events)-1].Exit == nil) {
		add("the record has no end")
	}
	if len(wrong) > 0 {
		r.t.Errorf("%s; output:\n%s", strings.Join(wrong, "; "), tailOf(text, 2000))
	}
}
