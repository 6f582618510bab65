package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// imageHook is a hook that runs as a Job. annotations are those of the simulated kubelet.
func imageHook(name, events, annotations string) string {
	return fmt.Sprintf(`{name: %s, events: [%s], command: run, args: ["{{ .Event.Name }}"], lockstep/image: {name: example/tool:1, env: {WHO: '{{ if ne .Event.Name "prepare" }}{{ .Release.Name }}{{ end }}'}, secrets: [], annotations: {%s}}}`, name, events, annotations)
}

// jobs returns the Jobs in the namespaces of the test.
func (b stackRig) jobs() (all []string) {
	b.T.Helper()
	for _, namespace := range []string{b.Namespace, b.Namespace + "-extra"} {
		list, err := b.Client.Clientset.BatchV1().Jobs(namespace).List(b.T.Context(), metav1.ListOptions{LabelSelector: "lockstep/step"})
		if err != nil {
			b.T.Fatal(err)
		}
		for _, j := range list.Items {
			if j.DeletionTimestamp == nil {
				all = append(all, j.Name)
			}
		}
	}
	return all
}

// createdJobs returns the Jobs of hooks that were created, as NAMESPACE/NAME, in order.
func (b stackRig) createdJobs() (all []string) {
	for _, e := range b.Audit().Writes() {
		if e.Verb == "create" && e.Object.Resource == "jobs" && strings.HasPrefix(e.Object.Namespace, b.Namespace) && strings.HasPrefix(e.Object.Name, "lockstep-step") && e.Succeeded() {
			all = append(all, e.Object.Namespace+"/"+e.Object.Name)
		}
	}
	return all
}

// replace writes other hooks into the helmfile.
func (h hooked) replace(hooks map[string]string) {
	h.T.Helper()
	other := newHooked(h.stackRig, hooks, h.releases...)
	if err := os.Rename(filepath.Join(other.dir, "helmfile.yaml"), filepath.Join(h.dir, "helmfile.yaml")); err != nil {
		h.T.Fatal(err)
	}
}

// fromAnywhere makes a run know nothing of the runs before, as on another machine.
func fromAnywhere(o *kube.StackOptions) {
	o.Earlier = func(string) *event.State { return nil }
}

// TestImageHook (S11a): a hook with an image is a Job that runs in its place, in the namespace of its release, which does not exist
// before. Its output and exit code are those of the hook, its pod has no environment but the hook's and the span that it is a part
// of, and it is gone at the end.
func TestImageHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.OtherNamespace = b.Namespace + "-extra"
	h := newHooked(b, map[string]string{
		"": `{name: first, events: [prepare], lockstep/image: example/tool:1}`, "b": imageHook("backup", "presync", `sandbox/log: "saved 3 tables", sandbox/run-duration: 2s`),
	}, release{Name: "b", Dir: chart(t, "b")})
	_, err := h.prepare(false, func(o *kube.StackOptions) { o.Hooks = kube.RefuseHooks })
	if err == nil || !strings.Contains(err.Error(), b.id("b")+"/presync/backup runs run presync in image example/tool:1") || !strings.Contains(err.Error(), "prepare/first runs image example/tool:1") {
		t.Errorf("without consent: %v", err)
	}
	s, err := h.prepare(false, func(o *kube.StackOptions) {
		fromAnywhere(o)
		o.TraceEnv = func(u event.Unit) map[string]string {
			return map[string]string{"TRACEPARENT": u.Phase + " " + u.Group, "WHO": "x"}
		}
	})
	env := ""
	state, all := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindLog {
			jobs, err := b.Client.Clientset.BatchV1().Jobs(b.OtherNamespace).List(t.Context(), metav1.ListOptions{})
			if err == nil && len(jobs.Items) == 1 {
				env = fmt.Sprint(jobs.Items[0].Spec.Template.Spec.Containers[0].Env)
			}
		}
	})
	id := b.id("b") + "/presync/backup"
	g := state.Find("releases", id)
	if state.Exit != 0 || g == nil || g.Status != event.Ready || g.Objects[0].Message != "exited with code 0" {
		t.Fatalf("exit %d: %s, group %+v", state.Exit, phrase.Reason(state), g)
	}
	logged := slices.ContainsFunc(all, func(e event.Event) bool {
		return e.Kind == event.KindLog && e.Group == id && slices.Equal(e.Lines, []string{"saved 3 tables"})
	})
	if !logged || env != "[{TRACEPARENT releases "+id+" nil} {WHO b nil}]" {
		t.Errorf("logged: %v, the environment is %s", logged, env)
	}
	if jobs := b.jobs(); len(jobs) > 0 {
		t.Errorf("these Jobs are left: %v", jobs)
	}
	job, written := time.Time{}, time.Time{}
	for _, e := range b.Audit().Writes() {
		switch {
		case e.Object.Namespace == b.OtherNamespace && e.Object.Resource == "jobs" && e.Verb == "create":
			job = e.Received
		case e.Object.Namespace == b.OtherNamespace && e.Object.Name == "b" && e.Object.Resource == "configmaps" && written.IsZero():
			written = e.Received
		}
	}
	if job.IsZero() || !job.Add(2*time.Second).Before(written) {
		t.Errorf("the Job was created at %s, the release written at %s", job, written)
	}
	if got := b.createdJobs(); len(got) != 2 || !strings.HasPrefix(got[0], b.Namespace+"/") {
		t.Errorf("created %v", got)
	}
}

