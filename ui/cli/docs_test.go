package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/cli/command"
	"lockstep/ui/golden"
)

// TestFlagsPage keeps the table of flags equal to the flags of install that Helm's install does not
// have, or that have a different default; -update writes it.
func TestFlagsPage(t *testing.T) {
	flags, _ := helmFlags(t)
	install := find(t, newRoot(command.NewSignals(t.Context())), "install")
	table := "\n| flag | meaning | default |\n|---|---|---|\n"
	install.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		same := func(theirs helmFlag) bool {
			return theirs.command == "install" && theirs.name == f.Name && theirs.value == f.DefValue
		}
		if f.Hidden || slices.ContainsFunc(flags, same) {
			return
		}
		_, usage := pflag.UnquoteUsage(f)
		value := strings.Trim(f.DefValue, "[]")
		if strings.Contains(usage, "(default") {
			value = ""
		}
		table += fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, usage, value)
	})
	golden.CompareSection(t, "help/flags.md", "flags", table)
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

// TestReadme runs the commands of README.md whose output it shows, in its order, in a folder with the files that a package
// has too, and on an empty namespace. Durations differ.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", testcluster.Get(t).Kubeconfig)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	duration := regexp.MustCompile(` *\b[0-9.]+s\b`)
	commands := map[string]bool{}
	for _, block := range strings.Split(string(text), "```\n$ lockstep ")[1:] {
		block, _, _ = strings.Cut(block, "```")
		line, shown, _ := strings.Cut(block, "\n")
		args := strings.Fields(strings.ReplaceAll(line, "-n shop", "-n readme"))
		commands[args[0]] = true
		printed, errs, err := runCommand(args...)
		if err != nil {
			t.Errorf("lockstep %s: %v\n%s", line, err, errs)
		}
		printed = duration.ReplaceAllString(strings.ReplaceAll(printed, "namespace readme", "namespace shop"), "")
		for want := range strings.Lines(duration.ReplaceAllString(shown, "")) {
			if want != "…\n" && !strings.Contains(printed, want) {
				t.Errorf("lockstep %s does not print %q", line, want)
			}
		}
	}
	if _, _, err := runCommand("suggest", "examples/shop", "--write"); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile("examples/shop/templates/api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, yaml, _ := strings.Cut(string(text), "```yaml\nmetadata:\n")
	if yaml, _, _ = strings.Cut(yaml, "```"); yaml == "" || !strings.Contains(string(written), yaml) {
		t.Errorf("suggest --write does not write\n%s, but\n%s", yaml, written)
	}
	if len(commands) < 3 {
		t.Errorf("found only the commands %v in the README", commands)
	}
}
