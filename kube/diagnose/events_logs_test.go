package diagnose

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/inspect"
)

// of sets the UID of the involved object of events.
func of(uid, events string) string {
	return strings.ReplaceAll(events, "namespace: ns}\ntype", "namespace: ns, uid: "+uid+"}\ntype")
}

// TestEventsOfEarlierObjectsAreHidden expects no events of an earlier object with the
// same name, even if the current one is deleted or does not exist yet.
func TestEventsOfEarlierObjectsAreHidden(t *testing.T) {
	p := named("", "Pod", "p")
	both := of("p", incident("e1", "p", "Pod", "BackOff", "again")) + of("old", incident("e2", "p", "Pod", "Failed", "yesterday"))
	d, kube := cluster(t, pod("p", "r2", crashed7)+both)
	for _, when := range []string{"while the pod exists", "after its deletion"} {
		if events, err := d.Events(t.Context(), p); err != nil || len(events) != 1 || events[0].Reason != "BackOff" {
			t.Errorf("%s: %v, %v", when, events, err)
		}
		_ = kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "p")
		_ = d.dyn.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("ns").Delete(t.Context(), "p", metav1.DeleteOptions{})
	}
	d, _ = cluster(t, strings.TrimPrefix(both, "\n---\n"))
	if events, err := d.Events(t.Context(), p); !errors.Is(err, ErrNotFound) {
		t.Errorf("before it exists: %v, %v", events, err)
	}
}

// TestWorkloadEventsIncludePods expects the events of a workload's pods with its own, because they explain failures.
func TestWorkloadEventsIncludePods(t *testing.T) {
	d, _ := cluster(t, deployment+pod("p", "r2", crashed7)+of("p", incident("e1", "p", "Pod", "BackOff", "again"))+of("r2", incident("e2", "api-2", "ReplicaSet", "Created", "p"))+
		of("d", incident("e3", "api", "Deployment", "Scaled", "up"))+of("x", incident("e4", "other", "Pod", "BackOff", "again")))
	events, err := d.Events(t.Context(), named("apps", "Deployment", "api"))
	if err != nil || len(events) != 3 {
		t.Errorf("%v, %v", events, err)
	}
}

