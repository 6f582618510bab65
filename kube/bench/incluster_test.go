package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/throwaway/auditlog"
)

var (
	accountGVR = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	bindingGVR = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
)

const (
	roundTrip = 150 * time.Millisecond
	// local is a run on this machine without a delay, in the role of a tool to compare with.
	local = "local"
)

// inCluster installs 1,000 ConfigMaps from this machine and in the cluster, without and with a round trip of 150 ms to
// the API server. The pod of a run in the cluster never has the delay.
func (s *session) inCluster() error {
	chart, err := s.chart("flat1000", flat(1000))
	if err != nil {
		return err
	}
	far, distance, err := s.delayedKubeconfig(roundTrip)
	if err != nil {
		return err
	}
	defer distance.Close()
	for range s.rounds {
		took := map[string]float64{}
		for _, where := range []struct {
			name string
			args []string
		}{
			{"install locally", nil},
			{"install in the cluster", []string{"--in-cluster", "--service-account", "runner"}},
			{"install locally, 150 ms away", []string{"--kubeconfig", far}},
			{"install in the cluster, 150 ms away", []string{"--in-cluster", "--service-account", "runner", "--kubeconfig", far}},
		} {
			namespace := s.nextNamespace("in-cluster")
			if err := s.makeRunner(namespace); err != nil {
				return err
			}
			used, err := s.run(lockstep, append([]string{"install", "r", chart, "-n", namespace, "--no-tui"}, where.args...)...)
			if err != nil {
				return err
			}
			took[where.name] = used.seconds()
			f := s.figure(where.name, "s", 0)
			f.add(lockstep, used.seconds())
			if where.name != "install locally" {
				f.against(local).add(local, took["install locally"])
			}
			if strings.Contains(where.name, "in the cluster") {
				s.firstWrite(strings.Replace(where.name, "install", "command to first write", 1), namespace, used)
			}
		}
	}
	s.figure("install in the cluster, 150 ms away", "s", 0).Goal = 1.15
	return nil
}

// firstWrite adds a figure: the time from the start of the command to its pod's first write.
// The value is read from the audit log at the end.
func (s *session) firstWrite(name, namespace string, used processUsage) {
	f := s.figure(name, "s", 0)
	s.logFigures = append(s.logFigures, logFigure{f, func(log auditlog.Log) map[string][]float64 {
		for _, e := range log.Namespace(namespace) {
			if e.Username == "system:serviceaccount:"+namespace+":runner" && e.Verb == "create" && e.Object.Resource == "leases" {
				return map[string][]float64{lockstep: {e.Received.Sub(used.start).Seconds()}}
			}
		}
		return nil
	}})
}

// makeRunner creates a namespace with a service account that may do anything in it.
func (s *session) makeRunner(namespace string) error {
	if err := s.makeNamespace(namespace); err != nil {
		return err
	}
	account := map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "runner"}}
	if _, err := s.client.Resource(accountGVR).Namespace(namespace).Create(s.ctx, &unstructured.Unstructured{Object: account}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the ServiceAccount: %w", err)
	}
	binding := map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "runner"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "runner", "namespace": namespace}},
	}
	if _, err := s.client.Resource(bindingGVR).Namespace(namespace).Create(s.ctx, &unstructured.Unstructured{Object: binding}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the RoleBinding: %w", err)
	}
	return nil
}

// waiting runs up with many releases, each with a Deployment that is ready after 5 s, and compares the time with the
// critical path.
func (s *session) waiting() error {
	const layers, width = 5, 10
	chart, err := s.chart("waiting", owned(9)+ownedDeployment("5s"))
	if err != nil {
		return err
	}
	for range s.rounds {
		namespace := s.nextNamespace("waiting")
		file, err := s.helmfile(namespace, chart, layers, width)
		if err != nil {
			return err
		}
		used, err := s.run(lockstep, "up", "-f", file, "--no-tui")
		if err != nil {
			return err
		}
		up := s.figure("up", "s", 0)
		up.add(lockstep, used.seconds())
		s.figure("up, memory", "MB", 0).add(lockstep, used.peak)
		s.countRequests(s.figure("up, requests per object", "", 1.1), lockstep, used, layers*width*10)
		planning, ratio := s.figure("planning", "s", 0), s.figure("up vs. critical path and planning", "×", 1.05)
		s.logFigures = append(s.logFigures,
			logFigure{planning, func(log auditlog.Log) map[string][]float64 {
				return map[string][]float64{lockstep: {planningTime(log, namespace, used).Seconds()}}
			}},
			logFigure{ratio, func(log auditlog.Log) map[string][]float64 {
				best := planningTime(log, namespace, used) + criticalPath(readyTimes(log.Namespace(namespace), used.end), layers, width)
				return map[string][]float64{lockstep: {used.seconds() / best.Seconds()}}
			}})
	}
	return nil
}

// planningTime returns how long a command ran before its first write.
func planningTime(log auditlog.Log, namespace string, used processUsage) time.Duration {
	for _, e := range log.UserAgent(lockstep) {
		write := e.Verb == "create" && e.Succeeded() && !strings.Contains(e.RequestURI, "dryRun") && !strings.HasPrefix(e.Object.APIGroup, "auth")
		if write && (e.Object.Namespace == namespace || e.Object.Name == namespace) && !e.Received.Before(used.start) {
			return e.Received.Sub(used.start)
		}
	}
	return 0
}

// readyTimes returns the time from the first write of each Deployment until it was ready, by its name, which is also
// the release's.
func readyTimes(log auditlog.Log, until time.Time) map[string]time.Duration {
	written := map[string]time.Time{}
	for _, e := range log.UserAgent(lockstep).Writes() {
		if _, known := written[e.Object.Name]; e.Object.Resource == "deployments" && !known {
			written[e.Object.Name] = e.Received
		}
	}
	took := map[string]time.Duration{}
	for _, e := range log {
		if e.Object.Resource == "deployments" && e.Object.Subresource == "status" && e.Succeeded() && e.At.Before(until) {
			took[e.Object.Name] = e.At.Sub(written[e.Object.Name])
		}
	}
	return took
}

// criticalPath returns the longest chain through the layers of the benchmark's helmfile.
func criticalPath(took map[string]time.Duration, layers, width int) time.Duration {
	longest := make([]time.Duration, width)
	for l := range layers {
		before := longest
		longest = make([]time.Duration, width)
		for i := range width {
			longest[i] = took[fmt.Sprintf("r%d-%d", l, i)]
			if l > 0 {
				longest[i] += max(before[i], before[(i+1)%width])
			}
		}
	}
	best := longest[0]
	for _, d := range longest {
		best = max(best, d)
	}
	return best
}

func TestCriticalPath(t *testing.T) {
	took := map[string]time.Duration{"r0-0": 1, "r0-1": 5, "r1-0": 10, "r1-1": 1}
	if got := criticalPath(took, 2, 2); got != 15 {
		t.Errorf("got %d, want 15 (r0-1 and r1-0)", got)
	}
	delete(took, "r1-0")
	if got := criticalPath(took, 2, 2); got != 6 {
		t.Errorf("got %d, want 6 (r0-1 and r1-1)", got)
	}
}
