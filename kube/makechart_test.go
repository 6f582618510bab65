package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// subcharted is a chart with a subchart.
func subcharted() files {
	return files{
		"Chart.yaml":                       "apiVersion: v2\nname: edge\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0}]\n",
		"templates/a.yaml":                 configMap("a", group("one")),
		"templates/b.yaml":                 configMap("b", group("two", "one")),
		"charts/sub/Chart.yaml":            "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/c.yaml":      configMap("c", group("three", "two")),
		"charts/sub/templates/unused.yaml": "# nothing\n",
	}
}

func mustHelm(t *testing.T, c *charts.Chart) *chart.Chart {
	t.Helper()
	h, err := c.Helm()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// generated is an object whose name the API server makes up.
func generated(doc string) string { return strings.Replace(doc, "  name: ", "  generateName: ", 1) }

// files are the files of a chart that a test makes up. Where Chart.yaml is not
// among them, the chart is called edge.
type files map[string]string

// makeChart loads a chart of the given files.
func makeChart(t *testing.T, fs files) *charts.Chart {
	t.Helper()
	c, err := charts.LoadPath(makeDir(t, fs))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// makeDir writes the files of a chart to a folder.
func makeDir(t *testing.T, fs files) string {
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
	return dir
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
