package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/throwaway/faultproxy"
)

var (
	accounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	jobs     = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// runLabel is the label of everything that belongs to a run in the cluster.
const runLabel = "lockstep/release"

// journalWrites is how often a run that nobody steers writes its journal: its pod becomes the writer, and keeps the state before
// its first write to the release.
const journalWrites = 2

// podKills kills the pod of a run in the cluster after each of its writes, and after each one of its journal: its process gets
// SIGKILL, or the pod is deleted without grace. The Job replaces the pod, and the new pod takes over the Lease and completes the
// operation (R50, R52). The command that started the run succeeds.
func podKills(t *testing.T) []trialGroup {
	var all []trialGroup
	for i, name := range []string{"install", "upgrade", "rollback", "uninstall"} {
		all = append(all, podKillsOf(t, i+1, single(name), journalWrites)...)
	}
	return all
}

// podKillsOf returns the trials of one operation, the number-th of a row, which writes its journal kept times.
func podKillsOf(t *testing.T, number int, o operation, kept int) (all []trialGroup) {
	want, err := baselineOf(t, o, false)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= want.writes; n++ {
		seed := number*1000 + n
		all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
			_, what, err := runWithPodKill(t, o, want, n, false)
			report(seed, what, err)
		}})
	}
	for n := 1; n <= kept; n++ {
		seed := number*1000 + 899 + n
		all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
			_, what, err := runWithPodKill(t, o, want, n, true)
			report(seed, what, err)
		}})
	}
	return all
}

// journalKills kills the pod of a run in the cluster that fails and is rolled back, after each write of its journal. The pod that
// replaces it rolls back what is left to roll back, and the command that started the run fails.
func journalKills(t *testing.T) []trialGroup {
	names := []string{"bad-upgrade"}
	if long || only >= 0 {
		names = append(names, "bad-install")
	}
	var all []trialGroup
	for i, name := range names {
		o := single(name)
		want, err := baselineOf(t, o, false)
		if err != nil {
			t.Fatal(err)
		}
		undisturbed, what, err := runWithPodKill(t, o, want, 0, true)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if undisturbed.pods.kept <= journalWrites {
			t.Fatalf("%s keeps %d times, no more than a run that succeeds", o.name, undisturbed.pods.kept)
		}
		for n := 1; n <= undisturbed.pods.kept; n++ {
			seed := (i+1)*1000 + n
			all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
				_, what, err := runWithPodKill(t, o, want, n, true)
				report(seed, what, err)
			}})
		}
	}
	return all
}

// podRun is a run in the cluster whose pods reach the API server through a proxy.
type podRun struct {
	*harness
	proxy *faultproxy.Proxy

	mu        sync.Mutex
	afterKill snapshot // the state after the kill
	killedAt  int      // number of the pod's requests before the kill; 0 if it was not killed
	err       error    // of the kill
}

