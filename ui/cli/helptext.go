package cli

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

const (
	helpWidth     = 100 // of the longest line, if the terminal is not narrower
	helpLines     = 24  // of --help
	shortExamples = 3   // number of examples that --help shows
	keyWidth      = 28  // of the widest flag whose text starts on the same line
	fewFlags      = 6   // --help lists all flags of a command with at most this many
)

// commonFlags are the flags that --help lists while there is room, after those of its examples.
var commonFlags = []string{"namespace", "values", "file", "sandbox", "set", "allow-hooks", "timeout", "rollback-on-failure", "no-tui",
	"version", "write", "dry-run", "step", "tui", "strict"}

// valueNames are the names of the values of flags in help. Of other flags the type decides.
var valueNames = map[string]string{
	"namespace": "NAME", "kube-context": "NAME", "environment": "NAME", "name-template": "TEMPLATE", "template": "TEMPLATE",
	"values": "FILE", "file": "FILE", "plan": "FILE", "out": "FILE", "kubeconfig": "FILE", "keyring": "FILE", "report": "FORMAT=FILE",
	"output": "FORMAT", "wait": "STRATEGY", "version": "VERSION", "repo": "URL", "notify": "URL", "image": "IMAGE",
	"break-on": "GROUP", "run-to": "GROUP", "approve": "GROUP", "approve-before": "GROUP", "selector": "LABELS", "labels": "KEY=VALUE",
	"description": "TEXT", "reason": "TEXT", "past-no-return": "REASON", "replace": "KIND", "revision": "N", "wait-for": "OBJECT",
	"no-wait-for": "OBJECT", "service-account": "NAME", "username": "NAME", "stack": "NAME", "color": "WHEN",
	"prune-namespace": "NAME", "on-hangup": "ACTION", "on-interrupt": "ACTION", "crds": "ACTION", "order": "KIND", "cascade": "HOW",
}

// helpText formats the help of a command at a width.
type helpText struct {
	style report.Style
	width int
	lines []string
}

// printHelp prints the help of a command.
func (a *app) printHelp(c *cobra.Command, full bool) {
	stdout := command.NewStream(os.Stdout, os.Stdout, a.Settings.ColorMode)
	h := helpText{style: stdout.Style, width: min(cmp.Or(stdout.Width, helpWidth), helpWidth)}
	h.page(c, full)
	report.Styled(c.OutOrStdout(), h.style, strings.Join(h.lines, "\n")+"\n")
}

func (h *helpText) add(lines ...string) { h.lines = append(h.lines, lines...) }

// page adds all sections. Without full they fit in helpLines, and the last line names the page with the rest.
func (h *helpText) page(c *cobra.Command, full bool) {
	long, examples := cmp.Or(c.Long, capital(c.Short)), exampleLines(c)
	if !full {
		long, _, _ = strings.Cut(long, "\n\n")
		examples = examples[:min(shortExamples, len(examples))]
	}
	h.description(long)
	h.add("")
	h.add(report.Fill(h.style.Title("Usage:")+" "+usageLine(c), h.width, "  ")...)
	h.examples(examples, full)
	h.commands(c)
	var more []string
	all := listedFlags(c)
	flags := all
	if !full {
		more = []string{"", "Details and more flags: " + c.Root().DisplayName() + " help " + command.Path(c)}
		flags = h.commonFlags(c, all, examples, helpLines-len(h.lines)-len(more))
		if len(flags) == len(all) && !c.DisableFlagParsing && !c.HasAvailableSubCommands() {
			more = nil
		}
	}
	if len(flags) > 0 {
		h.add(h.flags(c, flags, full)...)
	}
	h.add(more...)
}

// description adds paragraphs, and keeps lines that start with a space.
func (h *helpText) description(long string) {
	paragraph := ""
	flush := func() {
		h.add(report.Fill(paragraph, h.width, "")...)
		paragraph = ""
	}
	for line := range strings.SplitSeq(long, "\n") {
		if line != "" && line[0] != ' ' {
			paragraph += line + " "
			continue
		}
		flush()
		h.add(line)
	}
	flush()
}

// usageLine returns the arguments of a command.
func usageLine(c *cobra.Command) string {
	use := strings.TrimSuffix(c.UseLine(), " [flags]")
	switch {
	case !c.HasAvailableSubCommands() || strings.Contains(use, "COMMAND"):
	case c.Runnable() || c == c.Root():
		use += " [COMMAND]"
	default:
		use += " COMMAND"
	}
	if c.HasAvailableFlags() && !strings.Contains(use, "[flags]") {
		use += " [flags]"
	}
	return use
}

func exampleLines(c *cobra.Command) []string {
	if c.Example == "" {
		return nil
	}
	return strings.Split(strings.Trim(c.Example, "\n"), "\n")
}

var exampleComment = regexp.MustCompile(`\s+(# .*)$`)

// examples adds examples, never wrapped. If one is too long with its comment, the full help has the comment on the line before.
func (h *helpText) examples(examples []string, full bool) {
	if len(examples) == 0 {
		return
	}
	h.add("", h.style.Title("Examples:"))
	for _, line := range examples {
		comment := exampleComment.FindStringSubmatch(line)
		if comment != nil && ansi.StringWidth(line)+2 > h.width {
			if full {
				h.add("  " + comment[1])
			}
			line = strings.TrimSuffix(line, comment[0])
		}
		h.add("  " + line)
	}
}

