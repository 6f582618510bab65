package cli

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

// commonFlags are the flags that --help lists for a command with more than fewFlags flags, besides those of its examples,
// while there is room.
var commonFlags = []string{"namespace", "values", "file", "set", "write", "dry-run", "rollback-on-failure", "step", "tui", "strict"}

const (
	fewFlags      = 6 // --help lists all flags of a command with at most this many local flags
	shortExamples = 3 // number of examples that --help shows
	helpLines     = 24
	helpFrame     = 13  // lines of --help that are neither description nor examples nor flags
	helpWidth     = 118 // of a line of the description
)

// setUpHelp makes the --help of every command fit in 24 lines: the first paragraph of its
// description, some examples and the common flags. "lockstep help COMMAND", man pages and
// completion show everything.
func setUpHelp(root *cobra.Command) {
	full := false
	setUpHelpCommand(root, &full)
	var shorten func(*cobra.Command)
	shorten = func(cmd *cobra.Command) {
		cmd.Long = joinLines(cmd.Long)
		for _, sub := range cmd.Commands() {
			if !isPage(sub) {
				sub.SetHelpFunc(func(c *cobra.Command, args []string) {
					show := func() { showHelp(root, c, args) }
					if full {
						show()
					} else {
						shortHelp(root, c, show)
					}
				})
			}
			shorten(sub)
		}
	}
	shorten(root)
}

// joinLines joins the lines of each paragraph, because fang wraps text at the terminal's width. Every command does that to all
// descriptions when it starts; a regular expression would take a millisecond.
func joinLines(text string) string {
	joined := []byte(text)
	for i := 1; i < len(joined)-1; i++ {
		if joined[i] == '\n' && joined[i-1] > ' ' && joined[i+1] > ' ' {
			joined[i] = ' '
		}
	}
	return string(joined)
}

// setUpHelpCommand makes "lockstep help" set full before it shows the help of a command. It passes
// further arguments to a page, and suggests a similar name for an unknown one.
func setUpHelpCommand(root *cobra.Command, full *bool) {
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
		}
		*full = true
		found.InitDefaultHelpFlag()
		found.InitDefaultVersionFlag()
		return found.Help()
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
	next := "list them with: lockstep help"
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

// showHelp prints fang's help of a command, with "(default X)" where fang writes "(X)", without
// clusterFlags if the command does not use them, and with the command's own usage of --namespace.
func showHelp(root, c *cobra.Command, args []string) {
	long := c.Long
	defer func() { c.Long = long }()
	c.Long = wrapped(long)
	for _, name := range uselessFlags(c) {
		if f := c.Flag(name); f != nil && !f.Hidden {
			f.Hidden = true
			defer func() { f.Hidden = false }()
		}
	}
	if f := c.Flag("namespace"); f != nil && c.Annotations[input.NamespaceUsage] != "" {
		original := f.Usage
		f.Usage = c.Annotations[input.NamespaceUsage]
		defer func() { f.Usage = original }()
	}
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

// wrapped returns a description in lines that fang need not wrap, since it would split flags at their hyphens.
func wrapped(long string) string {
	width := helpWidth
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		width = min(width, columns-2)
	}
	var lines []string
	for line := range strings.SplitSeq(long, "\n") {
		if line == "" || strings.HasPrefix(line, " ") {
			lines = append(lines, line)
		} else {
			lines = append(lines, report.Fill(line, width, "")...)
		}
	}
	return strings.Join(lines, "\n")
}

// noClusterCommands and their subcommands use neither a cluster nor a chart.
var (
	noClusterCommands = []string{"completion", "help", "version", "runs rm"}
	clusterFlags      = []string{"namespace", "kubeconfig", "kube-context", "registry-config", "repository-config"}
)

// uselessFlags returns the global flags that a command refuses or that have no effect on it. Help does not list them.
func uselessFlags(c *cobra.Command) []string {
	usesNone := func(c *cobra.Command) bool { return slices.Contains(noClusterCommands, command.Path(c)) }
	switch {
	case c.DisableFlagParsing: // another program parses the flags
		return append([]string{"color", "debug"}, clusterFlags...)
	case usesNone(c), c.HasParent() && usesNone(c.Parent()):
		return clusterFlags
	}
	return nil
}

// exampleFlag matches a flag in an example, with its name or shorthand as $1. notLockstep matches the rest of a line that
// is a comment or another program.
var (
	exampleFlag = regexp.MustCompile(` --?([a-zA-Z][\w-]*)`)
	notLockstep = regexp.MustCompile(`[|#].*`)
)

// shortHelp calls show, which prints the help of c, while the less common parts of c are hidden.
func shortHelp(root, c *cobra.Command, show func()) {
	long, examples, localFlags := c.Long, c.Example, 0
	c.Long, _, _ = strings.Cut(long, "\n\n")
	if lines := strings.Split(examples, "\n"); len(lines) > shortExamples {
		c.Example = strings.Join(lines[:shortExamples], "\n")
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			localFlags++
		}
	})
	shown := flagsOfShortHelp(c)
	var hidden []*pflag.Flag
	c.Flags().VisitAll(func(f *pflag.Flag) {
		local := c.LocalNonPersistentFlags().Lookup(f.Name) != nil && f.Name != "help"
		if !f.Hidden && (c.HasAvailableSubCommands() || !shown[f.Name] && (!local || localFlags > fewFlags)) {
			f.Hidden = true
			hidden = append(hidden, f)
		}
	})
	show()
	c.Long, c.Example = long, examples
	for _, f := range hidden {
		f.Hidden = false
	}
	if len(hidden) > 0 || c.DisableFlagParsing { // c.Long lists the flags that cobra does not parse
		report.Page(c.OutOrStdout(), "  Details and more flags: "+root.DisplayName()+" help "+command.Path(c)+"\n")
	}
}

// flagsOfShortHelp returns the flags that --help lists, by name: those of the examples, and the common ones for which
// there is room.
func flagsOfShortHelp(c *cobra.Command) map[string]bool {
	room := helpLines - helpFrame - strings.Count(c.Example, "\n") - 1 - (len(c.Long)+helpWidth-1)/helpWidth
	shown, inExamples := map[string]bool{}, map[string]bool{}
	for _, m := range exampleFlag.FindAllStringSubmatch(notLockstep.ReplaceAllString(c.Example, ""), -1) {
		inExamples[m[1]] = true
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (inExamples[f.Name] || f.Shorthand != "" && inExamples[f.Shorthand]) {
			shown[f.Name] = true
		}
	})
	for _, name := range commonFlags {
		if f := c.Flag(name); f != nil && !f.Hidden && len(shown) < room {
			shown[name] = true
		}
	}
	return shown
}
