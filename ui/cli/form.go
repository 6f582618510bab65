package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
	"lockstep/ui/cli/forms"
)

// formArgs is how many arguments each command that has a form needs.
var formArgs = map[string]int{"install": 2, "upgrade": 2, "rollback": 1, "uninstall": 1, "test": 1}

// addForms makes commands ask for missing arguments in a form, on terminals that allow the screen. Elsewhere they are an error.
func (a *app) addForms(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		needed, ok := formArgs[cmd.Name()]
		if !ok {
			continue
		}
		cmd.Long += "\n\nIn a terminal, a form asks for missing arguments and shows the plan before the start; see \"lockstep help forms\"."
		check, run := cmd.Args, cmd.RunE
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if asks(cmd, args, needed) {
				return nil
			}
			return check(cmd, args)
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if !asks(cmd, args, needed) {
				return run(cmd, args)
			}
			line, err := forms.Ask(a.App, cmd, args)
			switch {
			case err != nil:
				return err
			case line == nil:
				return command.Exit(command.ExitAborted, errors.New("cancelled; nothing was written"))
			}
			return a.runLine(cmd.Context(), line)
		}
	}
}

// asks reports whether a command opens a form. A dry run and a generated name are for scripts.
func asks(cmd *cobra.Command, args []string, needed int) bool {
	for _, name := range []string{"dry-run", "generate-name", "name-template"} {
		if f := cmd.Flag(name); f != nil && f.Changed {
			return false
		}
	}
	return len(args) < needed && command.UseScreen(cmd)
}

// runLine runs a command line, without the name of the program, in this process.
func (a *app) runLine(ctx context.Context, args []string) error {
	return rootFor(a.Signals, args).ExecuteContext(ctx)
}
