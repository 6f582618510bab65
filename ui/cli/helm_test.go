package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcmd "helm.sh/helm/v4/pkg/cmd"

	"lockstep/ui/cli/command"
)

// TestHelmFlags compares flags with Helm's: no flag of Helm may be missing or have a different
// shorthand or default.
func TestHelmFlags(t *testing.T) {
	helm := newHelm(t)
	differences := map[string][]string{ // flags that lockstep lacks, or that differ
		"install":   {"output", "wait", "wait-for-jobs"}, // not given is not false (R22)
		"upgrade":   {"output", "wait", "wait-for-jobs"},
		"rollback":  {"wait", "wait-for-jobs"},
		"uninstall": {"wait"},
		"test":      {"output"},
	}
	for _, path := range []string{
		"history", "list", "status", "get all", "get hooks", "get manifest", "get metadata", "get notes", "get values",
		"install", "upgrade", "rollback", "uninstall", "test",
	} {
		t.Run(path, func(t *testing.T) {
			theirs, ours := find(t, helm, path), find(t, newRoot(command.NewSignals(t.Context())), path)
			theirs.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name == "help" || slices.Contains(differences[path], f.Name) {
					return
				}
				mine := ours.Flags().Lookup(f.Name)
				switch {
				case mine == nil:
					t.Errorf("--%s is missing", f.Name)
				case mine.Shorthand != f.Shorthand:
					t.Errorf("--%s is -%s, want -%s", f.Name, mine.Shorthand, f.Shorthand)
				case mine.DefValue != f.DefValue:
					t.Errorf("--%s is %q by default, want %q", f.Name, mine.DefValue, f.DefValue)
				}
			})
			if slices.Equal(theirs.Aliases, ours.Aliases) {
				return
			}
			t.Errorf("aliases %v, want %v", ours.Aliases, theirs.Aliases)
		})
	}
}

// newHelm returns Helm's command line, without plugins.
func newHelm(t *testing.T) *cobra.Command {
	t.Helper()
	t.Setenv("HELM_NO_PLUGINS", "1")
	helm, err := helmcmd.NewRootCmd(io.Discard, nil, func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	return helm
}

func find(t *testing.T, root *cobra.Command, path string) *cobra.Command {
	t.Helper()
	cmd, rest, err := root.Find(strings.Fields(path))
	if err != nil || len(rest) > 0 {
		t.Fatalf("%s: %v", path, err)
	}
	return cmd
}
