package deploy

import (
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/screen"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// showStack runs a stack on the screen or as lines until it ends.
func (a *app) showStack(cmd *cobra.Command, flags *stackFlags, r runOptions, stack *kube.Stack, all clients) error {
	d := a.Display(cmd, r.mode.Report())
	a.Logs.Hide(stack.Text)
	first := firstRun()
	record := newRecord(d)
	defer record.Close()
	next := func(s *event.State) []string { return suggester{app: a, cmd: cmd}.afterStack(s, r.sandbox) }
	opts := report.Options{Next: next, Record: record.Name, Steer: runs.CtlCommand(stack.Info())}
	server, err := serve(stack, nil, nil, r.controlFlag)
	if err != nil {
		stack.Close()
		return err
	}
	defer closeServer(server)
	for _, client := range all { // a run in the cluster has only one
		if in := client.Requests(cmd.Context()); in != nil {
			go remote.ServeRequests(cmd.Context(), in, cmd.OutOrStdout(), stack.Command, nil, nil)
		}
	}
	guard := &unattended{op: stack, timeout: r.common.Timeout, rollback: r.rollbackOnSignal, attached: func() int { return attachedClients(server) }}
	signals := command.SignalPolicy{Rollback: r.rollbackOnSignal, Hangup: r.hangup, Outcome: "running releases will be marked failed", Unattended: guard.start}
	var notices report.Notices
	if r.mode != command.ModeScreen {
		notices = d
	}
	if err := a.Signals.Bind(stack, signals, notices); err != nil {
		stack.Close()
		return err
	}
	defer a.Signals.Unbind()
	var state *event.State
	if r.mode == command.ModeScreen {
		state, err = a.stackOnScreen(cmd, stack, all, board.Options{First: first, AtQuit: a.Signals.AtQuit, Next: func(s *event.State) []string { return nextLines(s, opts) }}, opts, func() { closeServer(server) }, record, a.Signals, guard)
	} else {
		state, err = run(stack, record, d.Operation(opts), a.Signals, guard)
	}
	command.WarnIf(d, r.outcomes.End(report.NewOutcome(state, next(state))))
	return command.OperationError(state, err, r.mode)
}

// stackOnScreen runs a stack on the screen and prints its summary.
func (a *app) stackOnScreen(cmd *cobra.Command, stack *kube.Stack, all clients, o board.Options, opts report.Options, over func(), consumers ...report.Consumer) (*event.State, error) {
	o.Inspector = screen.Disconnected(screen.NoChanges("press enter to open the release"))
	o.Release = func(scope string) (board.Inspector, []string) {
		client := all[releaseContext(scope)]
		for _, rel := range stack.Releases() {
			if rel.ID == scope && rel.Operation != nil {
				return screen.NewInspector(screen.Changes(rel.Operation), client.Diagnoser(), rel.Operation.Mask()), client.KubectlFlags()
			}
		}
		return screen.Disconnected(screen.NoChanges("nothing to do")), client.KubectlFlags()
	}
	return a.runOnScreen(cmd, stack, o, opts, over, func() {}, consumers...)
}

// releaseContext returns the context in the ID of a release, [context/]namespace/name.
func releaseContext(id string) string {
	parts := strings.Split(id, "/")
	if len(parts) < 3 {
		return ""
	}
	return strings.Join(parts[:len(parts)-2], "/")
}

// afterStack suggests running a stack again that did not succeed, which resumes it (S7).
func (p suggester) afterStack(s *event.State, sandbox bool) []string {
	if s.Status == event.Succeeded || sandbox || s.Exit == command.ExitNothing {
		return nil
	}
	return []string{p.rerun(s, nil)}
}