// runWithPodKill kills the pod after its n-th write, or its n-th write of the journal; 0 does not kill it.
func runWithPodKill(t *testing.T, o operation, want *baseline, n int, ofJournal bool) (r *podRun, what string, err error) {
	r = &podRun{harness: newHarness(t, true, false)}
	defer r.close()
	kill, how := r.deletePod, "deleted"
	if n%2 == 0 && hasProc {
		kill, how = r.killProcess, "killed"
	}
	what = fmt.Sprintf("%s, pod %s after write %d of %d", o.name, how, n, want.writes)
	if ofJournal {
		what = fmt.Sprintf("%s, pod %s after write %d of its journal", o.name, how, n)
	}
	if err := r.runPreceding(o); err != nil {
		return r, what, err
	}
	r.pods = newTracker(o.isRollback, func(q request) handler {
		if at := map[bool]int{false: q.write, true: q.kept}[ofJournal]; at != n || n == 0 {
			return nil
		}
		what += ": " + r.withoutNamespace(q.key)
		return func(_ http.ResponseWriter, req *http.Request, next http.Handler) {
			dropResponse(req, next)
			err := kill()
			select {
			case <-req.Context().Done(): // the process's connections close when it dies
			case <-time.After(20 * time.Second):
				err = errors.Join(err, errors.New("the pod's process still runs"))
			}
			requests, _ := r.pods.sent()
			left, err2 := admin.snapshot(context.Background(), r.ns)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.afterKill, r.killedAt, r.err = left, len(requests), errors.Join(err, err2)
		}
	})
	stateful := r.stateful()
	p, err := r.startInCluster(o)
	if err != nil {
		return r, what, err
	}
	if err := p.wait(3 * time.Minute); err != nil {
		return r, what, fmt.Errorf("  %w\n%s", err, p.outputTail())
	}
	state := r.waitForJob()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == 0 {
		return r, what, r.judgeFailed(want, p)
	}
	switch {
	case r.err != nil:
		return r, what, fmt.Errorf("  the pod was not killed: %w\n%s", r.err, p.outputTail())
	case r.killedAt == 0 && !ofJournal && r.pods.written() < n: // a slower run without faults has renewed its Lease once more
		return r, what, r.judgeFailed(want, p)
	case r.killedAt == 0:
		return r, what, fmt.Errorf("  the pod was not killed\n%s", p.outputTail())
	}
	wrong := r.checkTakeover(n < want.writes && !ofJournal) // the journal is first written before the Lease
	// After the last write of an uninstall nothing is left that shows the new pod that the run was complete.
	ends, code := "Complete", 0
	if o.mustFail() {
		ends, code = "Failed", 1
	}
	if last := o.name == "uninstall" && n == want.writes; state != ends && !last {
		wrong = append(wrong, "the Job ended as "+state)
	}
	if p.exitCode != code {
		wrong = append(wrong, fmt.Sprintf("exit code %d", p.exitCode))
	}
	if err := r.removeJob(); err != nil {
		wrong = append(wrong, err.Error())
	}
	if now := r.snapshot(); slices.Equal(r.afterKill.history, want.target.history) && !slices.Equal(now.history, r.afterKill.history) {
		wrong = append(wrong, fmt.Sprintf("the history was %q and is now %q: a complete operation ran again", r.afterKill.history, now.history))
	}
	if len(wrong) > 0 {
		err = errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + p.outputTail())
	}
	if o.mustFail() {
		return r, what, errors.Join(err, r.judgeFailed(want, p))
	}
	return r, what, errors.Join(err, r.judgeRepeated(want, r.afterKill, p), r.judgeApprovals(o, p), r.judgeStateful(stateful))
}

// judgeFailed checks that a run that fails has left what it leaves without faults.
func (r *podRun) judgeFailed(want *baseline, p *process) error {
	wrong := r.waitUntil(snapshot{objects: want.target.objects}, false)
	now := r.snapshot()
	if wrong = append(wrong, now.wrongRevisions(want.target)...); len(wrong) == 0 {
		return nil
	}
	return errors.New("  " + strings.Join(wrong, "\n  ") + fmt.Sprintf("\n  the history is %q, without faults it is %q\n", now.history, want.target.history) + p.outputTail())
}

// startInCluster starts an operation in the cluster. Its pods use the run's proxy.
func (r *podRun) startInCluster(o operation) (*process, error) {
	var err error
	if r.proxy, err = faultproxy.New(faultproxy.Options{Kubeconfig: sandbox.Kubeconfig, TLS: true, Intercept: r.pods.intercept}); err != nil {
		return nil, err
	}
	r.t.Cleanup(r.proxy.Close)
	kubeconfig := filepath.Join(r.dir, "pod-kubeconfig")
	if err := r.proxy.WriteKubeconfig(kubeconfig, r.ns); err != nil {
		return nil, err
	}
	account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "runner"}}}
	if _, err := admin.Resource(accounts).Namespace(r.ns).Create(r.t.Context(), account, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	p, _ := r.start(o, func(q request) handler {
		if q.key != "POST /apis/batch/v1/namespaces/"+r.ns+"/jobs" {
			return nil
		}
		return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if err := addVariable(req, "KUBECONFIG", "/"+kubeconfig); err != nil { // the second slash keeps the sandbox from replacing /tmp with the container's
				faultproxy.Refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
				return
			}
			next.ServeHTTP(w, req)
		}
	}, "--in-cluster", "--service-account", "runner")
	return p, nil
}

// addVariable adds an environment variable to the container of the Job that a request creates.
func addVariable(r *http.Request, name, value string) error {
	job := unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&job.Object); err != nil {
		return err
	}
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(job.Object, path...)
	if err != nil || len(containers) != 1 {
		return fmt.Errorf("the Job has %d containers: %w", len(containers), err)
	}
	c := containers[0].(map[string]any)
	env, _ := c["env"].([]any)
	c["env"] = append(env, map[string]any{"name": name, "value": value})
	if err := unstructured.SetNestedSlice(job.Object, containers, path...); err != nil {
		return err
	}
	text, err := json.Marshal(job.Object)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return err
}

