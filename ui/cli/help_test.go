package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// withoutNamespace are commands whose help must not list --namespace, because they ignore it.
var withoutNamespace = []string{"completion", "help", "completion bash", "version", "sandbox", "runs rm"}

// TestHelpFitsScreen: --help of each command has at most 24 lines at 80 columns. No line of the full help is too wide,
// except examples, lines that a description lays out itself, and single words, and no flag is missing.
func TestHelpFitsScreen(t *testing.T) {
	var commands []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Long != "" {
				commands = append(commands, sub)
			}
			walk(sub)
		}
	}
	walk(newRoot(command.NewSignals(t.Context())))
	if len(commands) < 20 {
		t.Fatalf("found only %d commands", len(commands))
	}
	for _, c := range commands {
		for _, width := range []int{80, helpWidth} {
			short := helpText{width: width}
			short.page(c, false)
			out := strings.Join(short.lines, "\n")
			if len(short.lines) > helpLines {
				t.Errorf("%s --help has %d lines at %d columns:\n%s", c.CommandPath(), len(short.lines), width, out)
			}
			if slices.Contains(withoutNamespace, command.Path(c)) && strings.Contains(out, "--namespace") {
				t.Errorf("%s --help lists --namespace, which it ignores", c.CommandPath())
			}
		}
		for _, width := range []int{60, 80, helpWidth} {
			full := helpText{width: width}
			full.page(c, true)
			out := strings.Join(full.lines, "\n")
			for _, line := range full.lines {
				kept := strings.Contains("\n"+c.Long+"\n"+c.Example+"\n", "\n"+line+"\n") || strings.HasPrefix(line, "  lockstep") || len(strings.Fields(line)) == 1
				if ansi.StringWidth(line) > width && !kept && !strings.HasPrefix(line, "Usage:") {
					t.Errorf("help %s at %d columns has a wider line: %q", command.Path(c), width, line)
				}
			}
			for _, f := range listedFlags(c) {
				if !strings.Contains(out, strings.TrimSpace(flagName(f))) {
					t.Errorf("help %s at %d columns does not list %s", command.Path(c), width, flagName(f))
				}
			}
			for _, line := range exampleLines(c) {
				if line, _, _ = strings.Cut(line, " #"); !strings.Contains(out, strings.TrimRight(line, " ")) {
					t.Errorf("help %s at %d columns does not have the example %q", command.Path(c), width, line)
				}
			}
		}
	}
}

// TestHelpHasTheFlagsThatMostUse: --help of install at 80 columns has the flags of a first deployment, with the names of
// their values.
func TestHelpHasTheFlagsThatMostUse(t *testing.T) {
	for name, want := range map[string][]string{
		"install": {"--timeout DURATION", "--rollback-on-failure", "--no-tui", "--version VERSION", "--order"},
		"up":      {"--sandbox", "--allow-hooks", "--set KEY=VALUE"},
	} {
		c, _, err := newRoot(command.NewSignals(t.Context())).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		h := helpText{width: 80}
		h.page(c, false)
		out := strings.Join(h.lines, "\n")
		for _, flag := range want {
			if !strings.Contains(out, flag) {
				t.Errorf("%s --help does not list %s:\n%s", name, flag, out)
			}
		}
	}
}

// TestHelpOfSandbox: the help of sandbox does not list lockstep's global flags, which lockstep-sandbox refuses.
func TestHelpOfSandbox(t *testing.T) {
	out, err := program(t, nil, "help", "sandbox").Output()
	for _, name := range []string{"--color", "--debug", "--kube-context"} {
		if err != nil || strings.Contains(string(out), name) {
			t.Errorf("help sandbox lists %s (error %v):\n%s", name, err, out)
		}
	}
}

// TestFlagsAreGrouped: the full help of a command that deploys lists each flag below its subject. Each name in the groups is a
// flag of some command, and in one group only.
func TestFlagsAreGrouped(t *testing.T) {
	root := newRoot(command.NewSignals(t.Context()))
	for _, name := range []string{"install", "upgrade", "rollback", "uninstall", "up", "down", "manifests", "plan"} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		c.InitDefaultHelpFlag()
		for _, s := range groupFlags(listedFlags(c)) {
			for _, f := range s.flags {
				if s.title == "Flags" && f.Name != "approvals" {
					t.Errorf("--%s of %s is in no group", f.Name, name)
				}
			}
		}
	}
	known, group := map[string]bool{}, map[string]string{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		for _, f := range listedFlags(c) {
			known[f.Name] = true
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, g := range flagGroups {
		for name := range strings.FieldsSeq(g.names) {
			if !known[name] {
				t.Errorf("no command has --%s", name)
			}
			if group[name] != "" {
				t.Errorf("--%s is below %q and %q", name, group[name], g.title)
			}
			group[name] = g.title
		}
	}
}
