package steer

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// TestRetryAfterAManualFix fixes the failed object with another field manager while the run
// is held. The retry accepts the change, with a warning, or with --force-conflicts applies the
// chart's fields (R44).
func TestRetryAfterAManualFix(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprint(force), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Meddles = "the test fixes objects by hand"
			op := r.Must(r.Install("fail-image", func(i *kube.Deploy) {
				i.HoldOnFailure, i.ReadinessTimeout, i.ForceConflicts = true, 6*time.Second, force
			}))
			out, held := r.RunHeld(op, event.Abort, func() { fixDeployment(r, "broken") })
			if force {
				if held != 2 || out.State.Exit != 3 || strings.Contains(out.State.Message, "conflict") {
					t.Errorf("held %d times, exit %d: %s", held, out.State.Exit, out.State.Message)
				}
				return
			}
			if out.Err != nil || out.State.Exit != 0 || !out.HasWarning("R44", "Deployment/broken", "kubectl-set") {
				t.Errorf("exit %d, %v, warnings %v", out.State.Exit, out.Err, out.State.Warnings)
			}
			r.AssertDeployed("t")
		})
	}
}

// TestRetryAfterHold fixes the cluster while the run is held, then retries (R44).
func TestRetryAfterHold(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("fail-image", func(i *kube.Deploy) { i.HoldOnFailure, i.ReadinessTimeout = true, 8*time.Second }))
	out, held := r.RunHeld(op, event.Abort, func() { patchDeployment(r, "broken", `{"spec":{"paused":true}}`) }) // a paused Deployment counts as ready
	if out.Err != nil || out.State.Exit != 0 || held != 1 {
		t.Errorf("held %d times, exit %d: %v", held, out.State.Exit, out.Err)
	}
	r.AssertDeployed("t")
}

// TestRollbackAfterARetry: what the run created is not taken for what existed before when a retry writes it again, so a rollback
// deletes it (R31a, R33, R44).
func TestRollbackAfterARetry(t *testing.T) {
	t.Parallel()
	for _, upgrade := range []bool{false, true} {
		t.Run(map[bool]string{false: "install", true: "upgrade"}[upgrade], func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			objects := rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")), failingJob("bad", rig.Group("b", "a"))),
				func(d *kube.Deploy) {
					d.HoldOnFailure, d.RollbackOnFailure, d.WaitForJobs = true, true, kube.AllJobs
				})
			prepare := r.Install
			if upgrade {
				r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a"))), nil))
				prepare = r.Upgrade
			}
			op := r.Must(prepare("plain", objects))
			out, held := r.RunHeld(op, event.GiveUp, nil)
			want := []string{}
			if upgrade {
				want = []string{"a"}
			}
			if got := r.ConfigMaps(r.Namespace); out.State.Exit != 1 || held != 2 || !slices.Equal(got, want) || strings.Contains(out.State.Message, "kept") {
				t.Errorf("exit %d, held %d times, left %v: %s", out.State.Exit, held, got, out.State.Message)
			}
		})
	}
}

// TestRetryKeepsWhatIsReady: a retry runs the failed Job of a group again, not the one that has completed, and no healthy Pod: a
// migration does not run twice (R44).
func TestRetryKeepsWhatIsReady(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	good, bad := rig.Job("good", rig.Group("a"), "10ms"), failingJob("bad", rig.Group("a"))
	healthy := rig.Object("v1/Pod/healthy", rig.Group("a"), "spec: {containers: [{name: main, image: example/app:1.0}]}")
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, good, healthy, bad), func(i *kube.Deploy) {
		i.HoldOnFailure, i.WaitForJobs = true, kube.AllJobs
	}))
	if err != nil {
		t.Fatal(err)
	}
	uids := func() (all [3]types.UID) {
		for n, name := range []string{"good", "bad"} {
			job, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Error(err)
				return all
			}
			all[n] = job.UID
		}
		pod, err := r.Cluster.CoreV1().Pods(r.Namespace).Get(t.Context(), "healthy", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return all
		}
		all[2] = pod.UID
		return all
	}
	var before [3]types.UID
	if _, held := r.RunHeld(op, event.GiveUp, func() { before = uids() }); held != 2 {
		t.Fatalf("held %d times", held)
	}
	if after := uids(); after[0] != before[0] || after[1] == before[1] || after[2] != before[2] {
		t.Errorf("the UIDs of good, bad and healthy were %v, and are %v", before, after)
	}
}

