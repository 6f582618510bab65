package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lockstep/ui/cli/command"
)

var update = flag.Bool("update", false, "write the table of help/flags.md")

// TestFlagsPage keeps the table of flags equal to the flags of install that Helm's install does not
// have, or that have a different default; -update writes it.
func TestFlagsPage(t *testing.T) {
	const path, begin, end = "help/flags.md", "<!-- flags -->\n", "<!-- /flags -->"
	install, helm := find(t, newRoot(command.NewSignals(t.Context())), "install"), find(t, newHelm(t), "install")
	table := "\n| flag | meaning | default |\n|---|---|---|\n"
	install.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if theirs := helm.Flags().Lookup(f.Name); f.Hidden || theirs != nil && theirs.DefValue == f.DefValue {
			return
		}
		_, usage := pflag.UnquoteUsage(f)
		value := strings.Trim(f.DefValue, "[]")
		if strings.Contains(usage, "(default") {
			value = ""
		}
		table += fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, usage, value)
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	want := before + begin + table + end + after
	switch {
	case !found:
		t.Fatalf("%s lacks the comments around the table of flags", path)
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case string(text) != want:
		t.Errorf("%s is outdated; run the test with -update", path)
	}
}

// TestFlagsPageListsUnlistedFlags: flags that the help of commands omits are on the page that errors
// about unknown flags point to.
func TestFlagsPageListsUnlistedFlags(t *testing.T) {
	text, err := os.ReadFile("help/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"atomic", "force"}, unlistedFlags...) {
		if !strings.Contains(string(text), "`--"+name+"`") {
			t.Errorf("the page does not list --%s", name)
		}
	}
}

// TestReadmeOutputs runs the commands in the README that need no cluster, and compares their output.
func TestReadmeOutputs(t *testing.T) {
	noCluster(t)
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	runs := 0
	for _, block := range strings.Split(string(text), "```\n$ lockstep ")[1:] {
		block, _, _ = strings.Cut(block, "```")
		line, shown, _ := strings.Cut(block, "\n")
		args := strings.Fields(line)
		if args[0] != "dag" && args[0] != "lint" && args[0] != "suggest" {
			continue
		}
		runs++
		printed, _, err := runCommand(args...)
		if err != nil {
			t.Errorf("lockstep %s: %v", line, err)
		}
		for want := range strings.Lines(shown) {
			if want != "…\n" && !strings.Contains(printed, want) {
				t.Errorf("lockstep %s does not print %q", line, want)
			}
		}
	}
	if runs < 3 {
		t.Errorf("found only %d commands in the README", runs)
	}
}
