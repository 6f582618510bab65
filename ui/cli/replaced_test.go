package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lockstep/kube/throwaway/testcluster"
)

// keptChart has two groups. With fail, the second one fails.
var keptChart = map[string]string{
	"Chart.yaml":  "apiVersion: v2\nname: kept\nversion: 1.0.0\n",
	"values.yaml": "v: default\nfail: false\n",
	"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-first
  annotations: {helm.sh/resource-group: first}
data: {v: {{ .Values.v | quote }}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-second-{{ .Values.v }}
  annotations:
    helm.sh/resource-group: second
    helm.sh/depends-on/resource-groups: '["first"]'
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations: {sandbox/run-duration: 10ms, sandbox/exit-code: {{ ternary "3" "0" .Values.fail | quote }}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: example/job:1.0}]
`,
}

func writeFiles[Text string | []byte](t *testing.T, dir string, files map[string]Text) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startInCluster starts an operation as a run in the cluster.
func (m *machine) startInCluster(ns string, args ...string) (out *outputBuffer, ends func() int) {
	m.t.Helper()
	return m.start(append(args, "-n", ns, "--in-cluster", "--service-account", "runner", "--no-tui")...)
}

// killPod kills the pod of a run, and returns the names of all of its pods so far.
func killPod(ctx context.Context, t *testing.T, client kubernetes.Interface, ns string, in metav1.ListOptions) map[string]bool {
	t.Helper()
	before, err := client.CoreV1().Pods(ns).List(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range before.Items {
		known[p.Name] = true
		if p.Status.Phase != "Running" {
			continue
		}
		if err := client.CoreV1().Pods(ns).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
	}
	return known
}

// podsOf selects the pods of the runs on a release.
func podsOf(release string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name,lockstep/release=" + release}
}

// replacePod kills the pod of a run, and waits until its Job has replaced it.
func replacePod(t *testing.T, client kubernetes.Interface, ns, release string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	in := podsOf(release)
	known := killPod(ctx, t, client, ns, in)
	for ctx.Err() == nil {
		now, err := client.CoreV1().Pods(ns).List(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range now.Items {
			if !known[p.Name] && p.Status.Phase == "Running" {
				return
			}
		}
		time.Sleep(50 * time.Millisecond) // ctx ends it
	}
	t.Fatalf("the pod of %s was not replaced", release)
}

// TestReplacedPodOfAStack (S13): the pod of a stack's run is killed after two releases were upgraded and the run paused
// at a breakpoint. The next pod is paused there too. When the third release fails, all are rolled back to where the run
// began, by the next pod. In a second run, somebody upgrades one of them while the next pod is paused: that one is left alone
// (R51b).
func TestReplacedPodOfAStack(t *testing.T) {
	limitedParallel(t)
	const ns = "replaced-stack"
	client := inNamespace(t, ns)
	m := newMachine(t)
	chart := writeChart(t, keptChart)
	dir := filepath.Join(t.TempDir(), "trio")
	file := func(v string, fail bool) string {
		return fmt.Sprintf(`releases:
- {name: a, namespace: %[1]s, chart: %[2]s, values: [{v: %[3]s}]}
- {name: b, namespace: %[1]s, chart: %[2]s, values: [{v: %[3]s}], needs: [%[1]s/a]}
- {name: d, namespace: %[1]s, chart: %[2]s, values: [{v: %[3]s, fail: %[4]t}], needs: [%[1]s/b]}
`, ns, chart, v, fail)
	}
	writeFiles(t, dir, map[string]string{"helmfile.yaml": file("one", false)})
	m.run(0, "up", "-f", dir, "-n", ns, "--no-tui")
	writeFiles(t, dir, map[string]string{"helmfile.yaml": file("two", true)})
	up := func() (*outputBuffer, func() int) {
		return m.startInCluster(ns, "up", "-f", dir, "--rollback-on-failure", "--wait-for-jobs", "--break-on", "d")
	}
	out, ends := up()
	m.runUntil("ctl trio status -n "+ns, "paused")
	for _, name := range []string{"a", "b"} {
		if s := m.run(0, "get", "values", name, "-n", ns); !strings.Contains(s, "v: two") {
			t.Errorf("before the kill, %s has %s", name, s)
		}
	}
	replacePod(t, client, ns, "trio")
	m.runUntil("ctl trio status -n "+ns, "paused")
	m.run(0, "ctl", "trio", "continue", "-n", ns)
	if code := ends(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if s := out.String(); !strings.Contains(s, "rolled back 3 releases") {
		t.Errorf("the run says\n%s", s)
	}
	for _, name := range []string{"a", "b", "d"} {
		if s := m.run(0, "get", "values", name, "-n", ns); !strings.Contains(s, "v: one") {
			t.Errorf("%s was not rolled back: %s\n%s", name, s, m.run(0, "history", name, "-n", ns))
		}
	}
	if s := m.run(0, "history", "a", "-n", ns); !strings.Contains(s, "Rollback to 1") {
		t.Errorf("the history of a is\n%s", s)
	}

	out, ends = up()
	m.runUntil("ctl trio status -n "+ns, "paused")
	replacePod(t, client, ns, "trio")
	m.runUntil("ctl trio status -n "+ns, "paused")
	m.run(0, "upgrade", "b", chart, "-n", ns, "--no-tui", "--set", "v=theirs")
	m.run(0, "ctl", "trio", "continue", "-n", ns)
	if code := ends(); code != 1 {
		t.Errorf("the second run: exit code %d", code)
	}
	if s := out.String(); !strings.Contains(s, "b has a newer revision") {
		t.Errorf("the second run says\n%s", s)
	}
	for name, want := range map[string]string{"a": "v: one", "b": "v: theirs", "d": "v: one"} {
		if s := m.run(0, "get", "values", name, "-n", ns); !strings.Contains(s, want) {
			t.Errorf("after the second run, %s has %s\n%s", name, s, m.run(0, "history", name, "-n", ns))
		}
	}
}

// TestReplacedPodContinuesAnEdit (S13, R46): an edit was accepted, and a breakpoint cleared, before the pod is killed.
// The next pod is still paused, deploys the edited values, and does not pause at the breakpoint.
func TestReplacedPodContinuesAnEdit(t *testing.T) {
	limitedParallel(t)
	const ns = "replaced-edit"
	client := inNamespace(t, ns)
	m := newMachine(t)
	chart := writeChart(t, keptChart)
	ctl := func(args ...string) { m.run(0, append(append([]string{"ctl", "s"}, args...), "-n", ns)...) }
	_, ends := m.startInCluster(ns, "install", "s", chart, "--set", "v=before", "--step", "--break-on", "second")
	m.runUntil("ctl s status -n "+ns, "paused")
	ctl("edit", "--set", "v=1000000")
	ctl("break", "second")
	m.runUntil("ctl s status -n "+ns, "paused")
	replacePod(t, client, ns, "s")
	m.runUntil("ctl s status -n "+ns, "paused")
	ctl("continue")
	if s := m.run(0, "ctl", "s", "status", "-n", ns); strings.Contains(s, "breakpoint second") {
		t.Errorf("the cleared breakpoint is set again: %s", s)
	}
	m.runUntil("runs --in-cluster -n "+ns, "succeeded")
	if code := ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s := m.run(0, "get", "manifest", "s", "-n", ns); !strings.Contains(s, `v: "1000000"`) {
		t.Errorf("the manifest is %s", s)
	}
}

// TestReplacedPodEndsTheRun (S13, R48): a run whose pod was replaced while it was paused can still be rolled back, to where it
// began.
func TestReplacedPodEndsTheRun(t *testing.T) {
	limitedParallel(t)
	const ns = "replaced-end"
	client := inNamespace(t, ns)
	m := newMachine(t)
	chart := writeChart(t, keptChart)
	m.run(0, "install", "s", chart, "-n", ns, "--no-tui", "--set", "v=one")
	_, ends := m.startInCluster(ns, "upgrade", "s", chart, "--set", "v=three", "--break-on", "second")
	m.runUntil("ctl s status -n "+ns, "paused")
	m.run(0, "ctl", "s", "disable", "second", "-n", ns)
	replacePod(t, client, ns, "s")
	m.runUntil("ctl s status -n "+ns, "paused")
	m.run(0, "ctl", "s", "rollback", "-n", ns)
	if code := ends(); code != 3 {
		t.Errorf("the second upgrade: exit code %d", code)
	}
	if s := m.run(0, "get", "values", "s", "-n", ns); !strings.Contains(s, "v: one") {
		t.Errorf("the values are %s\n%s", s, m.run(0, "history", "s", "-n", ns))
	}
}

// TestReplacedPodOfATakenRelease (S13, R51b): while a run is paused, Helm rolls its release back, and the pod is killed. The next pod
// writes nothing, but the run has: it failed.
func TestReplacedPodOfATakenRelease(t *testing.T) {
	limitedParallel(t)
	const ns = "replaced-taken"
	client := inNamespace(t, ns)
	m := newMachine(t)
	chart := writeChart(t, keptChart)
	m.run(0, "install", "s", chart, "-n", ns, "--no-tui", "--set", "v=one")
	out, ends := m.startInCluster(ns, "upgrade", "s", chart, "--set", "v=two", "--break-on", "second")
	m.runUntil("ctl s status -n "+ns, "paused")
	helm(t, m.env, "rollback", "s", "1", "-n", ns)
	killPod(t.Context(), t, client, ns, podsOf("s"))
	if code := ends(); code != 1 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if s := m.run(0, "get", "values", "s", "-n", ns); !strings.Contains(s, "v: one") {
		t.Errorf("the values are %s\n%s", s, m.run(0, "history", "s", "-n", ns))
	}
}

// slowUndo is a hook that runs for a while before a rollback or an uninstallation.
const slowUndo = `apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-undo
  annotations: {helm.sh/hook: "pre-rollback,pre-delete"}
spec:
  template:
    metadata:
      annotations: {sandbox/run-duration: 4s}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: example/job:1.0}]
