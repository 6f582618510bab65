package cli

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// TestHelmFlags compares flags with Helm's: no flag of Helm may be missing or have a different
// shorthand or default.
func TestHelmFlags(t *testing.T) {
	flags, aliases := helmFlags(t)
	differences := map[string][]string{ // flags that lockstep lacks, or that differ
		"install":   {"output", "wait", "wait-for-jobs"}, // not given is not false (R22)
		"upgrade":   {"output", "wait", "wait-for-jobs"},
		"rollback":  {"wait", "wait-for-jobs"},
		"uninstall": {"wait"},
		"test":      {"output"},
		"template":  {"wait"},
	}
	root := newRoot(command.NewSignals(t.Context()))
	for _, f := range flags {
		if f.name == "help" || slices.Contains(differences[f.command], f.name) {
			continue
		}
		mine := find(t, root, f.command).Flags().Lookup(f.name)
		switch {
		case mine == nil:
			t.Errorf("%s --%s is missing", f.command, f.name)
		case mine.Shorthand != f.shorthand:
			t.Errorf("%s --%s is -%s, want -%s", f.command, f.name, mine.Shorthand, f.shorthand)
		case mine.DefValue != f.value:
			t.Errorf("%s --%s is %q by default, want %q", f.command, f.name, mine.DefValue, f.value)
		}
	}
	for path, want := range aliases {
		if ours := strings.Join(find(t, root, path).Aliases, ","); ours != want {
			t.Errorf("%s: aliases %s, want %s", path, ours, want)
		}
	}
}

type helmFlag struct{ command, name, shorthand, value string }

// helmFlags returns the flags and aliases of Helm's commands, from the list that TestHelmFlags of the root package keeps, and sets
// the home folder of its defaults.
func helmFlags(t *testing.T) (flags []helmFlag, aliases map[string]string) {
	t.Helper()
	t.Setenv("HOME", "/home/user")
	t.Setenv("GNUPGHOME", "/home/user/.gnupg")
	list, err := os.ReadFile("testdata/helm-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	aliases = map[string]string{}
	for line := range strings.Lines(string(list)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if f[1] == "aliases" {
			aliases[f[0]] = f[2]
			continue
		}
		value, err := strconv.Unquote(f[4])
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, helmFlag{command: f[0], name: f[2], shorthand: f[3], value: value})
	}
	return flags, aliases
}

func find(t *testing.T, root *cobra.Command, path string) *cobra.Command {
	t.Helper()
	cmd, rest, err := root.Find(strings.Fields(path))
	if err != nil || len(rest) > 0 {
		t.Fatalf("%s: %v", path, err)
	}
	return cmd
}
