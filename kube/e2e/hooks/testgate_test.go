package hooks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/release"
)

// testPod returns a Pod that is a test of its release.
func testPod(name, weight, annotations string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  annotations: {helm.sh/hook: test, helm.sh/hook-weight: %q, %s}\n"+
		"spec: {restartPolicy: Never, containers: [{name: test, image: example/test:1.0}]}", name, weight, annotations)
}

const refusedLog = "checkout: want 200, got 503"

// tested returns a chart with a ConfigMap and two tests. With --set code=3, the second test fails.
func tested(t *testing.T, second string) *charts.Chart {
	return rig.MakeChart(t, rig.Files{
		"Chart.yaml":  "apiVersion: v2\nname: edge\nversion: 1.0.0\n",
		"values.yaml": "v: one\ncode: \"0\"\n",
		"templates/all.yaml": strings.Join([]string{
			rig.ConfigMap("a", nil, "v: {{ .Values.v }}"), testPod("last", "2", "sandbox/run-duration: 10ms, "+second),
			testPod("first", "-1", "sandbox/run-duration: 10ms, helm.sh/hook-delete-policy: \"before-hook-creation,hook-succeeded\""),
		}, "\n---\n"),
	})
}

const failsByCode = "sandbox/exit-code: {{ .Values.code | quote }}, sandbox/log: \"" + refusedLog + "\""

// withTests makes an install or upgrade run the tests of a chart.
func withTests(c *charts.Chart, values map[string]any, change func(*kube.Deploy)) func(*kube.Deploy) {
	return func(d *kube.Deploy) {
		d.Chart, d.Values, d.Test = c, values, true
		if change != nil {
			change(d)
		}
	}
}

// testResults returns how the tests of the newest revision ended, by name.
func testResults(r *rig.Rig) map[string]rel1.HookPhase {
	rel, _, err := release.Last(r.Helm().Releases, "t")
	if err != nil {
		r.T.Fatal(err)
	}
	out := map[string]rel1.HookPhase{}
	for _, h := range rel.Hooks {
		out[h.Name] = h.LastRun.Phase
	}
	return out
}

// TestTestsAreTheLastUnits (S11): with --test, the tests of a chart run by weight after everything else, their results are in
// the record as those of helm test, their failure is that of the release, and a rollback on failure follows (R33).
func TestTestsAreTheLastUnits(t *testing.T) {
	t.Parallel()
	r, chart := rig.New(t), tested(t, failsByCode)
	out := r.MustRun(r.Install("plain", withTests(chart, nil, nil)))
	if got, want := out.EndedGroups(), []string{"edge:(unsequenced)", "test:Pod/first", "test:Pod/last"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if got := testResults(r); got["first"] != rel1.HookPhaseSucceeded || got["last"] != rel1.HookPhaseSucceeded {
		t.Errorf("results %v", got)
	}
	if pods, err := r.Cluster.CoreV1().Pods(r.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "last" {
		t.Errorf("pods %v: %v; first is deleted by its policy", pods, err)
	}
	bad := map[string]any{"v": "two", "code": "3"}
	op, err := r.Upgrade("plain", withTests(chart, bad, nil))
	out = r.MustFail(op, err, "test:Pod/last", refusedLog)
	if got := testResults(r); out.State.FailedObject == nil || out.State.FailedObject.Name != "last" || got["last"] != rel1.HookPhaseFailed {
		t.Errorf("failed at %v, results %v", out.State.FailedObject, got)
	}
	r.AssertHistory("1 superseded", "2 failed")
	out = r.Run(r.Must(r.Upgrade("plain", withTests(chart, bad, func(d *kube.Deploy) { d.RollbackOnFailure = true }))), nil)
	if out.State.Exit != 1 || !strings.Contains(out.State.Message, "rolled back to revision 1") || r.ConfigMapData("a")["v"] != "one" {
		t.Errorf("exit %d: %s; %v", out.State.Exit, out.State.Message, r.ConfigMapData("a"))
	}
	r.AssertHistory("1 superseded", "2 superseded", "3 failed", "4 deployed")
	if out, err := r.RunHelm("test", "t"); err != nil {
		t.Errorf("helm test: %v: %s", err, out)
	}
}

// TestFailedTestOfAnInstall (S11, R33): an install with a failed test is uninstalled, or failed, and the next upgrade installs.
func TestFailedTestOfAnInstall(t *testing.T) {
	t.Parallel()
	r, chart := rig.New(t), tested(t, failsByCode)
	bad := map[string]any{"code": "1"}
	op := r.Must(r.Install("plain", withTests(chart, bad, func(d *kube.Deploy) { d.RollbackOnFailure = true })))
	if out := r.Run(op, nil); out.State.Exit != 1 || r.Status() != "" || len(r.Labelled()) > 0 {
		t.Errorf("exit %d: %s; %q, left %v", out.State.Exit, out.State.Message, r.Status(), r.Labelled())
	}
	op, err := r.Install("plain", withTests(chart, bad, nil))
	r.MustFail(op, err, refusedLog)
	r.MustRun(r.Install("plain", withTests(chart, nil, nil)))
	r.AssertHistory("1 failed", "2 deployed")
}

// TestTestThatDoesNotEnd (S11, R25, R34, R43): the timeout and an abort end a test that hangs. The release is failed, and an
// aborted test does not go on.
func TestTestThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	const hangs = "sandbox/fail: pending"
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		op, err := r.Install("plain", withTests(tested(t, hangs), nil, func(d *kube.Deploy) { d.Timeout, d.ReadinessTimeout = 20*time.Second, 20*time.Second }))
		r.MustFail(op, err, "test:Pod/last", "timed out after 20s")
	})
	t.Run("abort", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		op := r.Must(r.Install("plain", withTests(tested(t, hangs), nil, nil)))
		out := r.Run(op, func(e event.Event) {
			if e.Kind == event.KindObject && e.Object.Name == "last" && e.Change == event.Created {
				op.Command(event.Command{Name: event.Abort})
			}
		})
		if out.State.Exit != 3 || r.Status() != rcommon.StatusFailed {
			t.Errorf("exit %d, %s: %s", out.State.Exit, r.Status(), out.State.Message)
		}
		r.Eventually("the test is deleted", func() bool {
			pods, err := r.Cluster.CoreV1().Pods(r.Namespace).List(t.Context(), metav1.ListOptions{})
			return err == nil && len(pods.Items) == 0
		})
	})
}