`

// TestReplacedPodDuringARollback (S13, R33): the pod is killed while it rolls a failed operation back. The next pod completes
// the rollback of an upgrade, and the uninstallation after an install, and reports the failure.
func TestReplacedPodDuringARollback(t *testing.T) {
	limitedParallel(t)
	const ns = "replaced-rollback"
	client := inNamespace(t, ns)
	chart := writeFiles(t, writeChart(t, keptChart), map[string]string{"templates/undo.yaml": slowUndo})
	newMachine(t).run(0, "install", "s", chart, "-n", ns, "--no-tui", "--set", "v=one")
	for _, test := range []struct{ operation, release string }{{"upgrade", "s"}, {"install", "new"}} {
		t.Run(test.operation, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			out, ends := m.startInCluster(ns, test.operation, test.release, chart, "--rollback-on-failure", "--wait-for-jobs", "--set", "v=two,fail=true")
			out.await(t, "undo started")
			replacePod(t, client, ns, test.release)
			if code := ends(); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if s := out.String(); !strings.Contains(s, "resumes in another pod") || !strings.Contains(s, "exited with code 3") {
				t.Errorf("the run does not name the failure:\n%s", s)
			}
			if test.operation == "install" {
				m.run(2, "get", "values", test.release, "-n", ns) // no release
			} else if s := m.run(0, "get", "values", test.release, "-n", ns); !strings.Contains(s, "v: one") {
				t.Errorf("the values are %s\n%s", s, m.run(0, "history", test.release, "-n", ns))
			}
		})
	}
}

// TestHeldRunInTheCluster: the list of runs shows that a run is held, by which failure, and as soon as it has ended, that it failed.
func TestHeldRunInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "held-run"
	inNamespace(t, ns)
	m := newMachine(t)
	chart := writeChart(t, keptChart)
	_, ends := m.startInCluster(ns, "install", "s", chart, "--hold-on-failure", "--wait-for-jobs", "--set", "fail=true")
	m.runUntil("runs -A --in-cluster -o json", `"state": "held"`)
	if s := m.run(0, "runs", "-A", "--in-cluster"); !strings.Contains(s, "held: kept:second") {
		t.Errorf("runs -A:\n%s", s)
	}
	m.run(0, "ctl", "s", "give-up", "-n", ns)
	if code := ends(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if s := m.run(0, "runs", "-n", ns, "--in-cluster", "-o", "json"); !strings.Contains(s, `"state": "failed"`) || strings.Contains(s, `"state": "running"`) {
		t.Errorf("after the end, runs: %s", s)
	}
}

// TestReplacedPodKeepsApprovals (S13, R42a): the pod is killed after the first of two groups was approved, while the second one
// waits. The next pod asks only for the second one, whose approval the first pod cannot have seen.
func TestReplacedPodKeepsApprovals(t *testing.T) {
	limitedParallel(t)
	const ns = "replaced-approvals"
	client := inNamespace(t, ns)
	m := newMachine(t)
	out, ends := m.startInCluster(ns, "install", "r", writeChart(t, keptChart), "--wait-for-jobs", "--approve-before", "first", "--approve-before", "second")
	m.runUntil("ctl r status -n "+ns, "first waits for approval")
	m.run(0, "ctl", "r", "approve", "kept:first", "-n", ns)
	m.runUntil("ctl r status -n "+ns, "second waits for approval")
	replacePod(t, client, ns, "r")
	m.runUntil("ctl r status -n "+ns, "second waits for approval")
	if jobs, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"}); err != nil || len(jobs.Items) > 0 {
		t.Errorf("before the approval: %v, %d Jobs", err, len(jobs.Items))
	}
	m.run(0, "ctl", "r", "approve", "-n", ns)
	if code := ends(); code != 0 {
		t.Errorf("exit code %d; output:\n%s", code, out)
	}
	s := m.run(0, "status", "r", "-n", ns)
	for _, group := range []string{"kept:first", "kept:second"} {
		if !strings.Contains(s, group+" approved by sandbox-admin") {
			t.Errorf("the record does not say who approved %s:\n%s\n%s", group, s, out)
		}
	}
}

// TestImageHookInTheCluster (S11a, S13): the hooks of a helmfile with an image run as Jobs in a run in the cluster, too, with the
// permissions that lockstep rbac prints. The pod is killed while one of them runs; the next pod takes its Job over, and does not run
// the one again that has succeeded.
func TestImageHookInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "image-hooks"
	client := inNamespace(t, ns)
	m := newMachine(t)
	dir := t.TempDir()
	hook := func(name, event, duration string) string {
		return fmt.Sprintf(`{name: %s, events: [%s], showlogs: true, command: run, args: ["{{ .Release.Name }}", '{{ "{{" }}'], lockstep/image: {name: example/tool:1, annotations: {sandbox/log: "%[1]s at work", sandbox/run-duration: %s}}}`, name, event, duration)
	}
	writeFiles(t, dir, map[string]string{
		"helmfile.yaml":       "releases:\n- name: a\n  chart: ./a\n  hooks:\n  - " + hook("backup", "presync", "1s") + "\n  - " + hook("smoke", "postsync", "8s") + "\n",
		"a/Chart.yaml":        "apiVersion: v2\nname: a\nversion: 1.0.0\n",
		"a/templates/map.yml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	})
	file := filepath.Join(dir, "helmfile.yaml")
	if s := m.run(2, "up", "-f", file, "-n", ns, "--in-cluster", "--service-account", "exact", "--no-tui"); !strings.Contains(s, "hook backup runs image example/tool:1 in the cluster; allow the hooks with --allow-hooks") {
		t.Errorf("without consent: %s", s)
	}
	roles := m.run(0, "rbac", "-f", file, "-n", ns, "--in-cluster", "--service-account", "exact")
	testcluster.Get(t).Apply(t, testcluster.Parse(t, roles[strings.Index(roles, "apiVersion:"):])...)
	out, ends := m.start("up", "-f", file, "-n", ns, "--in-cluster", "--service-account", "exact", "--allow-hooks", "--no-tui")
	out.await(t, "smoke at work")
	pods, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "lockstep/release"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of the run: %v, %v", pods, err)
	}
	before, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "lockstep/step"})
	if err != nil || len(before.Items) != 2 {
		t.Fatalf("Jobs of the hooks: %v, %v", before, err)
	}
	for _, j := range before.Items {
		if c := j.Spec.Template.Spec.Containers[0]; !slices.Equal(c.Args, []string{"a", "{{"}) || len(c.Env) > 0 {
			t.Errorf("arguments %q, environment %v", c.Args, c.Env)
		}
	}
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), pods.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if code := ends(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	after, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "lockstep/step"})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range after.Items {
		if j.DeletionTimestamp == nil {
			t.Errorf("Job %s is left", j.Name)
		}
	}
	log, err := testcluster.Get(t).Log()
	if err != nil {
		t.Fatal(err)
	}
	created := 0
	for _, e := range log.Writes() {
		if e.Object.Namespace == ns && e.Verb == "create" && e.Object.Resource == "jobs" && strings.HasPrefix(e.Object.Name, "lockstep-step") {
			created++
		}
	}
	if created != 2 || !strings.Contains(out.String(), "resumes in another pod") {
		t.Errorf("%d Jobs were created for 2 hooks:\n%s", created, out)
	}
}
