package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lockstep/engine"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// newRules is the page of help about the rules that messages cite: all of them,
// or those that are named.
func (a *app) newRules() *cobra.Command {
	return &cobra.Command{
		Use:     "rules [R12 …]",
		Short:   "the rules that messages cite, as in (R12)",
		GroupID: "pages",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			for _, r := range engine.Rules() {
				ids = append(ids, r.ID+"\t"+r.Title)
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text := engine.RulesDoc
			if len(args) > 0 {
				var entries []string
				for _, name := range args {
					r, err := engine.FindRule(name)
					if err != nil {
						return err
					}
					entries = append(entries, r.Text)
				}
				text = strings.Join(entries, "\n")
			}
			width := 0
			if command.IsTerminal(os.Stdout) {
				width, _, _ = term.GetSize(int(os.Stdout.Fd())) // 0: as for a file
			}
			return report.Rules(cmd.OutOrStdout(), text, command.StyleOf(os.Stdout, a.Settings.ColorMode), width)
		},
	}
}

// newEvents is the page of help about events, or their schema.
func newEvents() *cobra.Command {
	return &cobra.Command{
		Use:     "events [schema]",
		Short:   "what -o json prints; \"schema\" is its JSON schema",
		GroupID: "pages",
		Args:    command.Args(0, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"schema\tthe JSON schema of a line"}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				report.Page(cmd.OutOrStdout(), report.EventsDoc)
			case args[0] == "schema":
				report.Page(cmd.OutOrStdout(), report.EventsSchema)
			default:
				return fmt.Errorf("there is no page %q about events; there is schema", args[0])
			}
			return nil
		},
	}
}

// helpTakesWords has "help rules R12" do what "rules R12" does: cobra's help drops
// what follows the name of a command.
func helpTakesWords(root *cobra.Command, topics ...*cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // the line above has just added it
	}
	find := func(args []string) *cobra.Command {
		for _, t := range topics {
			if len(args) > 0 && args[0] == t.Name() {
				return t
			}
		}
		return nil
	}
	of, run := help.Run, map[*cobra.Command]func(*cobra.Command, []string) error{}
	for _, t := range topics {
		run[t] = t.RunE // as it is now: Main catches the errors of all commands, once
	}
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if t := find(args); t != nil {
			return run[t](t, args[1:])
		}
		of(cmd, args)
		return nil
	}
	complete := help.ValidArgsFunction
	help.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if t := find(args); t != nil {
			return t.ValidArgsFunction(t, args[1:], word)
		}
		return complete(cmd, args, word)
	}
}
