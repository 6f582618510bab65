package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// files are the files of a chart that a test makes up. Where Chart.yaml is not
// among them, the chart is called edge.
type files map[string]string

// makeChart loads a chart of the given files.
func makeChart(t *testing.T, fs files) *charts.Chart {
	t.Helper()
	dir := t.TempDir()
	if fs["Chart.yaml"] == "" {
		fs = files(adding(fs, "Chart.yaml", "apiVersion: v2\nname: edge\nversion: 1.0.0\n"))
	}
	for name, text := range fs {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := charts.LoadPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func adding(fs files, name, text string) map[string]string {
	out := map[string]string{name: text}
	for k, v := range fs {
		out[k] = v
	}
	return out
}

// one is a chart of one template.
func one(t *testing.T, docs ...string) *charts.Chart {
	t.Helper()
	return makeChart(t, files{"templates/all.yaml": strings.Join(docs, "\n---\n")})
}

// group are the annotations of a resource-group and what it waits for.
func group(name string, after ...string) map[string]string {
	m := map[string]string{plan.AnnotationGroup: name}
	if len(after) > 0 {
		list, _ := json.Marshal(after)
		m[plan.AnnotationGroupDependsOn] = string(list)
	}
	return m
}

// object is the text of an object: "v1/ConfigMap/name", its annotations, and
// what else it has as indented YAML.
func object(what string, annotations map[string]string, rest ...string) string {
	i := strings.LastIndex(what, "/")
	j := strings.LastIndex(what[:i], "/")
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", what[:j], what[j+1:i], what[i+1:])
	if len(annotations) > 0 {
		text += "  annotations:\n"
		for k, v := range annotations {
			text += fmt.Sprintf("    %s: %q\n", k, v)
		}
	}
	return text + strings.Join(rest, "\n")
}

func configMap(name string, annotations map[string]string, data ...string) string {
	text := "data:\n  is: " + name
	for _, d := range data {
		text += "\n  " + d
	}
	return object("v1/ConfigMap/"+name, annotations, text)
}

// deployment is a Deployment whose pods are ready after a time. more goes into
// its spec.
func deployment(name string, annotations map[string]string, readyDelay string, more ...string) string {
	return object("apps/v1/Deployment/"+name, annotations, "spec:\n  selector: {matchLabels: {app: "+name+"}}", strings.Join(more, "\n"),
		"  template:", "    metadata:", "      labels: {app: "+name+"}", "      annotations: {sandbox/ready-delay: "+readyDelay+"}",
		"    spec: {containers: [{name: main, image: example/app:1.0}]}")
}

// job is a Job that takes a time.
func job(name string, annotations map[string]string, duration string, more ...string) string {
	return object("batch/v1/Job/"+name, annotations, "spec:", strings.Join(more, "\n"),
		"  template:", "    metadata:", "      annotations: {sandbox/run-duration: "+duration+"}",
		"    spec: {restartPolicy: Never, containers: [{name: main, image: example/app:1.0}]}")
}

// use installs or upgrades to a chart of the test's own.
func use(c *charts.Chart, change func(*Install)) func(*Install) {
	return func(i *Install) {
		i.Chart, i.Values = c, nil
		if change != nil {
			change(i)
		}
	}
}

func useUp(c *charts.Chart, change func(*Upgrade)) func(*Upgrade) {
	return func(u *Upgrade) {
		u.Chart, u.Values = c, nil
		if change != nil {
			change(u)
		}
	}
}

// mustFail runs a prepared operation that must fail with exit code 1, say all
// of want, and leave the release failed.
func (r *rig) mustFail(op *Operation, err error, want ...string) outcome {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.run(op, nil)
	if out.err == nil || out.state.Status != event.Failed || out.state.Exit != 1 {
		r.t.Errorf("%s: %v: %s, exit %d; it should have failed", op.info.Name, out.err, out.state.Status, out.state.Exit)
	}
	for _, part := range want {
		if !strings.Contains(out.state.Message, part) {
			r.t.Errorf("the message does not say %q: %s", part, out.state.Message)
		}
	}
	if got := r.status(); got != rcommon.StatusFailed {
		r.t.Errorf("the release is %q, want failed", got)
	}
	return out
}

// says reports whether a warning of a rule says all parts.
func (out outcome) says(rule string, parts ...string) bool {
	return slices.ContainsFunc(out.state.Warnings, func(e event.Event) bool {
		return e.Rule == rule && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e.Message, p) })
	})
}

