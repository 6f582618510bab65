package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lockstep/engine"
	"lockstep/ui/report"
)

// newRules is the page of help about the rules that messages cite: all of them,
// or those that are named.
func (a *app) newRules() *cobra.Command {
	return &cobra.Command{
		Use:     "rules [R12 …]",
		Short:   "the rules that messages cite, as in (R12)",
		GroupID: "more",
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
			if isTerminal(os.Stdout) {
				width, _, _ = term.GetSize(int(os.Stdout.Fd())) // 0: as for a file
			}
			return report.Rules(cmd.OutOrStdout(), text, streamStyle(os.Stdout, a.settings.ColorMode), width)
		},
	}
}

// helpTakesRules has "help rules R12" do what "rules R12" does: cobra's help
// drops what follows the name of a command.
func helpTakesRules(root, rules *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // the line above has just added it
	}
	of, run := help.Run, rules.RunE
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && args[0] == rules.Name() {
			return run(rules, args[1:])
		}
		of(cmd, args)
		return nil
	}
	complete := help.ValidArgsFunction
	help.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && args[0] == rules.Name() {
			return rules.ValidArgsFunction(rules, args[1:], word)
		}
		return complete(cmd, args, word)
	}
}