// commands adds the subcommands by group.
func (h *helpText) commands(c *cobra.Command) {
	for _, g := range append([]*cobra.Group{{Title: "commands"}}, c.Groups()...) {
		title := false
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.GroupID != g.ID {
				continue
			}
			if !title {
				h.add("", h.style.Title(capital(g.Title)+":"))
				title = true
			}
			h.add(h.entry("  "+sub.Name(), capital(sub.Short), 20)...)
		}
	}
}

// entry returns a name and its text, which is indented by column. A long name has a separate line.
func (h *helpText) entry(name, text string, column int) []string {
	lines := report.Fill(text, max(h.width-column, 20), "")
	indent := strings.Repeat(" ", column)
	for i := range lines {
		lines[i] = indent + lines[i]
	}
	if n := ansi.StringWidth(name); n+2 <= column && len(lines) > 0 {
		lines[0] = h.style.Name(name) + lines[0][n:]
		return lines
	}
	return append([]string{h.style.Name(name)}, lines...)
}

// flags returns the section of flags; without full, with the first part of each text only.
func (h *helpText) flags(c *cobra.Command, flags []*pflag.Flag, full bool) []string {
	column := 0
	for _, f := range flags {
		if n := ansi.StringWidth(flagName(f)) + 2; n <= keyWidth+2 {
			column = max(column, n)
		}
	}
	var lines []string
	sections := []flagSection{{"Flags", flags}}
	if full {
		sections = groupFlags(flags)
	}
	for _, section := range sections {
		lines = append(lines, "", h.style.Title(section.title+":"))
		for _, f := range section.flags {
			lines = append(lines, h.entry(flagName(f), flagText(c, f, full), column)...)
		}
	}
	return lines
}

// flagName returns a flag with its shorthand and the name of its value.
func flagName(f *pflag.Flag) string {
	name := "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	kind := f.Value.Type()
	value := cmp.Or(valueNames[f.Name], map[string]string{"duration": "DURATION", "int": "N"}[kind], "VALUE")
	switch {
	case f.Name == "set", strings.HasPrefix(f.Name, "set-"), f.Name == "state-values-set":
		value = "KEY=VALUE"
	case strings.HasSuffix(f.Name, "-file"), strings.HasSuffix(f.Name, "-config"):
		value = "FILE"
	}
	switch {
	case kind == "bool":
		return name
	case f.NoOptDefVal != "":
		return name + "[=" + value + "]"
	}
	return name + " " + value
}

// usageDetails matches what follows the first part of a flag's usage.
var usageDetails = regexp.MustCompile(`(: |; | \().*`)

// flagText returns the usage of a flag in a command, with its default.
func flagText(c *cobra.Command, f *pflag.Flag, full bool) string {
	usage := f.Usage
	if own := c.Annotations[input.NamespaceUsage]; own != "" && f.Name == "namespace" {
		usage = own
	}
	if !full {
		usage = usageDetails.ReplaceAllString(usage, "")
	}
	unset := []string{"", "0", "0s", "[]", "false", "none"}
	if !strings.Contains(usage, "(default") && !slices.Contains(unset, f.DefValue) {
		usage += " (default " + strings.Trim(f.DefValue, "[]") + ")"
	}
	return capital(usage)
}

// capital returns a text with a capital letter, unless it starts with the program's name.
func capital(s string) string {
	if strings.HasPrefix(s, "lockstep") {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// listedFlags returns the flags of a command that help lists.
func listedFlags(c *cobra.Command) (flags []*pflag.Flag) {
	useless := uselessFlags(c)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(useless, f.Name) {
			flags = append(flags, f)
		}
	})
	return flags
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

// commonFlags returns the flags that fit in a number of lines: first those of the examples, then the common ones; or all
// flags of a command with few.
func (h *helpText) commonFlags(c *cobra.Command, all []*pflag.Flag, examples []string, room int) []*pflag.Flag {
	if c.HasAvailableSubCommands() && len(examples) == 0 { // it does nothing itself
		return nil
	}
	var wanted []string
	for _, line := range examples {
		for _, m := range exampleFlag.FindAllStringSubmatch(notLockstep.ReplaceAllString(line, ""), -1) {
			wanted = append(wanted, m[1])
		}
	}
	wanted = append(wanted, commonFlags...)
	var local []string
	for _, f := range all {
		if c.LocalNonPersistentFlags().Lookup(f.Name) != nil && f.Name != "help" {
			local = append(local, f.Name)
		}
	}
	if len(local) <= fewFlags {
		wanted = append(wanted, local...)
	}
	shown := map[*pflag.Flag]bool{}
	chosen := func() []*pflag.Flag {
		return slices.DeleteFunc(slices.Clone(all), func(f *pflag.Flag) bool { return !shown[f] })
	}
	for _, name := range wanted {
		i := slices.IndexFunc(all, func(f *pflag.Flag) bool { return f.Name == name || f.Shorthand == name })
		if i < 0 || shown[all[i]] {
			continue
		}
		shown[all[i]] = true
		if len(h.flags(c, chosen(), false)) > room {
			delete(shown, all[i])
		}
	}
	return chosen()
}
