package hooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestHookOfAnotherRelease: a hook without before-hook-creation does not replace an existing object. If a hook of another release
// made that object, the operation is refused before anything is written: Helm refuses it with client-side apply, and otherwise
// counts the other one's Job as its own (R31a). A Job that a hook of the same release or of an uninstalled one made is refused as
// well, because it would not run again (R22); a ConfigMap is no conflict.
func TestHookOfAnotherRelease(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "hook-failed"}
	for name, doc := range map[string]string{"job": rig.Job("h", annotations, "10ms"), "config": rig.ConfigMap("h", annotations)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			install := func(release string, take bool) (*kube.Operation, error) {
				return r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("of-"+release, nil), doc), func(i *kube.Deploy) {
					i.Release, i.TakeOwnership = release, take
				}))
			}
			r.MustRun(install("t", false))
			start := time.Now()
			_, err := install("other", false)
			r.MustRefuse(start, err, "/h already exists (namespace "+r.Namespace+"), made by a hook of release t", "helm.sh/hook-delete-policy lacks before-hook-creation")
			if _, err := install("other", true); err != nil {
				t.Errorf("with --take-ownership: %v", err)
			}
			upgrade := func() (*kube.Operation, error) {
				return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("of-t", nil), doc), nil))
			}
			const left = "/h already exists (namespace %s), left by an earlier run of the hook, so the hook would not run again: delete the object, or add before-hook-creation"
			if name == "job" {
				start = time.Now()
				_, err := upgrade()
				r.MustRefuse(start, err, fmt.Sprintf(left, r.Namespace))
			} else {
				r.MustRun(upgrade())
			}
			r.MustHelm("uninstall", "t") // leaves the hook's object, which then belongs to nobody
			if name == "config" {
				r.MustRun(install("other", false))
				return
			}
			start = time.Now()
			_, err = install("other", false)
			r.MustRefuse(start, err, fmt.Sprintf(left, r.Namespace))
			deleteJob(r, "h")
			r.MustRun(install("other", false))
		})
	}
}

// TestHookOverAForeignObject: a hook replaces the object of its last run, but no object that somebody else or another release has
// made. The operation is refused before anything is written: an earlier hook may be a migration (R31a).
func TestHookOverAForeignObject(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	first, hook := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}, map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "1"}
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("first", first, "10ms"), rig.Job("second", hook, "10ms"))
	install := func(take bool) (*kube.Operation, error) {
		return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.TakeOwnership = take }))
	}
	for name, c := range map[string]struct{ make, message string }{
		"nobody's":          {"", "Job/second already exists (namespace " + r.Namespace + ") and is not managed by Helm"},
		"another release's": {"other", "Job/second (namespace " + r.Namespace + ") is owned by release other"},
	} {
		if c.make == "" {
			r.Create(rig.Job("second", nil, "10ms"))
		} else {
			r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Job("second", nil, "10ms")), func(i *kube.Deploy) { i.Release = c.make })))
		}
		start := time.Now()
		_, err := install(false)
		r.MustRefuse(start, err, c.message)
		if _, err := install(true); err != nil {
			t.Errorf("%s, with --take-ownership: %v", name, err)
		}
		deleteJob(r, "second")
	}
	r.MustRun(install(false))
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, nil))) // the objects of its own hooks

	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("last", map[string]string{"helm.sh/hook": "pre-delete"}, "10ms")), nil)))
	r.Create(rig.Job("last", nil, "10ms"))
	start := time.Now()
	_, err := r.Uninstall()
	r.MustRefuse(start, err, "Job/last already exists (namespace "+r.Namespace+") and is not managed by Helm: delete it, or skip the hooks of the release with --no-hooks")
	r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, NoHooks: true}}))
}

func deleteJob(r *rig.Rig, name string) {
	r.T.Helper()
	if err := r.Cluster.BatchV1().Jobs(r.Namespace).Delete(r.T.Context(), name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
		r.T.Fatal(err)
	}
}

// TestForeignObjectOfAHook: every operation is refused before its first write if somebody else has made the object of a hook, also
// if the hook does not replace it (R31a).
func TestForeignObjectOfAHook(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"hook-succeeded", "hook-failed", "before-hook-creation"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			job := func(event string) *charts.Chart {
				annotations := map[string]string{"helm.sh/hook": event, "helm.sh/hook-delete-policy": policy}
				return rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("thing", annotations, "10ms"))
			}
			refuse := func(advice string, prepare func() (*kube.Operation, error)) {
				t.Helper()
				start := time.Now()
				_, err := prepare()
				r.MustRefuse(start, err, "Job/thing already exists (namespace "+r.Namespace+") and is not managed by Helm: delete it"+advice)
			}
			const take = ", or take it over with --take-ownership"
			r.Create(rig.Job("thing", nil, "10ms"))
			refuse(take, func() (*kube.Operation, error) { return r.Install("plain", rig.UseChart(job("post-install"), nil)) })
			r.Deploy("plain", rig.UseChart(job("post-rollback"), nil))
			refuse(take, func() (*kube.Operation, error) { return r.Upgrade("plain", rig.UseChart(job("post-upgrade"), nil)) })
			r.MustRun(r.Upgrade("plain", rig.UseChart(job("post-delete,test"), nil)))
			refuse(take, func() (*kube.Operation, error) { return r.Rollback(1) })
			refuse(", or skip the hooks of the release with --no-hooks", r.Uninstall)
			refuse(", or leave the test out", func() (*kube.Operation, error) {
				return r.Client.PrepareTest(t.Context(), kube.ReleaseTest{Common: r.Common()})
			})
		})
	}
}

