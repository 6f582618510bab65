package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// TestEveryCommandHasABound (R54): each command says how long it may take without the screen: --timeout, a limit that its
// help names, or the words in its help that say when it ends.
func TestEveryCommandHasABound(t *testing.T) {
	seen := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		key := command.Path(cmd)
		if key == "" || !cmd.Runnable() || cmd.GroupID == "pages" && bounds[key] == (command.Bound{}) || strings.HasPrefix(key, "completion") || key == "help" {
			return
		}
		seen[key] = true
		b, known := bounds[key]
		timeout := cmd.Flags().Lookup("timeout")
		switch {
		case !known:
			t.Errorf("%s has no bound: add it to bounds", key)
		case (b.Flag || b.Operation) && timeout == nil:
			t.Errorf("%s has no --timeout", key)
		case b.Flag && timeout.DefValue == "0s" && !strings.Contains(timeout.Usage, "0 until"):
			t.Errorf("%s --timeout does not say when the command ends without it: %s", key, timeout.Usage)
		case b.Limit > 0 && timeout != nil && !timeout.Hidden:
			t.Errorf("%s has --timeout and another limit", key)
		case b.Limit > 0 && cmd.Long != "" && !strings.Contains(cmd.Long, "gives up after"):
			t.Errorf("the help of %s does not name its limit", key)
		case b.Limit > 0 && strings.Contains(cmd.Long, "a registry does not answer") != (b.Charts && cmd.Long != ""):
			t.Errorf("the help of %s names a registry, but loads no chart, or the reverse", key)
		case b.Endless != "" && !strings.Contains(strings.Join(strings.Fields(cmd.Long), " "), b.Endless):
			t.Errorf("the help of %s does not say %q", key, b.Endless)
		}
	}
	walk(newRoot(&command.Signals{}))
	for key := range bounds {
		if !seen[key] {
			t.Errorf("bounds has %q, which is no command", key)
		}
	}
}

// TestBoundEndsTheCommand (R54): a command that waits for ever ends at its limit and says what it waited for, whether it
// notices the end of its context or not.
func TestBoundEndsTheCommand(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		stop := make(chan struct{})
		cmd := &cobra.Command{Use: "wait", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
			if deaf {
				<-stop
				return nil
			}
			<-cmd.Context().Done()
			return context.Cause(cmd.Context())
		}}
		command.SetBound(cmd, command.Bound{Limit: 10 * time.Millisecond}, "Godot")
		cmd.SetArgs(nil)
		err := cmd.ExecuteContext(t.Context())
		close(stop)
		if bound := (*command.BoundError)(nil); !errors.As(err, &bound) || !strings.Contains(err.Error(), "gave up after 10ms, waiting for Godot") {
			t.Errorf("deaf %v: %v", deaf, err)
		}
	}
}

// TestInputsHaveTheLimitOfTheOperation (R54): without the screen, --timeout also limits how long an operation waits for its
// chart, its values, or its helmfile. Completion has a limit of its own.
func TestInputsHaveTheLimitOfTheOperation(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, never responds
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	server := listener.Addr().String()
	chart := writeChart(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n"})
	dir := t.TempDir()
	for name, text := range map[string]string{
		"helmfile.yaml": "releases: [{name: r, namespace: n, chart: 'http://" + server + "/c.tgz'}]",
		"t.yaml.gotmpl": "releases: []", "helmfile": "#!/bin/sh\nexec /bin/sleep 600\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{clusters: [{name: c, cluster: {server: "http://`+server+`"}}], contexts: [{name: c, context: {cluster: c, user: ""}}], current-context: c}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, args := range [][]string{{"drift", "r"}, {"drift", "-A"}, {"drift", "-f", filepath.Join(dir, "helmfile.yaml")}} {
		running.Go(func() {
			out, code, _ := runProgram(t, []string{"KUBECONFIG=" + kubeconfig}, append(args, "--timeout", "5s")...)
			if code != command.ExitFailed || !strings.Contains(out, "gave up after 5s (--timeout), waiting for answers of the API server") {
				t.Errorf("%v: exit code %d: %s", args, code, out)
			}
		})
	}
	running.Go(func() {
		out, code, _ := runProgram(t, nil, "__complete", "install", "r", "http://"+server+"/c.tgz", "--break-on", "")
		if code != command.ExitNothingWritten {
			t.Errorf("completion: exit code %d: %s", code, out)
		}
	})
	for _, c := range []struct {
		waitsFor string
		args     []string
	}{
		{"chart http://" + server + "/c.tgz", []string{"install", "r", "http://" + server + "/c.tgz"}},
		{"chart oci://" + server + "/c", []string{"upgrade", "r", "oci://" + server + "/c"}},
		{"the values", []string{"install", "r", chart, "-f", "http://" + server + "/values.yaml"}},
		{"chart http://" + server + "/c.tgz", []string{"up", "-f", filepath.Join(dir, "helmfile.yaml")}},
		{"helmfile " + dir, []string{"up", "-f", filepath.Join(dir, "t.yaml.gotmpl")}},
	} {
		running.Go(func() {
			out, code, _ := runProgram(t, []string{"PATH=" + dir}, append(c.args, "--no-tui", "--timeout", "20s")...)
			if code != command.ExitNothingWritten || !strings.Contains(out, "gave up after 20s (--timeout), waiting for "+c.waitsFor) {
				t.Errorf("%v: exit code %d: %s", c.args, code, out)
			}
		})
	}
}