// TestFloodingTest (S11): the evidence of a failed test is a few lines, however much it prints.
func TestFloodingTest(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	flood := strings.Repeat("0123456789 ", 20_000)
	op, err := r.Install("plain", withTests(tested(t, `sandbox/exit-code: "1", sandbox/log: "`+flood+`"`), nil, nil))
	out := r.MustFail(op, err, "test:Pod/last")
	if len(out.State.Message) > 4000 || len(out.State.Evidence) > event.MaxEvidence {
		t.Errorf("a message of %d bytes, %d lines of evidence", len(out.State.Message), len(out.State.Evidence))
	}
}

// TestEditAfterFailedTest (S11, R44, R46): a failed test holds the run, and an edit continues it with another revision.
func TestEditAfterFailedTest(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("plain", withTests(tested(t, failsByCode), map[string]any{"code": "3"}, func(d *kube.Deploy) { d.HoldOnFailure = true })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Held {
			edit, err := op.Edit(t.Context(), map[string]any{"code": "0"}, nil)
			if err != nil {
				t.Error(err)
				op.Command(event.Command{Name: event.Stop})
				return
			}
			op.Command(edit.Command())
		}
	})
	if out.State.Exit != 0 {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	r.AssertHistory("1 failed", "2 deployed")
	rel, _, err := release.Get(r.Helm().Releases, "t", 1)
	if err != nil || release.WasDeployed(rel) {
		t.Errorf("revision 1 counts as good although its test failed: %s, %v", rel.Info.Description, err)
	}
}

// TestChartWithoutTests (S11): --test says that it has no effect.
func TestChartWithoutTests(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	if out := r.MustRun(r.Install("plain", func(d *kube.Deploy) { d.Test = true })); !out.HasWarning("S11", "no tests") {
		t.Errorf("warnings %v", out.State.Warnings)
	}
}

// TestNextPodRunsTheTests (S11, S13): a pod of a Job was killed between deploying the release and its tests. The next one only
// runs the tests; if one fails, the release goes back to where the run began.
func TestNextPodRunsTheTests(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"0", "3"} {
		var kept rig.Store
		t.Run("code "+code, func(t *testing.T) {
			t.Parallel()
			r, chart := rig.New(t), tested(t, failsByCode)
			pod := func(tests bool) func(*kube.Deploy) {
				return func(d *kube.Deploy) {
					j := rig.OpenJournal(t, &kept)
					d.Chart, d.Values, d.Test, d.RollbackOnFailure = chart, map[string]any{"code": code}, tests, true
					d.Job, d.Journal = r.Namespace+"/job/uid", j.Entry("")
				}
			}
			r.MustRun(r.Install("plain", pod(false)))
			out := r.Run(r.Must(r.Install("plain", pod(true))), nil)
			if got, want := out.EndedGroups()[:2], []string{"test:Pod/first", "test:Pod/last"}; !slices.Equal(got, want) {
				t.Errorf("ran %v, want %v", got, want)
			}
			if code == "0" {
				r.AssertHistory("1 deployed")
			} else if out.State.Exit != 1 || r.Status() != "" {
				t.Errorf("exit %d, %s: %s", out.State.Exit, r.Status(), out.State.Message)
			}
		})
	}
}

// TestCleanupAfterAFailedTest (S11): with --cleanup-on-fail, a failed test deletes what the upgrade has created, and nothing else.
func TestCleanupAfterAFailedTest(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	c := func(more ...string) *charts.Chart {
		docs := append([]string{rig.ConfigMap("a", nil), testPod("last", "2", "sandbox/run-duration: 10ms, "+failsByCode)}, more...)
		return rig.MakeChart(t, rig.Files{"Chart.yaml": "apiVersion: v2\nname: edge\nversion: 1.0.0\n", "values.yaml": "code: \"0\"\n", "templates/all.yaml": strings.Join(docs, "\n---\n")})
	}
	r.Deploy("plain", withTests(c(), nil, nil))
	op, err := r.Upgrade("plain", withTests(c(rig.ConfigMap("new", nil)), map[string]any{"code": "3"}, func(d *kube.Deploy) { d.CleanupOnFail = true }))
	r.MustFail(op, err, refusedLog)
	r.AssertHistory("1 superseded", "2 failed")
	if got := r.Remaining(); slices.Contains(got, "ConfigMap/new") || !slices.Contains(got, "ConfigMap/a") {
		t.Errorf("remaining: %v", got)
	}
}
