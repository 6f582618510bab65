package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/text"
	"lockstep/ui/cli/command"
)

// setUpHelp makes --help print a page of at most 24 lines: the first paragraph of a command's description, some examples
// and the common flags. "lockstep help COMMAND", man pages and completion show everything.
func (a *app) setUpHelp(root *cobra.Command) {
	show := func(c *cobra.Command, full bool) { a.printHelp(c, full || c == root) }
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { show(c, false) })
	setUpHelpCommand(root, show)
}

// setUpHelpCommand makes "lockstep help" show the full help of a command. It passes further arguments to a page, and
// suggests a similar name for an unknown one.
func setUpHelpCommand(root *cobra.Command, show func(c *cobra.Command, full bool)) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // InitDefaultHelpCmd has added it
	}
	help.Use, help.Short = "help [COMMAND | PAGE]", "print the full help of a command, or a page"
	help.Long = "Print the full help of a command, or one of the pages that \"lockstep help\" lists."
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		switch {
		case err != nil || len(args) > 0 && found == root:
			return noHelp(root, strings.Join(args, " "))
		case isPage(found) && found.RunE != nil: // cobra would drop the arguments
			return found.RunE(found, rest)
		case isPage(found):
			return found.Help()
		}
		found.InitDefaultHelpFlag()
		show(found, true)
		return nil
	}
	complete := help.ValidArgsFunction
	help.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if found, rest, err := root.Find(args); err == nil && isPage(found) && found.ValidArgsFunction != nil {
			return found.ValidArgsFunction(found, rest, word)
		}
		return complete(cmd, args, word)
	}
}

// noHelp returns the error about a command or page that does not exist.
func noHelp(root *cobra.Command, name string) error {
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	next := "list them with: " + text.Program + " help"
	if similar := similarName(name, names); similar != "" {
		next = fmt.Sprintf("did you mean %s?", similar)
	}
	return fmt.Errorf("no command or help page named %q; %s", name, next)
}

// addCompletion adds cobra's command that prints completion scripts.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // InitDefaultCompletionCmd has added it
	}
	cmd.Short = "print the completion script for a shell"
	cmd.Long = "Print the completion script for a shell. The help of each subcommand says how to load the script."
	cmd.Args = command.Args(0, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, shell := range cmd.Commands() {
		shell.Args = command.Args(0, 0)
		shell.Short = "print the completion script for " + shell.Name()
		_, how, _ := strings.Cut(strings.ReplaceAll(shell.Long, "#### ", ""), "\n\n")
		shell.Long = "Print the completion script for " + shell.Name() + ".\n\n" + how
	}
}