// at is when a group of the apply phase got into a status, zero for never.
func (out outcome) at(group string, s event.Status) (at time.Time) {
	for _, e := range out.events {
		if e.Kind == event.KindGroup && e.Phase == phaseApply && e.Group == group && e.Status == s {
			at = e.Time
		}
	}
	return at
}

// configMaps are the names of the ConfigMaps in a namespace, but the cluster's.
func (r *rig) configMaps(namespace string) []string {
	r.t.Helper()
	list, err := r.cluster.CoreV1().ConfigMaps(namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, c := range list.Items {
		if c.Name != "kube-root-ca.crt" {
			names = append(names, c.Name)
		}
	}
	return names
}

// patch changes an object as somebody else would.
func (r *rig) patchConfigMap(name, patch string) {
	r.t.Helper()
	if _, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		r.t.Fatal(err)
	}
}

// TestJobThatRemovesItself has a Job gone as soon as it is complete: that is
// success, for a layer and for --wait-for-jobs, and the next group comes only
// after it (R22).
func TestJobThatRemovesItself(t *testing.T) {
	tests := map[string]struct {
		job, after map[string]string
		change     func(*Install)
	}{
		"layer": {map[string]string{plan.AnnotationLayer: "a"}, map[string]string{plan.AnnotationLayer: "b", plan.AnnotationLayerDependsOn: "a"}, nil},
		"flag":  {group("a"), group("b", "a"), func(i *Install) { i.WaitForJobs = true }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			out := r.deploy("plain", use(one(t, job("work", tt.job, "1s", "  ttlSecondsAfterFinished: 0"), configMap("after", tt.after)), tt.change))
			if d := out.at("edge:b", event.Running).Sub(out.at("edge:a", event.Running)); d < time.Second {
				t.Errorf("the group after the Job started %s after it, before it can have been complete", d)
			}
			r.eventually("the Job removes itself", func() bool {
				_, err := r.cluster.BatchV1().Jobs(r.namespace).Get(t.Context(), "work", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			r.mustRun(r.uninstall())
		})
	}
}

// TestJobGoneUnseen has a Job with a TTL gone without anybody having seen it
// complete, as after a watch that was lost for a while.
func TestJobGoneUnseen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(one(t, job("work", group("a"), "60s", "  ttlSecondsAfterFinished: 0"), configMap("after", group("b", "a"))),
		func(i *Install) { i.WaitForJobs = true }))
	if err != nil {
		t.Fatal(err)
	}
	deleted := false
	out := r.run(op, func(e event.Event) {
		if !deleted && e.Kind == event.KindObject && e.Status == event.InProgress && e.Object.Name == "work" {
			deleted = true
			now := int64(0)
			policy := metav1.DeletePropagationBackground
			if err := r.cluster.BatchV1().Jobs(r.namespace).Delete(t.Context(), "work", metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &policy}); err != nil {
				t.Error(err)
			}
		}
	})
	if !deleted || out.err != nil {
		t.Errorf("deleted %v: %v", deleted, out.err)
	}
}

// eventually waits until something is so.
func (r *rig) eventually(what string, so func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Errorf("not so after 10 s: %s", what)
			return
		}
	}
}

// TestGoneBeforeItsDeletion has an object deleted by somebody else: before its
// group's turn, and while it is waited for (R31).
func TestGoneBeforeItsDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("first", group("a")), configMap("second", group("b", "a"))), nil))
	r.patchConfigMap("second", `{"metadata":{"finalizers":["example.com/slow"]}}`)
	op, err := r.uninstall()
	if err != nil {
		t.Fatal(err)
	}
	done := false
	out := r.run(op, func(e event.Event) {
		if !done && e.Kind == event.KindObject && e.Status == event.Deleting && e.Object.Name == "second" {
			done = true
			if err := r.cluster.CoreV1().ConfigMaps(r.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			r.patchConfigMap("second", `{"metadata":{"finalizers":null}}`)
		}
	})
	if !done || out.err != nil || out.state.Exit != 0 {
		t.Fatalf("%v, exit %d: %v", done, out.state.Exit, out.err)
	}
	absent := slices.ContainsFunc(out.events, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Object.Name == "first" && e.Status == event.Gone && e.Change == event.Absent
	})
	if !absent || r.status() != "" {
		t.Errorf("first was found absent: %v; release %q", absent, r.status())
	}
}