// TestLogsAreFollowed follows the logs of all containers. It expects notes about why a container has not started and how
// one has exited.
func TestLogsAreFollowed(t *testing.T) {
	waiting := `phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ImagePullBackOff, message: no such image}}}]`
	d, _ := cluster(t, deployment+pod("p", "r2", crashed7)+"\n---\n"+pod("q", "r2", waiting))
	want := []string{"p c 3", "p c 2: fake logs", "p c 3: fake logs", "q c 1", "q c 1: has not started: ImagePullBackOff: no such image", "p c 3: exited with code 7"}
	got := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan inspect.LogLine)
	done := make(chan error, 1)
	go func() {
		done <- d.FollowLogs(ctx, named("apps", "Deployment", "api"), func(l inspect.LogLine) {
			select {
			case lines <- l:
			case <-ctx.Done():
			}
		})
	}()
	for range want {
		l := <-lines
		text := fmt.Sprintf("%s %s %d", l.Pod, l.Container, l.Instance)
		if l.Text != "" {
			text += ": " + l.Text
		}
		got[text]++
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, w := range want {
		if got[w] != 1 {
			t.Errorf("%q was emitted %d times: %v", w, got[w], got)
		}
	}
	d, _ = cluster(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}}`)
	if err := d.FollowLogs(t.Context(), named("", "ConfigMap", "c"), nil); !errors.Is(err, ErrNoPods) {
		t.Error(err)
	}
}

// TestLogsOfAMissingObject expects a note about an object that does not exist yet and another once it was deleted.
func TestLogsOfAMissingObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := cluster(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}}")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		notes := make(chan string, 10)
		go func() {
			_ = d.FollowLogs(ctx, named("apps", "Deployment", "api"), func(l inspect.LogLine) { notes <- l.Text })
		}()
		deployments := d.dyn.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace("ns")
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "api", "namespace": "ns"}}}
		for i, step := range []struct {
			note   string
			change func() error
		}{
			{"not in the cluster yet; waiting for it", func() error { return nil }},
			{"no pods yet; waiting for them", func() error { _, err := deployments.Create(ctx, u, metav1.CreateOptions{}); return err }},
			{"deleted from the cluster; waiting in case it is created again", func() error { return deployments.Delete(ctx, "api", metav1.DeleteOptions{}) }},
		} {
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			if got := <-notes; got != step.note {
				t.Errorf("note %d: %q, want %q", i, got, step.note)
			}
		}
	})
}

// TestShellIsRefused expects an error if no matching container is running, or if exec is not permitted.
func TestShellIsRefused(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, spec: {containers: [{name: c}]}, status: {containerStatuses: [{name: c, state: {%s: {}}}]}}"
	for _, tt := range []struct{ state, pod, container, want string }{
		{"waiting", "", "", "open a shell in Pod/p: none of its containers is running"},
		{"waiting", "", "c", "open a shell in Pod/p: container c is not running"},
		{"waiting", "p", "", "open a shell in Pod/p: no container of pod p is running"},
		{"waiting", "p", "c", "open a shell in Pod/p: container c of pod p is not running"},
		{"running", "", "", "a shell needs permission to create pods/exec in namespace ns"},
		{"running", "", "other", "open a shell in Pod/p: container other is not running"},
	} {
		d, kube := cluster(t, fmt.Sprintf(pod, tt.state))
		kube.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authorizationv1.SelfSubjectAccessReview{}, nil // not allowed
		})
		if _, err := d.Shell(t.Context(), named("", "Pod", "p"), tt.pod, tt.container); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v; want %s", tt.state, err, tt.want)
		}
	}
}

// TestPodsThatCannotBeCreated: that some pods cannot be created says more than that another one is not ready yet, and less than
// that one fails.
func TestPodsThatCannotBeCreated(t *testing.T) {
	refused := incident("e", "api-2", "ReplicaSet", "FailedCreate", `Error creating: pods "x" is forbidden: exceeded quota`)
	notReady := incident("probe", "p", "Pod", "Unhealthy", "Readiness probe failed: 503")
	for name, tt := range map[string]struct {
		rest     string
		cause    string
		degraded bool
		lacks    int
	}{
		"none":             {strings.TrimPrefix(refused, "\n---\n"), "no pods can be created: exceeded quota", true, 3},
		"one is not ready": {pod("p", "r2", unreadyUp) + notReady + refused, "2 of 3 pods cannot be created: exceeded quota", true, 3},
		"one is ready":     {pod("p", "r2", readyPod) + refused, "2 of 3 pods cannot be created: exceeded quota", true, 3},
		"and an old one":   {pod("p", "r2", readyPod) + "\n---\n" + pod("o", "r1", readyPod) + refused, "2 of 3 pods cannot be created: exceeded quota", true, 4},
		"one has crashed":  {pod("p", "r2", crashed7) + refused, "container c exited with code 7 (2 restarts): fake logs", true, 0},
		"all exist":        {pod("p", "r2", unreadyUp) + "\n---\n" + pod("q", "r2", readyPod) + "\n---\n" + pod("r", "r2", readyPod) + notReady + refused, "container c is running but not ready: Readiness probe failed: 503", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := cluster(t, strings.Replace(deployment, "replicas: 1", "replicas: 3", 1)+tt.rest)
			r := d.Object(t.Context(), named("apps", "Deployment", "api"))
			if r.Cause != tt.cause || r.Degraded != tt.degraded || r.Lacks != tt.lacks || r.OfPods != (tt.lacks == 0) {
				t.Errorf("%q, degraded %t, lacks %d, of pods %t", r.Cause, r.Degraded, r.Lacks, r.OfPods)
			}
		})
	}
}
