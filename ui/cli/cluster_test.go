package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lockstep/kube/throwaway"
)

// TestClusterScripts runs the scripts that need a cluster. Each has a namespace
// of its own, $NS, which is not there yet.
func TestClusterScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cluster, err := throwaway.Start(ctx, throwaway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	sandboxProgram, _, err := throwaway.Command(nil)
	if err != nil {
		t.Fatal(err)
	}
	chartsDir, err := filepath.Abs(filepath.Join(data, "charts"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("scripts", func(t *testing.T) { // ends when the parallel scripts have ended
		testscript.Run(t, testscript.Params{
			Dir: "testdata/cluster",
			Setup: func(e *testscript.Env) error {
				e.Setenv("CHARTS", chartsDir)
				e.Setenv("KUBECONFIG", cluster.Kubeconfig)
				e.Setenv(throwaway.BinaryEnv, sandboxProgram)
				e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
				e.Setenv("NS", strings.TrimPrefix(filepath.Base(e.WorkDir), "script-"))
				return nil
			},
			Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "await": await},
		})
	})
}

// await waits until the record of a run in the background holds a text.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await TEXT")
	}
	records := filepath.Join(ts.Getenv("XDG_STATE_HOME"), "lockstep", "runs", "*.ndjson")
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		files, err := filepath.Glob(records)
		ts.Check(err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			ts.Check(err)
			if strings.Contains(string(text), args[0]) {
				return
			}
		}
	}
	ts.Fatalf("no record of a run says %s", args[0])
}
