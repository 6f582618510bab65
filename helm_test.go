package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
)

var update = flag.Bool("update", false, "write the list of Helm's flags")

// TestHelmFlags: ui/cli compares its commands with a list of Helm's, which is that of the Helm that lockstep is built with. Helm's
// command line is read here, because each process of ui/cli's scripts would initialise it, which takes as long as lockstep itself.
func TestHelmFlags(t *testing.T) {
	const file = "ui/cli/testdata/helm-flags.txt"
	for name, value := range map[string]string{"HELM_NO_PLUGINS": "1", "HOME": "/home/user", "GNUPGHOME": "/home/user/.gnupg"} {
		t.Setenv(name, value)
	}
	root, err := helmcmd.NewRootCmd(io.Discard, nil, func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, path := range []string{
		"history", "list", "status", "get all", "get hooks", "get manifest", "get metadata", "get notes", "get values",
		"install", "upgrade", "rollback", "uninstall", "test", "template",
	} {
		cmd, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v", path, err)
		}
		lines = append(lines, describe(path, cmd)...)
	}
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || text != string(want) {
		t.Errorf("%s is not what Helm says (%v); run go test . -run HelmFlags -update, and read the diff", file, err)
	}
}

// describe returns a line for the aliases of a command, and one for each of its flags: its shorthand, name and default.
func describe(path string, cmd *cobra.Command) []string {
	lines := []string{path + "\taliases\t" + strings.Join(cmd.Aliases, ",")}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		lines = append(lines, fmt.Sprintf("%s\tflag\t%s\t%s\t%q", path, f.Name, f.Shorthand, f.DefValue))
	})
	return lines
}
