// Package home implements the command home, which lockstep runs without a command in a terminal. It connects the screen of
// package ui/home to a cluster and to the runs of this machine, and runs the commands that the screen ends with, each in a process
// that can continue without it. Only ui/cli imports it.
package home

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/kube/helmfile"
	"lockstep/theme"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/forms"
	"lockstep/ui/cli/screen"
	"lockstep/ui/home"
)

const homeLong = `Show the live runs and the releases of a namespace: charts, revisions, health, and who changed them last. In a terminal,
"lockstep" without a command opens home, too.

The releases of a stack that this machine deployed within a day form a tree, whatever namespaces they are in.

Enter attaches to the selected run, or opens the selected release group by group; esc goes back. h lists the revisions of a
release and what each changed, compares any two, replays their runs, rolls back, and upgrades with the values of one. u, i, r, x
and T open forms to upgrade, install, roll back, uninstall and test; a form shows the plan and the command before anything is
written. U runs "lockstep up --step" for the helmfile here. "lockstep help keys" lists all keys.

Home itself changes nothing: it runs ordinary commands of lockstep, which it shows first, and comes back when they end, until you quit. Esc in a
live run returns to home, which lists the run at the top; the run continues, even after you quit home.

Releases are read as Helm stores them, in Secrets or ConfigMaps. Home watches them and the kinds of their objects, so its requests
do not grow with the number of releases. Keys for which you lack the permissions in a namespace are dimmed.`

type app struct{ *command.App }

// New returns the command.
func New(shared *command.App) *cobra.Command {
	a := &app{shared}
	var all bool
	cmd := &cobra.Command{
		Use: "home", GroupID: "release", Short: "manage live runs and releases", Long: homeLong,
		Example: `lockstep
lockstep home -n shop
lockstep home -A`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.home(cmd, all) },
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "show all namespaces")
	return cmd
}

// home shows home until the user quits, and runs the commands that it ends with.
func (a *app) home(cmd *cobra.Command, all bool) error {
	if err := command.CheckScreen(); err != nil {
		return err
	}
	client, err := a.Connect()
	if err != nil {
		return err
	}
	o := home.Options{
		Source: &source{client: client}, State: &home.State{Namespace: a.Settings.Namespace(), All: all}, Context: client.ContextName(),
		Form: forms.ForHome(cmd, a.App), Helmfile: helmfile.Exists("."),
	}
	for cmd.Context().Err() == nil {
		args, err := a.show(cmd, o)
		if err != nil || args == nil {
			return err
		}
		o.Notice, o.NoticeRole = start(cmd, args, o.State.Place())
	}
	return context.Cause(cmd.Context())
}

// show shows home once.
func (a *app) show(cmd *cobra.Command, o home.Options) ([]string, error) {
	defer screen.OpenTheme(a.App, cmd, &o.Theme)()
	args, err := home.Run(cmd.Context(), o)
	if cmd.Context().Err() != nil {
		return nil, nil // a signal quits, as the key q does
	}
	return args, err
}

// start runs a command line. It returns what home says about its end.
func start(cmd *cobra.Command, args []string, returnTo string) (notice string, role theme.Role) {
	failure := command.RunFromHome(append(command.ConnectionArgs(cmd, nil), args...), returnTo)
	if failure == "" {
		return "", theme.Text
	}
	return strings.Join(args[:min(len(args), 2)], " ") + ": " + failure, theme.Bad
}
