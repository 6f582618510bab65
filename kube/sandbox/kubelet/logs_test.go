package kubelet

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func TestSelectLines(t *testing.T) {
	// Four lines, at 0, 1, 2 and 3 seconds.
	pod := testPod("Never", "run-duration=4s", "log=a\nb\nc\nd\n")
	s, _ := parseScript(pod)
	lines := logLines(pod, "app", s, attemptTimes{begin: epoch})
	tests := []struct {
		query  string
		after  time.Duration
		want   string
		future int
	}{
		{"", 0, "a\n", 3},
		{"", 10 * time.Second, "a\nb\nc\nd\n", 0},
		{"tailLines=2", 2500 * time.Millisecond, "b\nc\n", 1},
		{"tailLines=0", time.Second, "", 2},
		{"limitBytes=3", time.Minute, "a\nb", 0},
		{"sinceSeconds=2", 3 * time.Second, "b\nc\nd\n", 0},
		{"sinceTime=2030-01-02T03:04:08Z", time.Minute, "d\n", 0},
		{"timestamps=true&tailLines=1", 3 * time.Second, "2030-01-02T03:04:08.678000000Z d\n", 0},
	}
	for _, tt := range tests {
		q, _ := url.ParseQuery(tt.query)
		now := epoch.Add(tt.after)
		o, err := parseLogOptions(q, now)
		if err != nil {
			t.Fatal(err)
		}
		past, future := selectLines(lines, o, now)
		var out strings.Builder
		w := &logWriter{w: &out, timestamps: o.timestamps, left: o.limit}
		for _, l := range past {
			if !w.print(l) {
				break
			}
		}
		if out.String() != tt.want || len(future) != tt.future {
			t.Errorf("%q after %v: %q and %d to come, want %q and %d", tt.query, tt.after, out.String(), len(future), tt.want, tt.future)
		}
	}
	if _, err := parseLogOptions(url.Values{"tailLines": {"-1"}}, epoch); err == nil {
		t.Error("a negative tailLines is accepted")
	}
}

func TestLoggedAttempt(t *testing.T) {
	crashed := testPod("exit-code=1", "run-duration=500ms")
	play(t, crashed, 600*time.Millisecond)
	again := testPod("exit-code=1", "run-duration=500ms")
	play(t, again, 1600*time.Millisecond)
	image := testPod("fail=image")
	play(t, image, 0)
	running := testPod()
	play(t, running, 0)
	tests := []struct {
		name      string
		pod       *corev1.Pod
		container string
		previous  bool
		want      string // error, or "" for a log
		ended     bool
	}{
		{"running", running, "app", false, "", false},
		{"running, previous", running, "app", true, `previous terminated container "app" in pod "p" not found`, false},
		{"crashed", crashed, "app", false, "", true},
		{"restarted", again, "app", false, "", false},
		{"restarted, previous", again, "app", true, "", true},
		{"no image", image, "app", false, `container "app" in pod "p" is waiting to start: image can't be pulled`, false},
		{"no such container", running, "x", false, `container "x" in pod "p" is not available`, false},
	}
	for _, tt := range tests {
		a, err := loggedAttempt(tt.pod, tt.container, tt.previous, history{})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || a.end.IsZero() == tt.ended {
			t.Errorf("%s: %+v, error %q, want %q", tt.name, a, got, tt.want)
		}
	}
}

// recorder is a response that can be read while it is written.
type recorder struct {
	header http.Header

	mu   sync.Mutex
	body strings.Builder
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) Flush()              {}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.Write(p)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.String()
}

// A followed log prints each line at its time, and ends with the container.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := testPod("Never", "run-duration=3s", "log=a\nb\nc")
		s, _ := parseScript(pod)
		var past history
		step := func() {
			p := &pass{pod: pod, script: s, past: past, now: time.Now(), newIP: func() string { return "10.244.0.1" }}
			p.run()
			pod, past = pod.DeepCopy(), p.past
			pod.Status = stored(t, *p.status)
		}
		step()
		k := &Kubelet{pods: cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{}), past: map[types.UID]history{}}
		publish := func() {
			k.remember(pod.UID, past)
			if err := k.pods.GetStore().Add(pod); err != nil {
				t.Error(err)
			}
		}
		publish()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/containerLogs/ns/p/app?follow=true", nil)
		r.SetPathValue("namespace", "ns")
		r.SetPathValue("pod", "p")
		r.SetPathValue("container", "app")
		w := &recorder{header: http.Header{}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.logs(w, r)
		}()
		for _, want := range []string{"a\n", "a\nb\n", "a\nb\nc\n"} {
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			if got := w.text(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			time.Sleep(500 * time.Millisecond)
		}
		step()
		if !finished(pod) {
			t.Fatal("the pod has not finished")
		}
		publish()
		<-done
	})
}

func TestFailedSiblings(t *testing.T) {
	job := metav1.OwnerReference{UID: "job", Controller: new(bool)}
	*job.Controller = true
	k := &Kubelet{pods: cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, cache.Indexers{})}
	for i, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodFailed, corev1.PodSucceeded, corev1.PodRunning} {
		p := testPod()
		p.Name, p.OwnerReferences, p.Status.Phase = string(rune('a'+i)), []metav1.OwnerReference{job}, phase
		if err := k.pods.GetStore().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	pod := testPod()
	if n := k.failedSiblings(pod); n != 0 {
		t.Errorf("a pod without an owner has %d failed siblings", n)
	}
	pod.OwnerReferences = []metav1.OwnerReference{job}
	if n := k.failedSiblings(pod); n != 2 {
		t.Errorf("%d failed siblings, want 2", n)
	}
}