// TestFailedImageHook (S11a, R26, R44): the Job of a hook that fails has its exit code and last line as the cause, and stays until the
// hook runs again: by a retry, or in the next run. One whose image cannot be pulled fails by its timeout, and says so.
func TestFailedImageHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	failing := imageHook("migrate", "presync", `sandbox/log: "no space left", sandbox/exit-code: "3"`)
	h := newHooked(b, map[string]string{"a": failing}, release{Name: "a", Dir: chart(t, "a")})
	id, held := b.id("a")+"/presync/migrate", 0
	s, err := h.prepare(false, func(o *kube.StackOptions) { fromAnywhere(o); o.Common.HoldOnFailure = true })
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Scope != "" || e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		if held++; held == 1 {
			s.Command(event.Command{Name: event.Retry})
		} else {
			s.Command(event.Command{Name: event.GiveUp})
		}
	})
	g := state.Find("releases", id)
	if state.Exit != 1 || held != 2 || g.Cause != "run exited with code 3: no space left" {
		t.Errorf("exit %d, held %d times: %q", state.Exit, held, g.Cause)
	}
	if d := g.Objects[0].Details; d == nil || d.ExitCode == nil || *d.ExitCode != 3 || !slices.Equal(d.Notes, []string{"the Job stays until the hook runs again: kubectl logs " + g.Step.Job}) {
		t.Errorf("details %+v", d)
	}
	if jobs := b.jobs(); len(jobs) != 1 || len(b.createdJobs()) != 2 || !strings.HasPrefix(g.Step.Job, "job/"+jobs[0]+" -n ") {
		t.Errorf("%v of %v are left, the step says %s", jobs, b.createdJobs(), g.Step.Job)
	}

	missing := strings.Replace(imageHook("migrate", "presync", ""), "example/tool:1", "example/no-such-image:1", 1)
	h.replace(map[string]string{"a": missing})
	s, err = h.prepare(false, func(o *kube.StackOptions) { fromAnywhere(o); o.File.Releases[0].Timeout = 20 * time.Second })
	state, _ = b.run(s, err, nil)
	if g := state.Find("releases", id); state.Exit != 1 || !strings.Contains(g.Cause, "no-such-image") || !strings.Contains(g.Cause, "gave up after 20s (timeout of the release)") {
		t.Errorf("exit %d: %q", state.Exit, g.Cause)
	}

	h.replace(map[string]string{"a": imageHook("migrate", "presync", "")})
	s, err = h.prepare(false, fromAnywhere)
	if state, _ = b.run(s, err, nil); state.Exit != 0 || len(b.jobs()) > 0 {
		t.Errorf("the next run: exit %d: %s, left %v", state.Exit, phrase.Reason(state), b.jobs())
	}
}

// TestKilledAtImageHook (S7, S11a): lockstep is killed while the Job of a hook runs, and after it has succeeded. The same command, on a
// machine that knows nothing of that run, takes the Job over.
func TestKilledAtImageHook(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(stackRig, event.Event) bool{
		"while it runs": func(b stackRig, e event.Event) bool { return e.Kind == event.KindLog },
		"afterwards": func(b stackRig, e event.Event) bool {
			return e.Scope == b.id("a") && e.Kind == event.KindObject && e.Change != ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			h := newHooked(b, map[string]string{"a": imageHook("slow", "presync", `sandbox/log: "at work", sandbox/run-duration: 4s`)}, release{Name: "a", Dir: chart(t, "a")})
			h.kill(func(e event.Event) bool { return at(b, e) })
			s, err := h.prepare(false, fromAnywhere)
			state, all := b.run(s, err, nil)
			if got := b.createdJobs(); state.Exit != 0 || len(got) != 1 || len(b.jobs()) > 0 {
				t.Errorf("exit %d, created %v, left %v: %s", state.Exit, got, b.jobs(), phrase.Reason(state))
			}
			logged := slices.ContainsFunc(all, func(e event.Event) bool { return e.Kind == event.KindLog && slices.Equal(e.Lines, []string{"at work"}) })
			if !logged {
				t.Error("the output of the Job is missing")
			}
		})
	}
}