// TestFinalizerThatNeverEnds names the object and the finalizer, and leaves the
// release failed, not uninstalling (R34).
func TestFinalizerThatNeverEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(one(t, configMap("free", group("a")), configMap("kept", group("b", "a"))), nil))
	r.patchConfigMap("kept", `{"metadata":{"finalizers":["example.com/forever"]}}`)
	t.Cleanup(func() {
		_, _ = r.cluster.CoreV1().ConfigMaps(r.namespace).Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	op, err := r.client.PrepareUninstall(t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace, Timeout: 2 * time.Second}})
	r.mustFail(op, err, "ConfigMap/kept", "example.com/forever", "--timeout", "never started: edge:a")
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"free", "kept"}) {
		t.Errorf("left are %v, want both", got)
	}
	// Once the finalizer is gone, the same command finishes.
	r.patchConfigMap("kept", `{"metadata":{"finalizers":null}}`)
	r.mustRun(r.uninstall())
	if got := r.configMaps(r.namespace); len(got) > 0 || r.status() != "" {
		t.Errorf("left are %v, release %q", got, r.status())
	}
}

// TestListInATemplate takes the items of a List apart: each has its own group,
// and its own helm.sh/resource-policy.
func TestListInATemplate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	item := func(doc string) string { return "- " + strings.ReplaceAll(doc, "\n", "\n  ") }
	keep := group("c", "b")
	keep["helm.sh/resource-policy"] = "keep"
	list := "apiVersion: v1\nkind: List\nitems:\n" + item(deployment("slow", group("a"), "1s")) + "\n" + item(configMap("after", group("b", "a"))) + "\n" + item(configMap("kept", keep))
	out := r.deploy("plain", use(one(t, list), nil))
	if !out.at("edge:b", event.Running).After(out.at("edge:a", event.Ready)) {
		t.Errorf("b started before a was ready")
	}
	r.mustRun(r.upgrade("plain", useUp(one(t, list), nil)))
	r.mustRun(r.uninstall())
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("left are %v, want [kept]", got)
	}
}

// TestOtherNamespaces has a template name a namespace that is not the
// release's: install, upgrade (with a move to a third), uninstall.
func TestOtherNamespaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other, third := r.namespace+"-extra", r.namespace+"-third"
	for _, ns := range []string{other, third} {
		if _, err := r.cluster.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	in := func(namespace, doc string) string {
		return strings.Replace(doc, "metadata:\n", "metadata:\n  namespace: "+namespace+"\n", 1)
	}
	twins := func(namespace string) *charts.Chart {
		return one(t, in(namespace, deployment("twin", group("a"), "500ms")), configMap("home", group("b", "a")), in(namespace, configMap("away", group("c", "b"))))
	}
	check := func(what string, want map[string][]string) {
		t.Helper()
		for ns, names := range want {
			if got := r.configMaps(ns); !slices.Equal(got, names) {
				t.Errorf("after the %s %s has %v, want %v", what, ns, got, names)
			}
		}
	}
	r.deploy("plain", use(twins(other), nil))
	check("install", map[string][]string{r.namespace: {"home"}, other: {"away"}})
	r.mustRun(r.upgrade("plain", useUp(twins(third), nil)))
	check("upgrade", map[string][]string{r.namespace: {"home"}, other: nil, third: {"away"}})
	r.mustRun(r.rollback(1))
	check("rollback", map[string][]string{r.namespace: {"home"}, other: {"away"}, third: nil})
	r.mustRun(r.uninstall())
	check("uninstall", map[string][]string{r.namespace: nil, other: nil})
	if list, err := r.cluster.AppsV1().Deployments(other).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d Deployments are left, %v", len(list.Items), err)
	}
}

// TestKeep leaves an object with helm.sh/resource-policy: keep when it is gone
// from the chart and when the release is uninstalled, and says so (R30).
func TestKeep(t *testing.T) {
	t.Parallel()
	keep := map[string]string{"helm.sh/resource-policy": "keep"}
	both := one(t, configMap("a", keep), configMap("b", keep), configMap("c", nil))
	r := newRig(t)
	r.deploy("plain", use(both, nil))
	op, err := r.upgrade("plain", useUp(one(t, configMap("b", keep), configMap("c", nil)), nil))
	out := r.mustRun(op, err)
	if !slices.ContainsFunc(out.events, func(e event.Event) bool { return e.Object != nil && e.Object.Name == "a" && e.Change == event.Kept }) {
		t.Errorf("no event says that a is kept")
	}
	op, err = r.uninstall()
	out = r.mustRun(op, err)
	if !out.says("R31", "ConfigMap/b", "helm.sh/resource-policy") {
		t.Errorf("no warning says that b is kept: %v", out.state.Warnings)
	}
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("left are %v, want [a b]", got)
	}
}