// TestHookLeftByTheLastRun: a Job or Pod of the last run is not a run of this hook, so it is refused before the first write, of a
// test too (R22). The hook runs once the object is deleted.
func TestHookLeftByTheLastRun(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	hook := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade,pre-delete", "helm.sh/hook-delete-policy": "hook-failed"}
	chart := rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("migrate", hook, "10ms"), testPod("check", "0", `helm.sh/hook-delete-policy: hook-failed`))
	r.Deploy("plain", rig.UseChart(chart, nil))
	test := func() (*kube.Operation, error) {
		return r.Client.PrepareTest(t.Context(), kube.ReleaseTest{Common: r.Common()})
	}
	upgrade := func() (*kube.Operation, error) { return r.Upgrade("plain", rig.UseChart(chart, nil)) }
	r.MustRun(test())
	for object, prepare := range map[string]func() (*kube.Operation, error){"Pod/check": test, "Job/migrate": upgrade} {
		start := time.Now()
		_, err := prepare()
		r.MustRefuse(start, err, object+" already exists (namespace "+r.Namespace+"), left by an earlier run of the hook")
	}
	start := time.Now()
	_, err := r.Uninstall()
	r.MustRefuse(start, err, "Job/migrate already exists")
	op, err := r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.SkipPreflight = true }))
	if out := r.MustRun(op, err); !out.HasWarning("", "Job/migrate already exists") {
		t.Error("with --skip-preflight, no warning says that the hook does not run again")
	}
	deleteJob(r, "migrate")
	r.Eventually("the Job is gone", func() bool { return len(r.Jobs()) == 0 })
	r.MustRun(upgrade())
	if got := r.Jobs(); !slices.Equal(got, []string{"migrate"}) {
		t.Errorf("Jobs %v", got)
	}
}

// TestHookLeftByAFailedRun: the same command, run again after a failure, does not stop at what a hook without before-hook-creation
// has left in the failed run: Helm counts its result, too (R50, R22). If the hook's Job has failed, or the hook is another one, it is
// refused before the first write.
func TestHookLeftByAFailedRun(t *testing.T) {
	t.Parallel()
	policy := func(name string) map[string]string {
		return map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": name}
	}
	const left = "Job/%s already exists (namespace %s), left by an earlier run of the hook, so the hook would not run again: delete the object, or add before-hook-creation"
	install := func(r *rig.Rig, docs ...string) (*kube.Operation, error) {
		return r.Install("plain", rig.UseChart(rig.ChartOf(t, docs...), nil))
	}
	t.Run("succeeded", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		migrate, failing := rig.Job("migrate", policy("hook-failed"), "10ms"), rig.FailingJob(map[string]string{"helm.sh/layer": "a"})
		for range 2 { // the second retry finds what the first run has left
			op, err := install(r, migrate, failing)
			r.MustFail(op, err)
		}
		start := time.Now()
		_, err := install(r, rig.Job("migrate", policy("hook-failed"), "20ms"))
		r.MustRefuse(start, err, fmt.Sprintf(left, "migrate", r.Namespace))
		_, err = r.Install("plain", rig.UseChart(rig.ChartOf(t, migrate), func(i *kube.Deploy) { i.ServerSide = "false" }))
		r.MustRefuse(start, err, fmt.Sprintf(left, "migrate", r.Namespace))
		op, err := install(r, migrate)
		if out := r.MustRun(op, err); !out.HasWarning("", "Job/migrate already exists") {
			t.Error("no warning says that the hook does not run again")
		}
		upgrade := func() (*kube.Operation, error) { return r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, migrate), nil)) }
		start = time.Now()
		_, err = upgrade() // the run that made it has been completed
		r.MustRefuse(start, err, fmt.Sprintf(left, "migrate", r.Namespace))
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		op, err := install(r, rig.FailingJob(policy("hook-succeeded")))
		r.MustFail(op, err)
		start := time.Now()
		_, err = install(r, rig.FailingJob(policy("hook-succeeded")))
		r.MustRefuse(start, err, fmt.Sprintf(left, "fails", r.Namespace))
		deleteJob(r, "fails")
		r.Eventually("the Job is gone", func() bool { return len(r.Jobs()) == 0 })
		r.MustRun(install(r, rig.Job("fails", policy("hook-succeeded"), "10ms")))
	})
}

