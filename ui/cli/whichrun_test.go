package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"lockstep/kube/throwaway"
	"lockstep/kube/throwaway/testcluster"
)

// stackFolder returns a folder named deploy with a helmfile of one release.
func stackFolder(t *testing.T, release string) string {
	t.Helper()
	chart, err := filepath.Abs(filepath.Join(data, "charts", "fanout"))
	if err != nil {
		t.Fatal(err)
	}
	return writeFiles(t, filepath.Join(t.TempDir(), "deploy"), map[string]string{
		"helmfile.yaml": "releases:\n- {name: " + release + ", chart: " + chart + "}\n",
	})
}

// TestRunElsewhere: a command for a run in the cluster that the kubeconfig selects reaches no run on this machine that is in another
// one, although the context, the namespace and the name are the same (S10).
func TestRunElsewhere(t *testing.T) {
	limitedParallel(t)
	testcluster.Get(t) // skips with -short
	other, err := throwaway.Start(t.Context(), throwaway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	m := newMachine(t)
	const ns = "elsewhere"
	inNamespace(t, ns)
	for name, command := range map[string][]string{
		"s":      {"install", "s", filepath.Join(data, "charts", "fanout")},
		"deploy": {"up", "-f", stackFolder(t, "a")},
	} {
		out, ends := m.start(append(command, "-n", ns, "--no-tui", "--step")...)
		m.runUntil("ctl "+name+" status", "paused")
		for _, flags := range [][]string{nil, {"--kube-context", "lockstep-sandbox"}} {
			abort := append([]string{"ctl", name, "abort", "--kubeconfig", other.Kubeconfig}, flags...)
			if s := m.run(2, abort...); !strings.Contains(s, "a live run on this machine is in another cluster") {
				t.Errorf("%s: %s", strings.Join(abort, " "), s)
			}
		}
		m.run(0, "ctl", name, "abort")
		if code := ends(); code != 3 {
			t.Errorf("%s ended with exit code %d:\n%s", name, code, out)
		}
	}
}

// TestRunOfAnotherNamespace: a command for the release of a namespace that was chosen in any way does not reach the only run of that
// name on this machine, which is in another namespace (S10).
func TestRunOfAnotherNamespace(t *testing.T) {
	limitedParallel(t)
	const ns = "run-of-another"
	inNamespace(t, ns)
	m := newMachine(t)
	_, ends := m.start("install", "s", filepath.Join(data, "charts", "fanout"), "-n", ns, "--no-tui", "--step")
	m.runUntil("ctl s status -n "+ns, "paused")
	config, err := clientcmd.LoadFromFile(testcluster.Get(t).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = "prod"
	inProd := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, inProd); err != nil {
		t.Fatal(err)
	}
	for _, chosen := range []string{"--kubeconfig=" + inProd, "-n=prod"} {
		if s := m.run(2, "ctl", "s", "abort", chosen); !strings.Contains(s, "install s in namespace "+ns) {
			t.Errorf("%s: the error does not name the run: %s", chosen, s)
		}
	}
	m.run(0, "ctl", "s", "abort", "--kubeconfig", inProd, "-n", ns)
	if code := ends(); code != 3 {
		t.Errorf("the run ended with exit code %d", code)
	}
}

// TestRunsOfTheSameName: two stacks in the cluster have the name of their folders. A command by that name reaches neither of them; by
// the name of its Job it reaches the right one (S10).
func TestRunsOfTheSameName(t *testing.T) {
	limitedParallel(t)
	const ns = "same-name"
	client := inNamespace(t, ns)
	m, elsewhere := newMachine(t), newMachine(t)
	var ends [2]func() int
	var jobs [2]string
	for n, release := range []string{"a", "b"} {
		_, ends[n] = m.startInCluster(ns, "up", "-f", stackFolder(t, release), "--step")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ; jobs[n] == ""; time.Sleep(100 * time.Millisecond) { // ctx ends it
			list, err := client.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{LabelSelector: "lockstep/release=deploy"})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range list.Items {
				if j.Name != jobs[0] {
					jobs[n] = j.Name
				}
			}
		}
		elsewhere.runUntil("ctl "+jobs[n]+" status -n "+ns, "paused")
	}
	if s := elsewhere.run(2, "ctl", "deploy", "abort", "-n", ns); !strings.Contains(s, "2 live runs") || !strings.Contains(s, jobs[0]) || !strings.Contains(s, jobs[1]) {
		t.Errorf("two runs have the name: %s", s)
	}
	elsewhere.run(0, "ctl", jobs[0], "abort", "-n", ns)
	if code := ends[0](); code != 3 {
		t.Errorf("the aborted run ended with exit code %d", code)
	}
	elsewhere.runUntil("ctl deploy status -n "+ns, "paused") // a Job ends later than its run
	elsewhere.run(0, "ctl", "deploy", "abort", "-n", ns)
	ends[1]()
}

// TestLocalRunsOfTheSameName: two stacks on this machine have the name of their folders. A command by that name reaches neither of
// them, and names both; the path of the helmfile or of its folder, or the namespace of a release, tells them apart.
func TestLocalRunsOfTheSameName(t *testing.T) {
	limitedParallel(t)
	m := newMachine(t)
	folders, ends := [2]string{}, [2]func() int{}
	for n, ns := range []string{"same-local-a", "same-local-b"} {
		inNamespace(t, ns)
		folders[n] = stackFolder(t, "a")
		_, ends[n] = m.start("up", "-f", folders[n], "-n", ns, "--no-tui", "--step")
		m.runUntil("ctl deploy status -n "+ns, "paused")
	}
	s := m.run(2, "ctl", "deploy", "abort")
	for n, ns := range []string{"same-local-a", "same-local-b"} {
		if want := "up deploy in namespace " + ns + " of " + filepath.Join(folders[n], "helmfile.yaml"); !strings.Contains(s, want) {
			t.Errorf("the error lacks %q: %s", want, s)
		}
	}
	m.run(0, "ctl", folders[0], "status")
	m.run(0, "ctl", filepath.Join(folders[0], "helmfile.yaml"), "abort")
	if code := ends[0](); code != 3 {
		t.Errorf("the aborted run ended with exit code %d", code)
	}
	m.run(0, "ctl", "deploy", "abort", "-n", "same-local-b")
	if code := ends[1](); code != 3 {
		t.Errorf("the aborted run ended with exit code %d", code)
	}
}
