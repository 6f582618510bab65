package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// commonFlags are the flags that --help lists for commands with more than fewFlags.
var commonFlags = map[string]bool{
	"dry-run": true, "namespace": true, "rollback-on-failure": true, "set": true, "step": true, "strict": true,
	"tui": true, "values": true, "write": true,
}

// lineBreak matches a line break within a paragraph. fang wraps text at the terminal's width.
var lineBreak = regexp.MustCompile(`(\S)\n(\S)`)

const (
	fewFlags      = 6 // --help lists all flags of a command with at most this many local flags
	shortExamples = 3 // number of examples that --help shows
)

// shortenHelp makes the --help of every command fit in 24 lines: the first paragraph of its
// description, some examples and the common flags. "lockstep help COMMAND", man pages and
// completion show everything.
func shortenHelp(root *cobra.Command) {
	full := false
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.PersistentPreRun = func(*cobra.Command, []string) { full = true }
		show := help.RunE
		help.RunE = func(c *cobra.Command, args []string) error {
			if found, rest, err := root.Find(args); err != nil || len(args) > 0 && (found == root || len(rest) == len(args)) {
				return command.UsageError(fmt.Sprintf("no command or help page named %q", strings.Join(args, " ")))
			}
			return show(c, args)
		}
	}
	var shorten func(*cobra.Command)
	shorten = func(cmd *cobra.Command) {
		cmd.Long = lineBreak.ReplaceAllString(cmd.Long, "$1 $2")
		for _, sub := range cmd.Commands() {
			if sub.GroupID != "pages" {
				sub.SetHelpFunc(func(c *cobra.Command, args []string) {
					if full {
						showHelp(root, c, args)
						return
					}
					shortHelp(c, func() { showHelp(root, c, args) })
				})
			}
			shorten(sub)
		}
	}
	shorten(root)
}

// showHelp prints fang's help of a command, with "(default X)" where fang writes "(X)".
func showHelp(root, c *cobra.Command, args []string) {
	defaults := map[*pflag.Flag]string{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		defaults[f] = f.DefValue
		switch {
		case strings.Contains(f.Usage, "(default"), f.DefValue == "none":
			f.DefValue = ""
		case !slices.Contains([]string{"", "0", "[]", "false"}, f.DefValue): // fang omits these
			f.DefValue = "default " + f.DefValue
		}
	})
	root.HelpFunc()(c, args)
	for f, value := range defaults {
		f.DefValue = value
	}
}

// shortHelp prints the short help of a command.
func shortHelp(c *cobra.Command, print func()) {
	long, examples, own := c.Long, c.Example, 0
	c.Long, _, _ = strings.Cut(long, "\n\n")
	if lines := strings.Split(examples, "\n"); len(lines) > shortExamples {
		c.Example = strings.Join(lines[:shortExamples], "\n")
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			own++
		}
	})
	var hidden []*pflag.Flag
	c.Flags().VisitAll(func(f *pflag.Flag) {
		local := c.LocalNonPersistentFlags().Lookup(f.Name) != nil && f.Name != "help"
		if !f.Hidden && (c.HasAvailableSubCommands() || !commonFlags[f.Name] && (!local || own > fewFlags)) {
			f.Hidden = true
			hidden = append(hidden, f)
		}
	})
	print()
	c.Long, c.Example = long, examples
	for _, f := range hidden {
		f.Hidden = false
	}
	if len(hidden) > 0 || c.DisableFlagParsing {
		report.Page(c.OutOrStdout(), "  Details and all flags: lockstep help "+strings.TrimPrefix(c.CommandPath(), "lockstep ")+"\n")
	}
}