// TestHookOfTwoEvents: a hook that runs at two events of an operation runs twice. If its delete policies keep its Job between them,
// the operation is refused before the first write: Helm counts the first run as both, or fails at the second (R22).
func TestHookOfTwoEvents(t *testing.T) {
	t.Parallel()
	for policy, runs := range map[string]bool{"before-hook-creation": true, "hook-succeeded": true, "hook-failed": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			hook := map[string]string{"helm.sh/hook": "pre-install,post-install", "helm.sh/hook-delete-policy": policy}
			chart := rig.ChartOf(t, rig.ConfigMap("a", nil), rig.Job("twice", hook, "10ms"), rig.ConfigMap("kept", hook))
			install := func(skip bool) (*kube.Operation, error) {
				return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.SkipPreflight = skip }))
			}
			if !runs {
				start := time.Now()
				_, err := install(false)
				r.MustRefuse(start, err, "Job/twice (namespace "+r.Namespace+") is left by the pre-install hook, so the post-install hook would not run: add before-hook-creation")
			}
			out := r.MustRun(install(!runs))
			if warned := out.HasWarning("R22", "Job/twice"); warned == runs {
				t.Errorf("warned: %t", warned)
			}
			created := 0
			for _, e := range out.Events {
				if e.Kind == event.KindObject && e.Object.Name == "twice" && (e.Change == event.Created || e.Change == event.Replaced) {
					created++
				}
			}
			if want := map[bool]int{true: 2, false: 1}[runs]; created != want {
				t.Errorf("Job/twice was created %d times, want %d", created, want)
			}
		})
	}
}

// TestHookLeftByTheSameRun: what a hook without before-hook-creation has left only warns if the operation is the same run, as an edit
// or as the next pod of its Job, or if it takes objects over (R22, R46, S13).
func TestHookLeftByTheSameRun(t *testing.T) {
	t.Parallel()
	const ready, never = "sandbox/ready-delay: 0s", "sandbox/fail: never-ready"
	hook := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "hook-failed"}
	chart := func() *charts.Chart {
		return rig.MakeChart(t, rig.Files{"values.yaml": "web: '" + ready + "'\ntook: 10ms\n", "templates/all.yaml": rig.Job("migrate", hook, "{{ .Values.took }}") +
			"\n---\n" + strings.Replace(rig.Deployment("web", nil, "0s"), "{"+ready+"}", "{ {{ .Values.web }} }", 1)})
	}
	const exists, notAgain = "Job/migrate already exists", "does not run it again"
	t.Run("edit", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		op, err := r.Install("plain", rig.UseChart(chart(), func(i *kube.Deploy) {
			i.HoldOnFailure, i.ReadinessTimeout, i.Values = true, 8*time.Second, map[string]any{"web": never}
		}))
		if err != nil {
			t.Fatal(err)
		}
		holds := 0
		out := r.Run(op, func(e event.Event) {
			if e.Kind != event.KindRun || e.Status != event.Held {
				return
			}
			if holds++; holds > 1 {
				op.Command(event.Command{Name: event.Stop})
				return
			}
			op.Command(event.Command{Name: event.Edit, Values: "web: '" + ready + "'"})
		})
		if out.State.Exit != 0 || !out.HasWarning("", exists, notAgain) {
			t.Errorf("exit %d: %s; warnings %v", out.State.Exit, out.State.Message, out.State.Warnings)
		}
	})
	t.Run("next pod", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		var store killedStore
		pod := func(values map[string]any) (*kube.Operation, error) {
			return r.Install("plain", rig.UseChart(chart(), func(i *kube.Deploy) {
				i.Values, i.ReadinessTimeout = values, 8*time.Second
				i.Job, i.Journal = r.Namespace+"/job/uid", rig.OpenJournal(t, &store).Entry("")
			}))
		}
		op, err := pod(map[string]any{"web": never})
		if err != nil {
			t.Fatal(err)
		}
		out := r.Run(op, func(e event.Event) {
			if e.Kind == event.KindObject && e.Object.Name == "migrate" && e.Status == event.Ready {
				store.killed.Store(true)
			}
		})
		if out.State.Exit != 1 {
			t.Fatalf("exit %d: %s", out.State.Exit, out.State.Message)
		}
		op, err = pod(map[string]any{"took": "20ms"}) // another hook: only the run is the same
		if err != nil {
			t.Fatal(err)
		}
		if w := op.Warnings(); !slices.ContainsFunc(w, func(w plan.Warning) bool {
			return strings.Contains(w.Message, exists) && strings.Contains(w.Message, notAgain)
		}) {
			t.Errorf("warnings %v", w)
		}
	})
	t.Run("take ownership", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.Deploy("plain", rig.UseChart(chart(), nil))
		op, err := r.Upgrade("plain", rig.UseChart(chart(), func(u *kube.Deploy) { u.TakeOwnership = true }))
		if out := r.MustRun(op, err); !out.HasWarning("", exists, notAgain) {
			t.Errorf("warnings %v", out.State.Warnings)
		}
	})
}

// killedStore is the journal of a pod that keeps nothing more once it has been killed.
type killedStore struct {
	rig.Store
	killed atomic.Bool
}

func (s *killedStore) Save(ctx context.Context, data []byte) error {
	if s.killed.Load() {
		return nil
	}
	return s.Store.Save(ctx, data)
}
