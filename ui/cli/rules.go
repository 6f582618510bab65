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

// newRules returns the page with the rules that messages cite: all, or those in the arguments.
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
			return a.printPage(cmd, text)
		},
	}
}

// printPage prints a page of help.
func (a *app) printPage(cmd *cobra.Command, markdown string) error {
	width := 0
	if command.IsTerminal(os.Stdout) {
		width, _, _ = term.GetSize(int(os.Stdout.Fd())) // on an error 0, which does not wrap lines
	}
	return report.Markdown(cmd.OutOrStdout(), markdown, a.Style(os.Stdout), width)
}

// newEvents returns the page about events and their schema.
func (a *app) newEvents() *cobra.Command {
	return &cobra.Command{
		Use:     "events [schema]",
		Short:   "the JSON events of -o json, and their schema",
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
				return a.printPage(cmd, report.EventsDoc)
			case args[0] == "schema":
				report.Page(cmd.OutOrStdout(), report.EventsSchema)
			default:
				return fmt.Errorf("unknown page %q; try: lockstep help events schema", args[0])
			}
			return nil
		},
	}
}

// helpTakesArgs passes the arguments of "help rules R12" to the page. Cobra would drop them.
func helpTakesArgs(root *cobra.Command, pages ...*cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // InitDefaultHelpCmd has added it
	}
	find := func(args []string) *cobra.Command {
		for _, p := range pages {
			if len(args) > 0 && args[0] == p.Name() {
				return p
			}
		}
		return nil
	}
	print, run := help.Run, map[*cobra.Command]func(*cobra.Command, []string) error{}
	for _, p := range pages {
		run[p] = p.RunE // before Main wraps it to catch errors
	}
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if p := find(args); p != nil {
			return run[p](p, args[1:])
		}
		print(cmd, args)
		return nil
	}
	complete := help.ValidArgsFunction
	help.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if p := find(args); p != nil {
			return p.ValidArgsFunction(p, args[1:], word)
		}
		return complete(cmd, args, word)
	}
}
