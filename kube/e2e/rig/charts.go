package rig

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
)

// UnpullableDeployment returns a Deployment whose image cannot be pulled.
func UnpullableDeployment(name string, annotations map[string]string) string {
	return strings.Replace(Deployment(name, annotations, "0s"), "example/app:1.0", "example/no-such-image:1", 1)
}

// failingDocs returns a Job that fails at once, and an object that waits for it.
func failingDocs() string {
	return FailingJob(map[string]string{"helm.sh/layer": "fails"}) +
		"\n---\n" + ConfigMap("never", map[string]string{"helm.sh/layer": "never", "helm.sh/dependson/layer": "fails"})
}

// FailingJob returns a Job that fails.
func FailingJob(annotations map[string]string) string {
	text := Job("fails", annotations, "10ms", "  backoffLimit: 0")
	return strings.Replace(text, "{sandbox/run-duration: 10ms}", `{sandbox/run-duration: 10ms, sandbox/exit-code: "1"}`, 1)
}

// FailingChart returns a chart that creates two ConfigMaps, one after the other, and then fails.
func FailingChart(t *testing.T, first, second string) *charts.Chart {
	return MakeChart(t, Files{
		"Chart.yaml":                 "apiVersion: v2\nname: edge\nversion: 1.0.0\nannotations: {helm.sh/depends-on/subcharts: '[\"sub\"]'}\ndependencies: [{name: sub, version: 1.0.0}]\n",
		"templates/all.yaml":         failingDocs(),
		"charts/sub/Chart.yaml":      "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/a.yml": ConfigMap("a", nil) + "\n---\n" + ConfigMap(first, Group("first")) + "\n---\n" + ConfigMap(second, Group("second", "first")),
	})
}

// HelmChart returns a chart as Helm loads it.
func HelmChart(t *testing.T, c *charts.Chart) *chart.Chart {
	t.Helper()
	h, err := c.Helm()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// WithGenerateName turns the name of an object into a generateName.
func WithGenerateName(doc string) string {
	return strings.Replace(doc, "  name: ", "  generateName: ", 1)
}

// Files are the files of a chart by path. Without a Chart.yaml, the chart is named edge.
type Files map[string]string

// MakeChart loads a chart with the given files.
func MakeChart(t *testing.T, fs Files) *charts.Chart {
	t.Helper()
	c, err := charts.LoadPath(MakeDir(t, fs))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// MakeDir writes the files of a chart to a temporary directory.
func MakeDir(t *testing.T, fs Files) string {
	t.Helper()
	dir := t.TempDir()
	if fs["Chart.yaml"] == "" {
		fs = Files(WithFile(fs, "Chart.yaml", "apiVersion: v2\nname: edge\nversion: 1.0.0\n"))
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
	return dir
}

// WithFile returns a copy of fs with another file, unless fs has that file.
func WithFile(fs Files, name, text string) map[string]string {
	out := map[string]string{name: text}
	maps.Copy(out, fs)
	return out
}

// ChartOf returns a chart of the given documents.
func ChartOf(t *testing.T, docs ...string) *charts.Chart {
	t.Helper()
	return MakeChart(t, Files{"templates/all.yaml": strings.Join(docs, "\n---\n")})
}

// DirOf writes a chart of the given documents to a temporary directory.
func DirOf(t *testing.T, docs ...string) string {
	t.Helper()
	return MakeDir(t, Files{"templates/all.yaml": strings.Join(docs, "\n---\n")})
}

// Group returns the annotations of a group and its dependencies.
func Group(name string, after ...string) map[string]string {
	m := map[string]string{plan.AnnotationGroup: name}
	if len(after) > 0 {
		list, _ := json.Marshal(after)
		m[plan.AnnotationGroupDependsOn] = string(list)
	}
	return m
}

// Impatient returns annotations with a short readiness timeout, for the object that fails. A short one of the whole run would make
// others fail, too, on a slow machine.
func Impatient(annotations map[string]string) map[string]string {
	m := map[string]string{plan.AnnotationReadinessTimeout: "2s"}
	maps.Copy(m, annotations)
	return m
}

// Object returns an object as YAML. what is "APIVERSION/KIND/NAME"; rest are its other fields, as YAML lines.
func Object(what string, annotations map[string]string, rest ...string) string {
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

// ConfigMap returns a ConfigMap with the data "is: NAME" and more.
func ConfigMap(name string, annotations map[string]string, data ...string) string {
	text := "data:\n  is: " + name
	for _, d := range data {
		text += "\n  " + d
	}
	return Object("v1/ConfigMap/"+name, annotations, text)
}

// Deployment returns a Deployment whose pods are ready after a delay. more are further lines of its spec.
func Deployment(name string, annotations map[string]string, readyDelay string, more ...string) string {
	return Object("apps/v1/Deployment/"+name, annotations, "spec:\n  selector: {matchLabels: {app: "+name+"}}", strings.Join(more, "\n"),
		"  template:", "    metadata:", "      labels: {app: "+name+"}", "      annotations: {sandbox/ready-delay: "+readyDelay+"}",
		"    spec: {containers: [{name: main, image: example/app:1.0}]}")
}

// Job returns a Job that runs for a duration. more are further lines of its spec.
func Job(name string, annotations map[string]string, duration string, more ...string) string {
	return Object("batch/v1/Job/"+name, annotations, "spec:", strings.Join(more, "\n"),
		"  template:", "    metadata:", "      annotations: {sandbox/run-duration: "+duration+"}",
		"    spec: {restartPolicy: Never, containers: [{name: main, image: example/app:1.0}]}")
}

// UseChart returns a change that makes an install use the chart with its default values. change may be nil.
func UseChart(c *charts.Chart, change func(*kube.Deploy)) func(*kube.Deploy) {
	return func(i *kube.Deploy) {
		i.Chart, i.Values = c, nil
		if change != nil {
			change(i)
		}
	}
}

// ShopLikeChart returns a change that makes an install use a chart with several kinds and dependencies between groups.
func ShopLikeChart(t *testing.T, more ...string) func(*kube.Deploy) {
	return UseChart(ChartOf(t, append([]string{
		ConfigMap("settings", Group("base")), Object("v1/Secret/key", Group("base"), "stringData: {k: v}"),
		Object("v1/PersistentVolumeClaim/data", Group("base"), "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
		Deployment("api", Group("api", "base"), "100ms"), Object("v1/Service/api", Group("api", "base"), "spec: {selector: {app: api}, ports: [{port: 80}]}"),
		Job("seed", Group("seed", "api"), "10ms"),
	}, more...)...), func(i *kube.Deploy) { i.WaitForJobs = kube.AllJobs })
}