// TestRetryKeepsWhatIsReadyWithoutItsName: the same holds for objects with a generateName, and for a complete Job that its
// ttlSecondsAfterFinished has removed (R44).
func TestRetryKeepsWhatIsReadyWithoutItsName(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.WithGenerateName(rig.Job("made-", rig.Group("a"), "10ms")),
		rig.WithGenerateName(rig.ConfigMap("map-", rig.Group("a"))), rig.Job("expires", rig.Group("a"), "10ms", "  ttlSecondsAfterFinished: 0"),
		rig.WithGenerateName(failingJob("bad-", rig.Group("a")))), func(i *kube.Deploy) {
		i.HoldOnFailure, i.WaitForJobs = true, kube.AllJobs
	}))
	if err != nil {
		t.Fatal(err)
	}
	out, held := r.RunHeld(op, event.GiveUp, func() {
		r.Eventually("the complete Job is deleted", func() bool {
			_, err := r.Cluster.BatchV1().Jobs(r.Namespace).Get(t.Context(), "expires", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
	created := map[string]int{}
	for _, e := range out.Events {
		if e.Kind == event.KindObject && e.Change == event.Created {
			created[cmp.Or(e.Planned, e.Object.Name)]++
		}
	}
	if want := map[string]int{"made-": 1, "map-": 1, "expires": 1, "bad-": 2}; held != 2 || !maps.Equal(created, want) {
		t.Errorf("held %d times; created %v, want %v", held, created, want)
	}
}

// TestRetryAfterAConflict: somebody owns a field before the run has applied the object. Neither a retry nor a re-check makes it
// ready while it has nothing of the new revision; a re-check does once somebody has made it as the chart has it (R44).
func TestRetryAfterAConflict(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(v string) *charts.Chart {
		return rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a"), "v: v"+v), rig.ConfigMap("c", rig.Group("b", "a"), "v: v"+v, "w: w"+v),
			rig.Deployment("sent-later", rig.Group("b"), "0s", "  replicas: "+v))
	}
	r.Deploy("plain", rig.UseChart(chart("1"), nil))
	op, err := r.Upgrade("plain", rig.UseChart(chart("2"), func(u *kube.Deploy) {
		u.HoldOnFailure, u.BreakOn, u.ReadinessTimeout = true, []string{"edge:b"}, 3*time.Second
	}))
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	out := r.Run(op, func(e event.Event) {
		if e.Kind != event.KindRun {
			return
		}
		switch e.Status {
		case event.Paused:
			r.PatchConfigMap("c", `{"data":{"v":"theirs"}}`)
			op.Command(event.Command{Name: event.Resume})
		case event.Held:
			switch held++; held {
			case 1:
				op.Command(event.Command{Name: event.Retry})
			case 2:
				r.PatchConfigMap("c", `{"metadata":{"annotations":{"any":"thing"}}}`)
				op.Command(event.Command{Name: event.Accept})
			case 3:
				r.PatchConfigMap("c", `{"data":{"v":"v2","w":"w2"}}`)
				patchDeployment(r, "sent-later", `{"metadata":{"annotations":{"any":"thing"}}}`)
				op.Command(event.Command{Name: event.Accept})
			case 4:
				op.Command(event.Command{Name: event.Retry})
			default:
				op.Command(event.Command{Name: event.Abort})
			}
		}
	})
	if got := r.ConfigMapData("c"); held != 4 || out.State.Exit != 0 || got["v"] != "v2" || got["w"] != "w2" {
		t.Errorf("held %d times, exit %d, c has %v", held, out.State.Exit, got)
	}
	if d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), "sent-later", metav1.GetOptions{}); err != nil || *d.Spec.Replicas != 2 {
		t.Errorf("sent-later: %v, %v", d.Spec.Replicas, err)
	}
}

// TestRecheckOfARemovedField: an upgrade that removes a field of an object is refused. A re-check counts the object only once it has
// the field no more (R44).
func TestRecheckOfARemovedField(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Meddles = "the test changes objects by hand"
			var refuses atomic.Bool
			r.Client = r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
				if !refuses.Load() || req.Method != http.MethodPatch || !strings.HasSuffix(req.URL.Path, "/configmaps/c") || req.URL.Query().Has("dryRun") {
					return false
				}
				faultproxy.Refuse(w, http.StatusForbidden, "Forbidden", "policy says no")
				return true
			}}, "")
			chart := func(data ...string) func(*kube.Deploy) {
				return rig.UseChart(rig.ChartOf(t, rig.ConfigMap("c", nil, data...)), func(d *kube.Deploy) {
					d.ServerSide, d.HoldOnFailure, d.ReadinessTimeout = serverSide, true, 3*time.Second
				})
			}
			r.Deploy("plain", chart("a: one", "b: two"))
			op := r.Must(r.Upgrade("plain", chart("a: one")))
			refuses.Store(true)
			held, why := 0, ""
			out := r.Run(op, func(e event.Event) {
				switch {
				case e.Kind == event.KindObject && e.Status == event.InProgress:
					why = e.Message
				case e.Kind != event.KindRun || e.Status != event.Held:
				default:
					if held++; held == 1 {
						r.PatchConfigMap("c", `{"metadata":{"labels":{"any":"thing"}}}`)
					} else {
						r.PatchConfigMap("c", `{"data":{"b":null}}`)
					}
					op.Command(event.Command{Name: map[bool]event.CommandName{true: event.Accept, false: event.Abort}[held < 3]})
				}
			})
			if want := "not applied, and differs from the chart in data.b; a retry applies it"; held != 2 || out.State.Exit != 0 || why != want {
				t.Errorf("held %d times, exit %d, %q, want %q", held, out.State.Exit, why, want)
			}
		})
	}
}
