package cli

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/connect"
	"lockstep/kube/throwaway/observer"
	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/report"
)

const (
	// observerEnv is the kubeconfig of the cluster that an observer reads after each run of the tests that ended with exit code 0.
	observerEnv = "OBSERVE"
	// unobservedEnv says why the cluster may differ from the record right after such a run.
	unobservedEnv = "UNOBSERVED"
	// exitObserved is the exit code of a run that the observer contradicts.
	exitObserved = 97
)

// observed returns the exit code of a run that has begun then: every test of this package, a script or not, checks what an
// observer finds after exit code 0.
func observed(began time.Time, code int) int {
	kubeconfig := os.Getenv(observerEnv)
	if code != 0 || kubeconfig == "" || kubeconfig != os.Getenv("KUBECONFIG") || os.Getenv(unobservedEnv) != "" || connect.StorageDriver() != "" ||
		slices.Contains(os.Args, "--sandbox") || slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "--kubeconfig") }) {
		return code
	}
	dir, err := report.RunDir()
	if err != nil {
		return code
	}
	for _, r := range report.RecordedRuns(dir) {
		if r.Started.Before(began) || r.Exit == nil || *r.Exit != 0 {
			continue
		}
		record, err := report.ReadRecord(dir, r.Name)
		if err != nil {
			continue // another run has removed it
		}
		witness, err := observer.New(kubeconfig)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitObserved
		}
		for problem := range contradictions(witness, record.State) {
			fmt.Fprintf(os.Stderr, "observer: %s %s ended with exit code 0, but %s\n", r.Operation, r.Release, problem)
			code = exitObserved
		}
	}
	return code
}

// contradictions yields what an observer finds otherwise than a run that succeeded.
func contradictions(witness *observer.Observer, s *event.State) iter.Seq[string] {
	return func(yield func(string) bool) {
		look := func(operation, namespace, name string, s *event.State) {
			var found []string
			switch operation {
			case "install", "upgrade", "rollback":
				found = witness.Deployed(context.Background(), namespace, name, func(kind, name string) bool { return saysReady(s, kind, name) })
			case "uninstall":
				found = witness.Removed(context.Background(), namespace, name)
			}
			for _, problem := range found {
				if !yield(problem) {
					return
				}
			}
		}
		op := s.Operation
		if op.Name != "up" && op.Name != "down" {
			look(op.Name, op.Namespace, op.Release, s)
			return
		}
		for g := range s.GroupStates() {
			if len(g.Objects) != 1 || g.Objects[0].Object.Kind != "Release" {
				continue
			}
			release, operation := g.Objects[0].Object, "upgrade"
			if g.Status == event.Gone {
				operation = "uninstall"
			}
			look(operation, release.Namespace, release.Name, s.Scopes[g.ID])
		}
	}
}

// saysReady reports whether a run called an object ready. A release that a stack has passed as unchanged is ready (S4).
func saysReady(s *event.State, kind, name string) bool {
	if s == nil {
		return true
	}
	for g := range s.GroupStates() {
		for _, o := range g.Objects {
			if o.Object.Kind == kind && o.Object.Name == name && o.Status == event.Ready {
				return true
			}
		}
	}
	return false
}

// TestRunsAreObserved: after exit code 0, the program of the tests asks an observer, which finds what was changed since.
func TestRunsAreObserved(t *testing.T) {
	t.Parallel()
	const ns = "observed"
	client := inNamespace(t, ns)
	m := newMachine(t)
	m.run(0, "install", "s", filepath.Join(data, "charts", "plain"), "-n", ns, "--no-tui")
	log, err := testcluster.Get(t).Log()
	if err != nil {
		t.Fatal(err)
	}
	if asked := log.Namespace(ns).UserAgent("observer"); len(asked) == 0 {
		t.Error("no observer was asked")
	}
	dir := filepath.Join(strings.TrimPrefix(m.env[1], "XDG_STATE_HOME="), "lockstep", "runs")
	runs := report.Runs(dir)
	if len(runs) != 1 {
		t.Fatalf("records %v", runs)
	}
	record, err := report.ReadRecord(dir, runs[0])
	if err != nil {
		t.Fatal(err)
	}
	witness, err := observer.New(testcluster.Get(t).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if found := slices.Collect(contradictions(witness, record.State)); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	secrets := client.CoreV1().Secrets(ns)
	if err := secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "owner=helm"}); err != nil {
		t.Fatal(err)
	}
	if found := slices.Collect(contradictions(witness, record.State)); len(found) != 1 || !strings.Contains(found[0], "has no record") {
		t.Errorf("without its record: %q", found)
	}
}
