package cli

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/ui/trace/receiver"
)

const tracedJob = `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-install}}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: job}]}}
`

// tracedChart has a hook and three groups: db, then api, which fails with mode=crash, and then web.
func tracedChart(t *testing.T) string {
	return writeChart(t, map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/hook.yaml": tracedJob,
		"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: db, annotations: {helm.sh/resource-group: db}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: api, annotations: {helm.sh/resource-group: api, helm.sh/depends-on-resource-groups: '["db"]'}}
spec:
  backoffLimit: 0
  template:
    {{- if eq (default "" .Values.mode) "crash" }}
    metadata: {annotations: {sandbox/exit-code: "3", sandbox/log: "no relation users"}}
    {{- end }}
    spec: {restartPolicy: Never, containers: [{name: main, image: api}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, annotations: {helm.sh/resource-group: web, helm.sh/depends-on-resource-groups: '["api"]'}}
`,
	})
}

// eventsOf returns the events that -o json has printed.
func eventsOf(t *testing.T, out string) (all []event.Event) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e event.Event
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

// TestTraceOfARun: a run is a trace below the span of the CI system, over HTTP and gRPC. Its spans are those of the plan, with the
// times of the events, and links along the dependencies; a failure has the facts of its cause.
func TestTraceOfARun(t *testing.T) {
	t.Parallel()
	chart := tracedChart(t)
	for _, protocol := range []string{"http/protobuf", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			to, m := receiver.Start(), newMachine(t)
			defer to.Close()
			ns := "traces-" + protocol[:4]
			m.env = append(m.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol, "OTEL_EXPORTER_OTLP_HEADERS=api-key=k%20ey",
				"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test",
				"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "TRACESTATE=ci=1")
			out := m.run(0, "install", "shop", chart, "-n", ns, "--create-namespace", "-o", "json")
			checkTrace(t, to, eventsOf(t, out))
			out = m.run(0, "uninstall", "shop", "-n", ns, "--no-tui")
			all := to.Spans()
			gone := receiver.Named(all, "uninstall shop")
			if gone == nil {
				t.Fatalf("no trace of the uninstall, which says:\n%s", out)
			}
			if tree := receiver.Tree(all, gone, ""); !strings.Contains(tree, "\n  shop:web\n    waiting\n    deleting\n    ConfigMap/web\n") {
				t.Errorf("uninstall:\n%s", tree)
			}
			m.run(1, "install", "shop", chart, "-n", ns, "--no-tui", "--set", "mode=crash", "--rollback-on-failure")
			all = to.Spans()
			failed := receiver.Named(after(all, gone), "install shop")
			var group *tracepb.Span
			for _, s := range receiver.Children(all, failed) {
				if s.Name == "shop:api" {
					group = s
				}
			}
			if group == nil {
				t.Fatalf("no span of the failed group:\n%s", receiver.Tree(all, failed, ""))
			}
			for _, s := range []*tracepb.Span{failed, group} {
				for key, want := range map[string]string{
					"lockstep.failure.cause": "no relation users", "lockstep.object": "Job/api", "lockstep.failure.exit": "3", "error.type": "failed", "lockstep.failure.container": "main", "lockstep.failure.pod": "api",
				} {
					if got := receiver.Attribute(s, key); !strings.Contains(got, want) {
						t.Errorf("%s of the failed %s: %q, want %q", key, s.Name, got, want)
					}
				}
				if s.Status.Code != tracepb.Status_STATUS_CODE_ERROR || !strings.Contains(s.Status.Message, "exited with code 3") {
					t.Errorf("status of the failed %s: %v", s.Name, s.Status)
				}
			}
			if tree := receiver.Tree(all, failed, ""); !strings.Contains(tree, "\n  rollback\n    delete shop:api (rollback)\n") || !strings.Contains(tree, "\n  shop:web\n    waiting\n  shop:api\n") {
				t.Errorf("the failed run:\n%s", tree)
			}
			m.run(2, "install", "shop", chart, "-n", ns, "--no-tui", "--set", "mode=null", "--break-on", "nothing")
			if s := receiver.Named(after(to.Spans(), failed), "install shop"); s == nil || receiver.Attribute(s, "lockstep.exit") != "2" || !strings.Contains(s.Status.Message, "nothing") {
				t.Errorf("a run that did not start: %v", s)
			}
			metrics := to.Metrics()
			for _, name := range []string{"lockstep.run.duration"} {
				if metrics[name] == nil {
					t.Errorf("no metric %s in %v", name, metrics)
				}
			}
		})
	}
}

// checkTrace compares the trace of an install with its events.
func checkTrace(t *testing.T, to *receiver.Receiver, events []event.Event) {
	t.Helper()
	_, headers, err := to.Received()
	if err != nil || len(headers) < 2 || headers[0].Get("Api-Key") != "k ey" {
		t.Fatalf("received: %v, headers %v", err, headers)
	}
	if r := to.Resource(); r["service.name"] != "lockstep" || r["deployment.environment.name"] != "test" || r["service.version"] == "" {
		t.Errorf("resource: %v", r)
	}
	all := to.Spans()
	root := receiver.Named(all, "install shop")
	if root == nil || hex.EncodeToString(root.TraceId) != "0af7651916cd43dd8448eb211c80319c" || hex.EncodeToString(root.ParentSpanId) != "b7ad6b7169203331" || root.TraceState != "ci=1" {
		t.Fatalf("root: %v of %v", root, all)
	}
	const want = `install shop
  prepare
  namespace:NS
    waiting
    applying
    becoming ready
    Namespace/NS
  pre-install:Job/migrate
    waiting
    applying
    becoming ready
    Job/migrate
  shop:db
    waiting
    applying
    becoming ready
    ConfigMap/db
  shop:api
    waiting
    applying
    becoming ready
    Job/api
  shop:web
    waiting
    applying
    becoming ready
    ConfigMap/web
`
	ns := receiver.Attribute(root, "k8s.namespace.name")
	if got := strings.ReplaceAll(receiver.Tree(all, root, ""), ns, "NS"); sortedLines(got) != sortedLines(want) {
		t.Errorf("spans:\n%s", got)
	}
	state := &event.State{}
	for _, e := range events {
		state.Apply(e)
	}
	for g := range state.GroupStates() {
		i := slices.IndexFunc(all, func(s *tracepb.Span) bool {
			return s.Name == g.ID && receiver.Attribute(s, "lockstep.phase") == g.Phase
		})
		if i < 0 {
			continue
		}
		span := all[i]
		children := receiver.Children(all, span)
		if end := time.Unix(0, int64(span.EndTimeUnixNano)); !end.Equal(g.Ended) {
			t.Errorf("%s ended at %s, its span at %s", g.ID, g.Ended, end)
		}
		if at := time.Unix(0, int64(receiver.Named(children, "applying").StartTimeUnixNano)); !at.Equal(g.Started) {
			t.Errorf("%s started at %s, its requests at %s", g.ID, g.Started, at)
		}
		var links []string
		for _, l := range span.Links {
			for _, s := range all {
				if bytes.Equal(s.SpanId, l.SpanId) {
					links = append(links, s.Name)
					if s.EndTimeUnixNano > receiver.Named(children, "applying").StartTimeUnixNano {
						t.Errorf("%s started before %s was ready", g.ID, s.Name)
					}
				}
			}
		}
		if !slices.Equal(links, g.After) && len(links)+len(g.After) > 0 {
			t.Errorf("links of %s: %v, dependencies %v", g.ID, links, g.After)
		}
	}
	if took := state.Ended.UnixNano() - int64(root.EndTimeUnixNano); took != 0 {
		t.Errorf("the run ended %d ns after its span", took)
	}
	for _, name := range []string{"lockstep.run.duration", "lockstep.group.duration", "lockstep.gate.latency", "lockstep.requests"} {
		if to.Metrics()[name] == nil {
			t.Errorf("no metric %s", name)
		}
	}
	if n := len(to.Metrics()["lockstep.group.duration"].GetHistogram().GetDataPoints()); n != 5 {
		t.Errorf("durations of %d groups, want 5", n)
	}
}

// after returns the spans that started after another one ended.
func after(all []*tracepb.Span, earlier *tracepb.Span) []*tracepb.Span {
	return slices.DeleteFunc(slices.Clone(all), func(s *tracepb.Span) bool { return s.StartTimeUnixNano < earlier.EndTimeUnixNano })
}

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestTraceOfAStack: the releases of a stack are spans of its run, with their groups below them; the program or the
// Job of a hook gets the span of the hook as its parent.
func TestTraceOfAStack(t *testing.T) {
	t.Parallel()
	to, m, dir, client := receiver.Start(), newMachine(t), t.TempDir(), inNamespace(t, "traces-stack-2")
	defer to.Close()
	m.env = append(m.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL)
	chart := tracedChart(t)
	writeFiles(t, dir, map[string]string{"helmfile.yaml": fmt.Sprintf(`releases:
- {name: one, namespace: traces-stack, chart: %[1]s}
- name: two
  namespace: traces-stack-2
  chart: %[1]s
  needs: [traces-stack/one]
  hooks:
  - {name: note, events: [presync], command: sh, args: [-c, 'echo $TRACEPARENT > parent']}
  - {name: fails, events: [postsync], lockstep/image: {name: example/tool:1, annotations: {sandbox/exit-code: "1"}}}
`, chart)})
	m.run(1, "up", "-f", filepath.Join(dir, "helmfile.yaml"), "--no-tui", "--allow-hooks")
	all := to.Spans()
	root := receiver.Root(all)
	tree := receiver.Tree(all, root, "")
	for _, want := range []string{"\n  traces-stack/one\n    waiting\n    applying\n", "\n    shop:api\n      waiting\n      applying\n", "\n  traces-stack-2/two/presync/note\n    waiting\n    applying\n", "\n  traces-stack-2/two\n"} {
		if !strings.HasPrefix(root.Name, "up ") || !strings.Contains(tree, want) {
			t.Errorf("%q is not in\n%s", want, tree)
		}
	}
	parent, err := os.ReadFile(filepath.Join(dir, "parent"))
	hook := receiver.Named(all, "traces-stack-2/two/presync/note")
	if want := fmt.Sprintf("00-%x-%x-01\n", root.TraceId, hook.SpanId); err != nil || string(parent) != want {
		t.Errorf("TRACEPARENT of the hook: %q, want %q (%v)", parent, want, err)
	}
	jobs, err := client.BatchV1().Jobs("traces-stack-2").List(t.Context(), metav1.ListOptions{LabelSelector: "lockstep/step"})
	fails := receiver.Named(all, "traces-stack-2/two/postsync/fails")
	if err != nil || len(jobs.Items) != 1 || fails == nil {
		t.Fatalf("Jobs of the hook: %v (%v), its span: %v", jobs.Items, err, fails)
	}
	if got, want := fmt.Sprint(jobs.Items[0].Spec.Template.Spec.Containers[0].Env), fmt.Sprintf("[{TRACEPARENT 00-%x-%x-01 nil} {TRACESTATE  nil}]", root.TraceId, fails.SpanId); got != want {
		t.Errorf("the environment of the Job is %s, want %s", got, want)
	}
	for _, s := range all {
		if !bytes.Equal(s.TraceId, root.TraceId) {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
}

// TestTracesDelayNothing: a receiver that refuses, fails, hangs or is slow neither fails nor delays a run, and one warning says so.
func TestTracesDelayNothing(t *testing.T) {
	t.Parallel()
	gone := receiver.Start()
	gone.Close()
	ends := make(chan struct{})
	t.Cleanup(func() { close(ends) })
	for name, c := range map[string]struct {
		before func(*http.Request) int
		says   string
	}{
		"off":     {nil, ""},
		"refused": {nil, "connection refused"},
		"500":     {func(*http.Request) int { return 500 }, "500 Internal Server Error"},
		"503":     {func(*http.Request) int { return 503 }, "503 Service Unavailable"},
		"hangs":   {func(*http.Request) int { <-ends; return 500 }, "no answer"},
		"slow":    {func(*http.Request) int { time.Sleep(200 * time.Millisecond); return 0 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, to := newMachine(t), receiver.Start()
			to.Before = c.before
			t.Cleanup(func() { to.CloseClientConnections() })
			url := strings.Replace(to.URL, "://", "://user:s3cret-pw@", 1)
			switch name {
			case "refused":
				url = gone.URL
			case "off":
				url = ""
			}
			m.env = append(m.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+url)
			start := time.Now()
			out := m.run(0, "install", "shop", filepath.Join(data, "charts", "plain"), "-n", "delay-"+name, "--create-namespace", "--no-tui")
			t.Logf("%s took %s", name, time.Since(start))
			if got := strings.Count(out, "were not sent to"); (c.says == "") != (got == 0) || !strings.Contains(out, c.says) || strings.Contains(out, "s3cret") {
				t.Errorf("output:\n%s", out)
			}
			if n := len(to.Spans()); (name == "slow") != (n > 0) {
				t.Errorf("%d spans", n)
			}
		})
	}
}
