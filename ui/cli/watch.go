package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/board"
	"lockstep/ui/report"
)

const watchLong = `Shows a release as it is now: its groups, with the live status of each resource. In a terminal that is the screen of
"lockstep install", read-only; elsewhere, or with --no-tui, the groups once and then a line for each change, with -o json
an event per line. It goes on until Ctrl-C, through upgrades too, or until the release is uninstalled.

Releases that were not deployed in order, by Helm for instance, are one group. Hooks are not shown: they are over.`

// watchFlags are those of watch.
type watchFlags struct {
	run  runFlags // of which only some are set
	once bool
}

func (a *app) newWatch() *cobra.Command {
	var flags watchFlags
	cmd := &cobra.Command{
		Use:     "watch NAME",
		GroupID: "release",
		Short:   "watch the resources of a release, group by group",
		Long:    watchLong,
		Example: `lockstep watch shop -n shop
lockstep watch shop -n shop --once`,
		Args:              args(1, 1),
		ValidArgsFunction: a.completeRelease(nil),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.watch(cmd, &flags, args[0]) },
	}
	a.addRevision(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.once, "once", false, "print how things are and end")
	f.BoolVar(&flags.run.noTUI, "no-tui", false, "print lines in place of the screen")
	flags.run.output = choice{allowed: []string{"text", "json"}}
	addChoice(cmd, &flags.run.output, "output", "o", "format")
	return cmd
}

func (a *app) watch(cmd *cobra.Command, flags *watchFlags, name string) error {
	revision, err := cmd.Flags().GetInt("revision")
	if err != nil {
		return err
	}
	client, err := kube.Connect(a.settings, slog.Default(), nil)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	view, err := client.PrepareView(ctx, name, a.settings.Namespace(), revision)
	if err != nil {
		return err
	}
	m := flags.run.mode()
	switch {
	case m == modeScreen && !flags.once:
		return a.watchOnScreen(ctx, cmd, client, view)
	case flags.once:
		var consumers []report.Consumer
		if m == modeJSON {
			consumers = append(consumers, report.NewJSON(cmd.OutOrStdout()))
		}
		state, err := lookOnce(ctx, view, consumers...)
		if err == nil && m != modeJSON {
			a.printState(cmd.OutOrStdout(), state, view.Timings())
		}
		return err
	}
	var consumer report.Consumer = report.NewJSON(cmd.OutOrStdout())
	if m != modeJSON {
		consumer = &changes{out: cmd.OutOrStdout(), warnings: cmd.ErrOrStderr(), style: streamStyle(os.Stdout, a.settings.ColorMode)}
	}
	failed := make(chan error, 1)
	go func() { failed <- view.Run(ctx) }()
	report.Follow(view.Feed(), consumer)
	return <-failed
}

// watchOnScreen shows a view on the screen until the user leaves; the terminal
// keeps how things were last.
func (a *app) watchOnScreen(ctx context.Context, cmd *cobra.Command, client *kube.Client, view *kube.View) error {
	look, lookErr := theme.FromEnv(os.Getenv)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore := a.logs.toFile()
	defer restore()
	state := make(chan *event.State, 1)
	failed := make(chan error, 1)
	go func() { failed <- view.Run(ctx) }()
	go func() { state <- report.Follow(view.Feed()) }()
	err := board.Run(ctx, board.Options{Source: view.Feed().Reader(), Inspector: inspector{client.Diagnoser()}, Theme: look})
	if errors.Is(err, context.Canceled) {
		err = nil // a signal ends it as a key does
	}
	cancel()
	err = errors.Join(err, <-failed)
	a.printState(cmd.OutOrStdout(), <-state, view.Timings())
	if lookErr != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", lookErr)
	}
	return err
}

// printState prints how a release is.
func (a *app) printState(w io.Writer, s *event.State, timings []kube.Timing) {
	style := streamStyle(os.Stdout, a.settings.ColorMode)
	fmt.Fprintln(w, viewed(s))
	printGroups(w, liveGroups(s, timings), style)
}

// viewed says what is looked at.
func viewed(s *event.State) string {
	op := s.Operation
	return fmt.Sprintf("%s: chart %s, namespace %s, revision %d, %s", op.Release, op.Chart, op.Namespace, op.Revision, s.Message)
}

// changes prints a view: all groups as soon as each object has been seen, then
// a line for each change.
type changes struct {
	out, warnings io.Writer
	style         report.Style
	state         event.State
	printed       bool
	told          map[string]event.Status // what was printed of each group
}

// Consume takes the next event of a view.
func (c *changes) Consume(e event.Event) {
	c.state.Apply(e)
	switch {
	case e.Kind == event.KindWarning:
		fmt.Fprintln(c.warnings, "warning:", e.Message)
	case !c.printed:
		if c.complete() {
			c.all()
		}
	case e.Kind == event.KindOperation && e.Status == event.Running:
		fmt.Fprintln(c.out, c.stamp(e), viewed(&c.state))
	case e.Kind == event.KindOperation:
		fmt.Fprintln(c.out, c.stamp(e), e.Message)
	case e.Kind == event.KindObject:
		fmt.Fprintln(c.out, c.stamp(e), mark(c.style, e.Status), because(e.Object.String()+" of "+e.Group, e.Message))
	case e.Kind == event.KindGroup && c.told[e.Group] != e.Status:
		c.told[e.Group] = e.Status
		fmt.Fprintln(c.out, c.stamp(e), mark(c.style, e.Status), e.Group)
	}
}

// all prints all groups. The event about the last one may still be on its way,
// so what a group is comes from its objects.
func (c *changes) all() {
	c.printed, c.told = true, map[string]event.Status{}
	fmt.Fprintln(c.out, viewed(&c.state))
	groups := liveGroups(&c.state, nil)
	printGroups(c.out, groups, c.style)
	for _, g := range groups {
		c.told[g.ID] = g.Status
		if g.ready() == len(g.Objects) {
			c.told[g.ID] = event.Ready
		}
	}
}

func (c *changes) stamp(e event.Event) string {
	return paint(c.style, theme.Quiet, e.Time.Local().Format("15:04:05"))
}

// complete reports whether each object has been seen.
func (c *changes) complete() bool {
	if len(c.state.Phases) == 0 {
		return false
	}
	for _, p := range c.state.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if o.Applied.IsZero() {
					return false
				}
			}
		}
	}
	return true
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
