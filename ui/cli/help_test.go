package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// withoutNamespace are commands whose help must not list --namespace, because they ignore it.
var withoutNamespace = []string{"completion", "help", "completion bash", "version", "sandbox", "runs rm"}

// TestHelpFitsScreen: --help of each command has at most 24 lines and names the page with the rest.
func TestHelpFitsScreen(t *testing.T) {
	var paths [][]string
	var walk func(*cobra.Command, []string)
	walk = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			p := append(path[:len(path):len(path)], sub.Name())
			if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Long != "" {
				paths = append(paths, p)
			}
			walk(sub, p)
		}
	}
	walk(newRoot(command.NewSignals(t.Context())), nil)
	if len(paths) < 20 {
		t.Fatalf("found only %d commands", len(paths))
	}
	for _, path := range paths {
		out, _, err := runCommand(append(path, "--help")...)
		if lines := strings.Count(out, "\n"); err != nil || lines > 24 {
			t.Errorf("%s --help: %d lines, %v\n%s", strings.Join(path, " "), lines, err, out)
		}
		if noNamespace := slices.Contains(withoutNamespace, strings.Join(path, " ")); noNamespace && strings.Contains(out, "--namespace") {
			t.Errorf("%s --help lists --namespace, which it ignores", strings.Join(path, " "))
		}
	}
}

// TestHelpKeepsFlagsWhole: no line of a description ends within a flag.
func TestHelpKeepsFlagsWhole(t *testing.T) {
	out, err := program(t, nil, "help", "install").Output()
	for line := range strings.Lines(string(out)) {
		if err != nil || strings.HasSuffix(strings.TrimSpace(line), "-") {
			t.Errorf("the line ends within a word: %q, %v", line, err)
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