// TestImageHookOfADeadRun (S7, S11a, R51): lockstep is killed while the Job of a hook runs, which never ends, and the next run has another
// hook: it has the lock of the release, so the other run is dead, and its Job is replaced. So is that of a hook before all releases.
func TestImageHookOfADeadRun(t *testing.T) {
	t.Parallel()
	for at, of := range map[string]string{"presync": "a", "prepare": ""} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			h := newHooked(b, map[string]string{of: imageHook("slow", at, `sandbox/log: "at work", sandbox/run-duration: 24h`)}, release{Name: "a", Dir: chart(t, "a")})
			h.kill(atLog)
			h.replace(map[string]string{of: imageHook("slow", at, "")})
			s, err := h.prepare(false, fromAnywhere)
			said := false
			state, _ := b.run(s, err, func(e event.Event) { said = said || strings.Contains(e.Message, "of a run that was killed: ") })
			if got := b.createdJobs(); state.Exit != 0 || len(got) != 2 || len(b.jobs()) > 0 || !said {
				t.Errorf("exit %d, created %v, left %v, said %t: %s", state.Exit, got, b.jobs(), said, phrase.Reason(state))
			}
		})
	}
}

// TestFollowedImageHook (S11a): two runs have nothing to deploy, so no lock. One follows the Job that the other one has started, and
// leaves it alone when it is aborted.
func TestFollowedImageHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	h := newHooked(b, map[string]string{"": imageHook("slow", "prepare", `sandbox/log: "at work", sandbox/run-duration: 24h`)}, release{Name: "a", Dir: chart(t, "a")})
	s, err := h.prepare(false, func(o *kube.StackOptions) { o.Hooks = kube.SkipHooks })
	b.run(s, err, nil)
	first, err := h.prepare(false, fromAnywhere)
	var once sync.Once
	state, _ := b.run(first, err, func(e event.Event) {
		if !atLog(e) {
			return
		}
		once.Do(func() {
			s, err := h.prepare(false, fromAnywhere)
			if err != nil {
				t.Error(err)
				return
			}
			reader, ended := s.Feed().Reader(), make(chan error, 1)
			go func() { ended <- s.Run() }()
			for events, ok := reader.Next(t.Context()); ok; events, ok = reader.Next(t.Context()) {
				if slices.ContainsFunc(events, atLog) {
					s.Command(event.Command{Name: event.Abort})
				}
			}
			if err := <-ended; err == nil {
				t.Error("the second run was not aborted")
			}
			b.endPods()
		})
	})
	if got := b.createdJobs(); state.Exit != 0 || len(got) != 1 || len(b.jobs()) > 0 {
		t.Errorf("exit %d, created %v, left %v: %s", state.Exit, got, b.jobs(), phrase.Reason(state))
	}
}

func atLog(e event.Event) bool { return e.Kind == event.KindLog }

// TestImageHookOfAnotherRun (S11a): a run for other releases does not delete the Job that runs for a live run, also if it
// is aborted: it waits for the end of that Job, and the other run notices its success.
func TestImageHookOfAnotherRun(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	hook := map[string]string{"": `{name: slow, events: [prepare], lockstep/image: {name: example/tool:1, annotations: {sandbox/log: "at work", sandbox/run-duration: 2m}}}`}
	h := newHooked(b, hook, release{Name: "a", Dir: chart(t, "a")})
	first, err := h.prepare(false, fromAnywhere)
	if err != nil {
		t.Fatal(err)
	}
	other := newHooked(b, hook, release{Name: "c", Dir: chart(t, "c")}) // in a folder of the same name
	if err := os.Rename(filepath.Join(other.dir, "helmfile.yaml"), filepath.Join(h.dir, "helmfile.yaml")); err != nil {
		t.Fatal(err)
	}
	other.dir = h.dir
	var others sync.WaitGroup
	var once sync.Once
	state, _ := b.run(first, nil, func(e event.Event) {
		if e.Kind != event.KindLog {
			return
		}
		once.Do(func() {
			others.Go(func() {
				for _, aborts := range []bool{true, false} {
					s, err := other.prepare(false, fromAnywhere)
					waited := false
					state, _ := b.run(s, err, func(e event.Event) {
						if e.Kind == event.KindLog { // its own Job
							b.endPods()
						}
						if !strings.Contains(e.Message, "waits for the end of Job lockstep-step-") || !strings.Contains(e.Message, " of another run (") || waited {
							return
						}
						if waited = true; aborts {
							s.Command(event.Command{Name: event.Abort})
						} else {
							b.endPods()
						}
					})
					if want := map[bool]int{true: 3, false: 0}[aborts]; state.Exit != want || !waited {
						t.Errorf("the other run: exit %d, want %d, waited %t: %s", state.Exit, want, waited, phrase.Reason(state))
					}
				}
			})
		})
	})
	others.Wait()
	if got := b.createdJobs(); state.Exit != 0 || len(got) != 2 || len(b.jobs()) > 0 {
		t.Errorf("exit %d, created %v, left %v: %s", state.Exit, got, b.jobs(), phrase.Reason(state))
	}
}

