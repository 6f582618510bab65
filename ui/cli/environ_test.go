package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/ui/cli/command"
)

// TestVariablesDoNotClash: no variable that lockstep uses for something else is that of a flag.
func TestVariablesDoNotClash(t *testing.T) {
	flags := map[string]string{} // command and flag, by variable
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flags[command.EnvironmentVariable(f.Name)] = command.Path(cmd) + " --" + f.Name
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(command.NewSignals(t.Context())))
	var others []string
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range regexp.MustCompile(`"(LOCKSTEP_[A-Z_]*[A-Z])"`).FindAllSubmatch(source, -1) {
			others = append(others, string(match[1]))
		}
		return err
	})
	if err != nil || !slices.Contains(others, "LOCKSTEP_THEME") {
		t.Fatalf("variables in the sources: %v, %v", others, err)
	}
	for _, name := range others {
		if flag := flags[name]; flag != "" {
			t.Errorf("%s would also set %s", name, flag)
		}
	}
}

// TestEnvironmentSetsFlags: the kinds of flags, and which variables are not read.
func TestEnvironmentSetsFlags(t *testing.T) {
	for name, value := range map[string]string{
		"LOCKSTEP_LIST": "a=1\nb,c\n", "LOCKSTEP_CSV": "d,e", "LOCKSTEP_PAIRS": "k=v", "LOCKSTEP_OLD_NAME": "true", "LOCKSTEP_GIVEN": "1", "LOCKSTEP_EMPTY": "",
		"LOCKSTEP_TOKEN": "hidden but global", "LOCKSTEP_ONE": "1", "LOCKSTEP_VERSION": "9",
	} {
		t.Setenv(name, value)
	}
	root, sub := &cobra.Command{Use: "lockstep"}, &cobra.Command{Use: "sub", RunE: func(*cobra.Command, []string) error { return nil }}
	root.AddCommand(sub)
	root.PersistentFlags().String("token", "", "")
	_ = root.PersistentFlags().MarkHidden("token")
	f := sub.Flags()
	f.StringArray("list", nil, "")
	f.StringSlice("csv", nil, "")
	f.StringToString("pairs", nil, "")
	f.Bool("old-name", false, "")
	_ = f.MarkHidden("old-name")
	for _, name := range []string{"given", "empty", "version", "one", "other"} {
		f.String(name, "default", "")
	}
	sub.MarkFlagsMutuallyExclusive("one", "other")
	command.ReadEnvironment(root)
	root.SetArgs([]string{"sub", "--given", "2", "--other", "x"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"list": `[a=1,"b,c"]`, "csv": "[d,e]", "pairs": "[k=v]", "old-name": "false", "given": "2", "empty": "default", "version": "default", "one": "default",
		"token": "hidden but global",
	} {
		if got := sub.Flag(name); got.Value.String() != want || got.Changed != (want != "default" && want != "false") {
			t.Errorf("--%s is %s (changed: %v), want %s", name, got.Value, got.Changed, want)
		}
	}
	if source := command.FlagSource(sub.Flag("csv")) + " " + command.FlagSource(sub.Flag("given")); source != "LOCKSTEP_CSV --given" {
		t.Errorf("sources: %s", source)
	}
}
