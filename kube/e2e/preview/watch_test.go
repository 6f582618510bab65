package preview

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/manifest"
	"lockstep/kube/view"
)

// TestViewFollowsARelease watches a release through several operations.
func TestViewFollowsARelease(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("fanout", nil)
	v := r.OpenView(0)
	if !v.View.Sequenced() {
		t.Error("the view says that fanout was not deployed in order")
	}
	v.Await("all groups ready", func(s *event.State) bool { return rig.AllGroups(s, event.Ready) })
	select {
	case <-v.View.Seen():
	case <-time.After(30 * time.Second):
		t.Error("all objects were seen, but Seen is not closed")
	}

	// The view shows drift, until an upgrade repairs it.
	deployments := r.Cluster.AppsV1().Deployments(r.Namespace)
	if err := deployments.Delete(t.Context(), "left-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	v.Await("left-2 missing", func(s *event.State) bool {
		g := s.Find("apply", "fanout:left-2")
		return g.Status == event.Failed && g.Message == "Deployment/left-2: not in the cluster"
	})
	r.MustRun(r.Upgrade("fanout", nil))
	v.Await("revision 2, all groups ready", func(s *event.State) bool {
		return s.Operation.Revision == 2 && s.Message == "deployed" && rig.AllGroups(s, event.Ready)
	})

	// An upgrade to another chart changes the groups.
	r.MustRun(r.Upgrade("chain20", nil))
	v.Await("the groups of revision 3", func(s *event.State) bool {
		return s.Operation.Revision == 3 && s.Find("apply", "chain20:g20") != nil && rig.AllGroups(s, event.Ready)
	})
	r.MustRun(r.Uninstall())
	select {
	case err := <-v.Done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the view does not end after the release is gone")
	}
	v.Await("the end of the view", func(s *event.State) bool { return s.Status == event.Succeeded })
}

// TestViewOfARunningInstall shows existing objects of a release that is not deployed yet.
func TestViewOfARunningInstall(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("slow", nil))
	started := make(chan struct{})
	var once sync.Once
	done := make(chan rig.Outcome, 1)
	go func() {
		done <- r.Run(op, func(e event.Event) {
			if e.Group == "slow:slow" && e.Status == event.InProgress {
				once.Do(func() { close(started) })
			}
		})
	}()
	select {
	case <-started:
	case <-time.After(30 * time.Second):
		t.Fatal("group slow never started")
	}
	v := r.OpenView(0)
	v.Await("one group ready, one running, one waiting", func(s *event.State) bool {
		before, slow, after := s.Find("apply", "slow:before"), s.Find("apply", "slow:slow"), s.Find("apply", "slow:after")
		return before != nil && before.Status == event.Ready && slow.Status == event.Running && after.Status == event.Waiting &&
			after.Objects[0].Status == event.Waiting && s.Message == "pending-install"
	})
	v.Await("deployed", func(s *event.State) bool { return s.Message == "deployed" && rig.AllGroups(s, event.Ready) })
	if out := <-done; out.Err != nil {
		t.Error(out.Err)
	}
	v.Stop()
	if err := <-v.Done; err != nil {
		t.Error(err)
	}
}

// TestViewOfOtherReleases opens views of a missing release, a release of Helm's, and an earlier revision.
func TestViewOfOtherReleases(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	if _, err := r.Client.PrepareView(t.Context(), "t", r.Namespace, 0); err == nil {
		t.Error("a view of a missing release was opened")
	}
	r.MustHelm("install", "t", rig.ChartsDir+"/plain", "--wait=hookOnly")
	v := r.OpenView(0)
	if v.View.Sequenced() {
		t.Error("the view says that Helm deployed in order")
	}
	v.Await("one group, ready", func(s *event.State) bool { return rig.AllGroups(s, event.Ready) && len(s.Phases[0].Groups) == 1 })

	r.MustRun(r.Upgrade("fanout", nil))
	old := r.OpenView(1)
	old.Await("revision 1, whose objects are gone", func(s *event.State) bool { return s.Operation.Revision == 1 && rig.AllGroups(s, event.Gone) })
	old.Stop()
	if err := <-old.Done; err != nil {
		t.Error(err)
	}
}