// checkTakeover checks the requests of both pods: if the first pod held the Lease, the second one must take it over
// before it writes anything else, and both must write in order.
func (r *podRun) checkTakeover(held bool) (wrong []string) {
	requests, _ := r.pods.sent()
	first, second := requests[:r.killedAt], requests[r.killedAt:]
	if len(second) == 0 {
		return []string{"the pod was not replaced"}
	}
	for i, q := range second {
		if q.write == 0 {
			continue
		}
		// It updates the Lease, or deletes it if nothing is left to do.
		if method, _, ok := strings.Cut(q.key, " /apis/coordination.k8s.io/v1/namespaces/"+r.ns+"/leases/lockstep.v1.r"); held && (!ok || method != http.MethodPut && method != http.MethodDelete) {
			wrong = append(wrong, "the second pod does not take over the Lease; its first write is "+r.withoutNamespace(q.key))
		}
		second = second[i:]
		break
	}
	for _, of := range [][]request{first, second} {
		wrong = append(wrong, orderViolations(of)...)
	}
	return wrong
}

// waitForJob waits until the Job has ended, and returns its final condition, or the number of Jobs if it is not one.
func (r *podRun) waitForJob() (state string) {
	within(context.Background(), 2*time.Minute, func() bool {
		list, err := admin.Resource(jobs).Namespace(r.ns).List(context.Background(), metav1.ListOptions{LabelSelector: runLabel})
		r.check(err)
		state = fmt.Sprintf("%d Jobs", len(list.Items))
		if len(list.Items) != 1 {
			return true
		}
		conditions, _, _ := unstructured.NestedSlice(list.Items[0].Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["status"] == "True" && (c["type"] == "Complete" || c["type"] == "Failed") {
				state = c["type"].(string)
				return true
			}
		}
		return false
	})
	return state
}

// orderViolations returns the objects that a pod applied or deleted too early.
func orderViolations(requests []request) (wrong []string) {
	applied, deleted := map[string]int{}, map[string]int{}
	for i, q := range requests {
		method, path, _ := strings.Cut(q.key, " ")
		in := applied
		if method == http.MethodDelete {
			in = deleted
		}
		if name := path[strings.LastIndex(path, "/")+1:]; q.write > 0 && in[name] == 0 {
			in[name] = i + 1
		}
	}
	for _, pair := range [][2]string{{"first", "second"}, {"balancer", "second"}, {"second", "third"}, {"first", "new"}, {"second", "old-alone"}} {
		a, b := pair[0], pair[1]
		if applied[a] > 0 && applied[b] > 0 && applied[a] > applied[b] {
			wrong = append(wrong, fmt.Sprintf("%s is applied before %s", b, a))
		}
		if deleted[a] > 0 && deleted[b] > 0 && deleted[a] < deleted[b] {
			wrong = append(wrong, fmt.Sprintf("%s is deleted before %s", a, b))
		}
	}
	return wrong
}

// removeJob deletes the Job, and waits until everything that belongs to it is gone.
func (r *podRun) removeJob() error {
	ctx := context.Background()
	err := admin.Resource(jobs).Namespace(r.ns).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}, metav1.ListOptions{LabelSelector: runLabel})
	if err != nil {
		return err
	}
	var left []string
	within(ctx, 5*slowdown*time.Second, func() bool {
		left = nil
		for _, resource := range []schema.GroupVersionResource{jobs, pods, secrets, leases} {
			list, err := admin.Resource(resource).Namespace(r.ns).List(ctx, metav1.ListOptions{LabelSelector: runLabel})
			r.check(err)
			for _, item := range list.Items {
				left = append(left, item.GetKind()+"/"+item.GetName())
			}
		}
		return len(left) == 0
	})
	if len(left) > 0 {
		return fmt.Errorf("not deleted with the Job: %q", left)
	}
	return nil
}

func (r *podRun) deletePod() error {
	list, err := admin.Resource(pods).Namespace(r.ns).List(context.Background(), metav1.ListOptions{LabelSelector: runLabel})
	if err != nil || len(list.Items) != 1 {
		return fmt.Errorf("%d pods of the run: %w", len(list.Items), err)
	}
	return admin.Resource(pods).Namespace(r.ns).Delete(context.Background(), list.Items[0].GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// hasProc reports whether /proc shows the environment of processes.
var hasProc = func() bool { _, err := os.Stat("/proc/self/environ"); return err == nil }()

// killProcess kills the process of the run's pod.
func (r *podRun) killProcess() error {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, file := range files {
		env, err := os.ReadFile(file) // fails for processes of other users
		if err != nil || !bytes.Contains(env, []byte("LOCKSTEP_REQUESTS="+r.ns+"/")) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err != nil {
			return err
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		return p.Kill()
	}
	return errors.New("found no process of the pod")
}
