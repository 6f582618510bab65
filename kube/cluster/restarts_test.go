package cluster

import (
	"cmp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/run"
)

// TestPodRuns expects what the containers of a workload's pods say about restarts and starts (R22c).
func TestPodRuns(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(s) * time.Second)) }
	running := func(since int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(since)}}
	}
	ended := func(code int32, finished int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: at(finished)}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	probe := &corev1.Probe{}
	always, never := corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	type seen struct {
		second      int
		state, last corev1.ContainerState
		restarts    int32
		deleted     bool
	}
	exited := "container app exited with code 3"
	cases := []struct {
		name   string
		kind   string
		policy corev1.RestartPolicy
		probe  *corev1.Probe
		seen   []seen
		want   run.Pods

		unready bool
	}{
		{name: "not ready", probe: probe, unready: true, seen: []seen{{3, running(2), corev1.ContainerState{}, 0, false}}, want: run.Pods{Unready: 1}},
		{name: "not ready and being deleted", probe: probe, unready: true, seen: []seen{{3, running(2), corev1.ContainerState{}, 0, true}}},
		{name: "a Job's is not ready", kind: "Job", unready: true, seen: []seen{{3, running(2), corev1.ContainerState{}, 0, false}}},
		{name: "started", seen: []seen{{2, waiting, corev1.ContainerState{}, 0, false}, {3, running(2), corev1.ContainerState{}, 0, false}}, want: run.Pods{Started: at(3).Time}},
		{name: "with a probe", probe: probe, seen: []seen{{3, running(2), corev1.ContainerState{}, 0, false}}},
		{name: "started before it was seen", seen: []seen{{300, running(2), corev1.ContainerState{}, 0, false}}, want: run.Pods{Started: at(2).Time}},
		{name: "the node's clock is ahead", seen: []seen{{3, running(90), corev1.ContainerState{}, 0, false}}, want: run.Pods{Started: at(3).Time}},
		{name: "the node's clock is behind", seen: []seen{{100, running(2), corev1.ContainerState{}, 0, false}, {104, running(6), ended(3, 5), 1, false}},
			want: run.Pods{Started: at(104).Time, Restarted: at(104).Time, Restart: exited}},
		{name: "crashed", probe: probe, seen: []seen{{3, running(2), corev1.ContainerState{}, 0, false}, {4, waiting, ended(3, 4), 0, false}},
			want: run.Pods{Restarted: at(4).Time, Restart: exited, Down: true}},
		{name: "ended and not restarted yet", probe: probe, seen: []seen{{3, running(2), corev1.ContainerState{}, 0, false}, {4, ended(3, 4), corev1.ContainerState{}, 0, false}},
			want: run.Pods{Restarted: at(4).Time, Restart: exited, Down: true}},
		{name: "runs again, within one second", probe: probe, seen: []seen{{4, waiting, ended(3, 4), 0, false}, {5, running(4), ended(3, 4), 1, false}, {7, running(4), ended(3, 4), 1, false}},
			want: run.Pods{Restarted: at(5).Time, Restart: exited}},
		{name: "restarted long ago", probe: probe, seen: []seen{{500, running(4), ended(3, 4), 7, false}, {510, running(4), ended(3, 4), 7, false}},
			want: run.Pods{Restarted: at(4).Time, Restart: exited}},
		{name: "a pod of an earlier version", seen: []seen{{4, waiting, ended(3, 4), 0, false}, {5, running(4), ended(3, 4), 1, true}}},
		{name: "a pod that may end", kind: "Pod", policy: never, probe: probe, seen: []seen{{3, running(2), corev1.ContainerState{}, 0, false}, {4, ended(0, 4), corev1.ContainerState{}, 0, false}}},
		{name: "a Job", kind: "Job", seen: []seen{{5, running(4), ended(3, 4), 1, false}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o, runs := owner{"shop", "Deployment", "web"}, podRuns{}
			o.kind = cmp.Or(c.kind, o.kind)
			c.policy = cmp.Or(c.policy, always)
			for _, s := range c.seen {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: corev1.PodSpec{RestartPolicy: c.policy, Containers: []corev1.Container{{Name: "app", ReadinessProbe: c.probe}}}}
				if !c.unready {
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				}
				if s.deleted {
					pod.DeletionTimestamp = new(at(s.second))
				}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: s.state, LastTerminationState: s.last, RestartCount: s.restarts}}
				before := runs.of(o)
				if changed := runs.put(o, pod, 1, at(s.second).Time); changed != (before != runs.of(o)) {
					t.Errorf("second %d: changed %t", s.second, changed)
				}
			}
			c.want.Ready = len(runs[o]) - c.want.Unready
			if got := runs.of(o); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestLookKeepsWhatTheWatchSaidLater: a list of pods that is older than what the watch has reported since drops no pod, and brings none
// back that has ended (R22c).
func TestLookKeepsWhatTheWatchSaidLater(t *testing.T) {
	pod := func(name, version string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), ResourceVersion: version,
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}}, Status: corev1.PodStatus{Phase: phase}}
	}
	lists := []corev1.PodList{
		{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*pod("old", "8", corev1.PodRunning), *pod("ended", "9", corev1.PodRunning)}},
		{ListMeta: metav1.ListMeta{ResourceVersion: "13"}, Items: []corev1.Pod{*pod("old", "8", corev1.PodRunning), *pod("ended", "12", corev1.PodFailed)}},
	}
	kube := fake.NewClientset()
	w := newPodWatches(t.Context(), kube, WatchOptions{})
	defer w.close()
	kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		next := lists[0]
		if len(lists) == 2 { // the watch is ahead of the first list
			w.handlePod(pod("ended", "12", corev1.PodFailed), false, 1)
			w.handlePod(pod("new", "14", corev1.PodRunning), false, 1)
			lists = lists[1:]
		}
		return true, &next, nil
	})
	w.handlePod(pod("ended", "9", corev1.PodRunning), false, 1)
	w.look(t.Context(), "ns")
	var left []string
	for uid := range w.runs[owner{"ns", "StatefulSet", "db"}] {
		left = append(left, string(uid))
	}
	if slices.Sort(left); !slices.Equal(left, []string{"new", "old"}) {
		t.Errorf("pods after the look: %q", left)
	}
}
