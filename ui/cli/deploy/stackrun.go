package deploy

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
	"lockstep/ui/cli/screen"
	"lockstep/ui/remote"
	"lockstep/ui/report"
)

// showStack runs a stack and shows it, on the screen or as lines, until it is over.
func (a *app) showStack(cmd *cobra.Command, flags *stackFlags, r running, stack *kube.Stack, all clients) error {
	d := a.Display(cmd, r.mode.Report())
	a.Logs.Hide(stack.Text)
	first := firstRun()
	record := newRecord(d)
	defer record.Close()
	next := func(s *event.State) []string { return proposer{app: a, cmd: cmd}.afterStack(s, r.sandbox) }
	opts := report.Options{Next: next, Record: record.Name, Steer: runs.CtlCommand(stack.Info())}
	var server *remote.Server
	if dir, err := runs.LiveDir(); err == nil {
		server, err = remote.Serve(dir, stack.Feed(), stack.Command, nil, nil)
		if err != nil && r.steering != "" {
			stack.Close()
			return err
		}
	}
	defer unserve(server)
	for _, client := range all { // in the cluster there is one
		if in := client.Orders(cmd.Context()); in != nil {
			go remote.ServeOrders(cmd.Context(), in, cmd.OutOrStdout(), stack.Command, nil, nil)
		}
	}
	alone := &unattended{op: stack, timeout: r.common.Timeout, rollback: r.interrupt, joined: func() int { return joined(server) }}
	signals := command.OnSignal{Rollback: r.interrupt, Hangup: r.hangup, Outcome: "running releases will be marked failed", Unattended: alone.start}
	var say report.Notices
	if r.mode != command.ModeScreen {
		say = d
	}
	if err := a.Signals.Steer(stack, signals, say); err != nil {
		stack.Close()
		return err
	}
	defer a.Signals.Finished()
	var state *event.State
	var err error
	if r.mode == command.ModeScreen {
		state, err = a.stackOnScreen(cmd, stack, all, board.Options{First: first, AtQuit: a.Signals.AtQuit, Next: func(s *event.State) []string { return nextLines(s, opts) }}, opts, func() { unserve(server) }, record, a.Signals, alone)
	} else {
		state, err = run(stack, record, d.Operation(opts), a.Signals, alone)
	}
	command.WarnIf(d, r.outcomes.End(report.NewOutcome(state, next(state))))
	return command.Ending(state, err, r.mode)
}

// stackOnScreen shows a stack on the screen, and its summary afterwards.
func (a *app) stackOnScreen(cmd *cobra.Command, stack *kube.Stack, all clients, o board.Options, opts report.Options, over func(), consumers ...report.Consumer) (*event.State, error) {
	d := a.Display(cmd, report.ModeText)
	look, lookErr := theme.FromEnv(os.Getenv)
	restore := a.Logs.ToFile(d)
	defer restore()
	var state *event.State
	var runErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, runErr = run(stack, consumers...)
		a.Signals.Finished()
		over()
	}()
	screen.DiscardInput()
	o.Source, o.Command, o.Theme = stack.Feed().Reader(), stack.Command, look
	o.Inspector = screen.Disconnected(screen.NoChanges("press enter to open the release"))
	o.Release = func(scope string) (board.Inspector, []string) {
		client := all[contextOf(scope)]
		for _, rel := range stack.Releases() {
			if rel.ID == scope && rel.Operation != nil {
				return screen.NewInspector(screen.Changes(rel.Operation), client.Diagnoser(), rel.Operation.Mask()), client.KubectlFlags()
			}
		}
		return screen.Disconnected(screen.NoChanges("nothing to do")), client.KubectlFlags()
	}
	err := board.Run(cmd.Context(), o)
	switch {
	case errors.Is(err, board.ErrTerminalGone):
		a.Signals.Hangup()
		command.DropTerminal()
	case err != nil && !errors.Is(err, command.ErrInterrupted):
		stack.Command(event.Command{Name: event.Abort, Reason: err.Error()})
	}
	<-ended
	report.Summary(cmd.OutOrStdout(), state, a.SummaryOptions(opts))
	command.WarnIf(d, lookErr)
	return state, runErr
}

// contextOf is the context of a release by its id, [context/]namespace/name.
func contextOf(id string) string {
	parts := strings.Split(id, "/")
	if len(parts) < 3 {
		return ""
	}
	return strings.Join(parts[:len(parts)-2], "/")
}

// afterStack proposes to run a stack again that did not succeed: it continues (S7).
func (p proposer) afterStack(s *event.State, sandbox bool) []string {
	if s.Status == event.Succeeded || sandbox || s.Exit == command.ExitNothing {
		return nil
	}
	return []string{p.again(s, nil)}
}
