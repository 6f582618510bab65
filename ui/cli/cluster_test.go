package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	kubeversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"lockstep/kube/throwaway"
	"lockstep/kube/throwaway/testcluster"
)

// TestClusterScripts runs the scripts that need a cluster. Each has its own namespace $NS, which does
// not exist yet.
func TestClusterScripts(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Get(t)
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
				e.Setenv("GOGC", os.Getenv("GOGC")) // that of the test run: make test saves time with it
				e.Setenv("CHARTS", chartsDir)
				e.Setenv("KUBECONFIG", cluster.Kubeconfig)
				e.Setenv(observerEnv, cluster.Kubeconfig)
				e.Setenv(throwaway.BinaryEnv, sandboxProgram)
				e.Setenv("HELM", testcluster.Helm(t))
				e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
				e.Setenv("NS", strings.TrimPrefix(filepath.Base(e.WorkDir), "script-"))
				return nil
			},
			Cmds:      map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "await": await, "parses": parses},
			Condition: func(cond string) (bool, error) { return kubernetesVersion(t, cluster, cond) },
		})
	})
}

// kubernetesVersion is the condition [kubernetes:1.33]: the cluster has that version or a later one.
func kubernetesVersion(t *testing.T, cluster *testcluster.Cluster, condition string) (bool, error) {
	minimum, ok := strings.CutPrefix(condition, "kubernetes:")
	if !ok {
		return false, fmt.Errorf("unknown condition %s", condition)
	}
	running, err := discovery.NewDiscoveryClientForConfigOrDie(cluster.Config(t)).ServerVersion()
	if err != nil {
		return false, err
	}
	v, err := kubeversion.ParseGeneric(running.GitVersion)
	return err == nil && v.AtLeast(kubeversion.MustParseGeneric(minimum)), err
}

// await waits until a file contains a text: await TEXT [FILE]. The default is the record of the run in
// the background.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await TEXT [FILE]")
	}
	pattern := filepath.Join(ts.Getenv("XDG_STATE_HOME"), "lockstep", "runs", "*.ndjson")
	if len(args) == 2 {
		pattern = ts.MkAbs(args[1])
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		files, err := filepath.Glob(pattern)
		ts.Check(err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			ts.Check(err)
			if strings.Contains(string(text), args[0]) {
				return
			}
		}
	}
	ts.Fatalf("%s: nothing says %s", pattern, args[0])
}

// parses checks the format of a file: parses json|yaml|ndjson FILE.
func parses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: parses json|yaml|ndjson FILE")
	}
	text, into := []byte(ts.ReadFile(args[1])), new(any)
	switch args[0] {
	case "json":
		ts.Check(json.Unmarshal(text, into))
	case "yaml":
		ts.Check(yaml.Unmarshal(text, into))
	case "ndjson":
		for line := range bytes.Lines(text) {
			ts.Check(json.Unmarshal(line, into))
		}
	}
}