// endPods ends the pods of the test's namespaces whose sandbox/run-duration is longer.
func (b stackRig) endPods() {
	for _, namespace := range []string{b.Namespace, b.Namespace + "-extra"} {
		pods := b.Cluster.CoreV1().Pods(namespace)
		list, err := pods.List(b.T.Context(), metav1.ListOptions{})
		if err != nil {
			b.T.Error(err)
			return
		}
		for _, p := range list.Items {
			_, err := pods.Patch(b.T.Context(), p.Name, types.MergePatchType, []byte(`{"metadata": {"annotations": {"sandbox/run-duration": "1s"}}}`), metav1.PatchOptions{})
			if err != nil && !errors.IsNotFound(err) {
				b.T.Error(err)
			}
		}
	}
}

// TestEndedImageHook (S11a, R43): when the run is aborted, the Job of its hook is deleted before the run ends, with its pod.
func TestEndedImageHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	h := newHooked(b, map[string]string{"a": imageHook("slow", "presync", `sandbox/log: "at work", sandbox/run-duration: 10m`)}, release{Name: "a", Dir: chart(t, "a")})
	s, err := h.prepare(false, fromAnywhere)
	var once sync.Once
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindLog {
			once.Do(func() { s.Command(event.Command{Name: event.Abort}) })
		}
	})
	pods, err := b.Client.Clientset.CoreV1().Pods(b.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if state.Exit != 3 || len(b.jobs()) > 0 || len(pods.Items) > 0 {
		t.Errorf("exit %d, left %v and %d pods", state.Exit, b.jobs(), len(pods.Items))
	}
}

// TestImageHookRights (S11a): without the permission to create Jobs, a run with such a hook writes nothing. A Job of the same name that
// is somebody else's stays.
func TestImageHookRights(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	h := newHooked(b, map[string]string{"a": imageHook("migrate", "presync", "")}, release{Name: "a", Dir: chart(t, "a")})
	weak := b.ConnectAs("weak-"+b.Namespace, rig.Rule("", "*", "get", "list", "watch", "create", "patch", "update", "delete"), rig.Rule("apps", "*", "*"), rig.Rule("coordination.k8s.io", "*", "*"))
	start := time.Now()
	_, err := kube.PrepareStack(t.Context(), h.options(false, fromAnywhere), func(string) (*kube.Client, error) { return weak, nil })
	if err == nil || !strings.Contains(err.Error(), "jobs.batch [create delete get] (for hooks with lockstep/image)") || len(b.WrittenSince(start)) > 0 {
		t.Errorf("without permission: %v, written %v", err, b.WrittenSince(start))
	}
	s, err := h.prepare(false, fromAnywhere)
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(s.Steps()[0].Job, "/")
	name, _, _ = strings.Cut(name, " ")
	b.Create(rig.Object("batch/v1/Job/"+name, nil, `spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: example/app:1.0}]}}}`))
	state, _ := b.run(s, err, nil)
	if g := state.Find("releases", b.id("a")+"/presync/migrate"); state.Exit != 1 || !strings.Contains(g.Cause, "is not one of this hook: delete or rename it") {
		t.Errorf("exit %d: %q", state.Exit, g.Cause)
	}
	if _, err := b.Client.Clientset.BatchV1().Jobs(b.Namespace).Get(t.Context(), name, metav1.GetOptions{}); errors.IsNotFound(err) {
		t.Error("the Job of somebody else is gone")
	}
}