// TestViewOfAnObjectCreatedAgain: somebody deletes an object of the release and creates another one of its name, which is not the
// release's (S18).
func TestViewOfAnObjectCreatedAgain(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), rig.ConfigMap("b", nil)), nil))
	if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Create(rig.ConfigMap("a", nil))
	v := r.OpenView(0)
	v.Await("only a has lost its owner", func(s *event.State) bool {
		lost := map[string]int{}
		for _, o := range s.Drifted() {
			for _, d := range o.Drift {
				if d.Field == manifest.OwnerField && d.Gone && d.Manager != "" {
					lost[o.Object.Name]++
				}
			}
		}
		return maps.Equal(lost, map[string]int{"a": 1})
	})
	v.Stop()
	if err := <-v.Done; err != nil {
		t.Error(err)
	}
}

// TestViewOfAnExpiredJob: a Job that the cluster deleted after it had finished is gone, which is no drift; how it ended is
// only said if it was observed.
func TestViewOfAnExpiredJob(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	job := rig.Job("work", rig.Group("a"), "1s", "  ttlSecondsAfterFinished: 12")
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, job, rig.ConfigMap("after", rig.Group("b", "a"))), func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs }))
	gone := func(message string) func(s *event.State) bool {
		return func(s *event.State) bool {
			g := s.Find("apply", "edge:a")
			return g != nil && g.Status == event.Gone && g.Objects[0].Status == event.Gone && strings.HasPrefix(g.Objects[0].Message, message)
		}
	}
	v := r.OpenView(0)
	v.Await("the Job before it is deleted", func(s *event.State) bool { return rig.AllGroups(s, event.Ready) })
	v.Await("the Job after that", gone("it was ready before; "))
	r.OpenView(0).Await("a Job that was deleted before", gone(view.Expired))

	if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "after", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.OpenView(0).Await("drift of another object", func(s *event.State) bool {
		g := s.Find("apply", "edge:b")
		return g != nil && g.Status == event.Failed && gone(view.Expired)(s)
	})
}

// TestViewSaysWhy: a view shows why an object is not ready.
func TestViewSaysWhy(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Run(r.Must(r.Install("fail-image", func(i *kube.Deploy) { i.ReadinessTimeout = 5 * time.Second })), nil)
	r.OpenView(0).Await("the reason, as a failure", func(s *event.State) bool {
		g := s.Find("apply", "fail-image:broken")
		return g != nil && strings.Contains(g.Objects[0].Cause, "cannot be pulled") && g.Objects[0].Status == event.Failed && g.Status == event.Failed
	})
}

// TestViewJudgesRestarts: a workload without probes whose container crashes again and again is never ready in a view that is
// opened while the container runs: a view judges restarts as a run does (R22c).
func TestViewJudgesRestarts(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("web", nil, "0s")), nil))
	steady := r.OpenView(0)
	steady.Await("ready", func(s *event.State) bool { return rig.AllGroups(s, event.Ready) })
	crashes := []byte(`{"spec":{"template":{"metadata":{"annotations":{"sandbox/run-duration":"6s","sandbox/exit-code":"3"}}}}}`)
	if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).Patch(t.Context(), "web", types.MergePatchType, crashes, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the container runs again", func() bool {
		pods, err := r.Cluster.CoreV1().Pods(r.Namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount > 0 && p.Status.ContainerStatuses[0].Ready
		})
	})
	v := r.OpenView(0)
	var web *event.ObjectState
	v.Await("the workload", func(s *event.State) bool {
		if g := s.Find("apply", "edge:(unsequenced)"); g != nil && len(g.Objects) == 1 {
			web = g.Objects[0]
		}
		return web != nil && web.Status != event.Waiting && web.Status != ""
	})
	if web.Status == event.Ready || !strings.Contains(web.Message, "exited with code 3") {
		t.Errorf("the view says %s, %s", web.Status, web.Message)
	}
	steady.Await("not ready", func(s *event.State) bool { return !rig.AllGroups(s, event.Ready) })
}
