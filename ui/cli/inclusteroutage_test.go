//go:build unix

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/kube/throwaway"
	"lockstep/kube/throwaway/testcluster"
)

// TestAPIServerAwayInTheCluster pauses the API server during a run in the cluster: the run continues
// when the server is back, and the terminal misses no event (R53).
func TestAPIServerAwayInTheCluster(t *testing.T) {
	limitedParallel(t)
	testcluster.Get(t) // skips with -short
	cluster, err := throwaway.Start(t.Context(), throwaway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	const ns = "away"
	accounts(t, cluster.Kubeconfig, ns)
	m := newMachine(t)
	m.env = append(m.env, "KUBECONFIG="+cluster.Kubeconfig)
	out, ends := m.start("install", "s", filepath.Join(data, "charts", "slow"), "-n", ns, "--set", "readyDelay=2s", "--in-cluster", "--service-account", "runner", "-o", "json")
	out.await(t, `"group":"slow:slow"`)

	away := 3 * time.Second
	if os.Getenv("CHAOS") == "long" {
		away = 30 * time.Second
	}
	if err := syscall.Kill(cluster.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(away) // the outage itself
	if err := syscall.Kill(cluster.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := ends(); code != 0 {
		t.Errorf("the run: exit code %d", code)
	}
	last := uint64(0)
	for line := range strings.Lines(out.String()) {
		var e event.Event
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != last+1 {
			t.Fatalf("the event after %d is %.80s (%v)", last, line, err)
		}
		last = e.Seq
	}
	if s := out.String(); last < 10 || !strings.Contains(s, `"group":"slow:after"`) {
		t.Errorf("the events are\n%s", s)
	}
}
