package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lockstep/engine"
	"lockstep/engine/text"
	"lockstep/kube/status"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// newPage returns a help page: a command without Run, which cobra treats as a help topic.
func (a *app) newPage(name, title string, text func() string) *cobra.Command {
	page := &cobra.Command{Use: name, Short: title, GroupID: "pages"}
	page.SetHelpFunc(func(c *cobra.Command, _ []string) { _ = a.printPage(c, withKindRules(text())) }) // stdout may be closed
	return page
}

// withKindRules fills in the rules that the page about readiness lists.
func withKindRules(text string) string {
	builtIn, custom := status.KindRules()
	return strings.NewReplacer("{{built-in}}", builtIn, "{{custom}}", custom).Replace(text)
}

func isPage(cmd *cobra.Command) bool { return cmd.GroupID == "pages" }

// newRules returns the page of rules, which takes their numbers as arguments.
func (a *app) newRules() *cobra.Command {
	return &cobra.Command{
		Use: "rules [R12 …]", Short: "The rules that messages cite, as in (R12)", GroupID: "pages",
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

// printPage prints Markdown, wrapped at the width of the terminal.
func (a *app) printPage(cmd *cobra.Command, markdown string) error {
	width := 0
	if command.IsTerminal(os.Stdout) {
		width, _, _ = term.GetSize(int(os.Stdout.Fd())) // on an error 0, which does not wrap lines
	}
	return report.Markdown(cmd.OutOrStdout(), markdown, a.Style(os.Stdout), width)
}

// newEvents returns the page about events, which has their JSON schema as a second page.
func (a *app) newEvents() *cobra.Command {
	return &cobra.Command{
		Use: "events [schema]", Short: "The JSON events of -o json, and their schema", GroupID: "pages",
		Args: command.Args(0, 1),
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
				return fmt.Errorf("unknown page %q; try: "+text.Program+" help events schema", args[0])
			}
			return nil
		},
	}
}
