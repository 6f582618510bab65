package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/trace/receiver"
)

// recorded returns what a receiver gets of events, which are a second apart.
func recorded(t *testing.T, events []event.Event) *receiver.Receiver {
	t.Helper()
	to := receiver.Start()
	t.Cleanup(to.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r, err := Start("v1", "", start)
	if err != nil {
		t.Fatal(err)
	}
	for n, e := range events {
		e.Seq, e.Time = uint64(n+1), start.Add(time.Duration(n+1)*time.Second)
		r.Consume(e)
		if n == 0 {
			r.Retried()
		}
	}
	r.Retried() // after the end: not counted
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := to.Received(); err != nil {
		t.Fatal(err)
	}
	return to
}

var (
	install = event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop", Namespace: "shop"}}
	pod     = &plan.Object{Kind: "Pod", Name: "a"}
	phases  = event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{
		{ID: "s:a", Objects: []plan.Object{*pod}}, {ID: "s:b", After: []string{"s:a"}, Objects: []plan.Object{{Kind: "Pod", Name: "b"}}},
	}}}}
)

func group(id string, status event.Status) event.Event {
	return event.Event{Kind: event.KindGroup, Phase: "apply", Group: id, Status: status}
}

func object(status event.Status, change event.Change) event.Event {
	return event.Event{Kind: event.KindObject, Phase: "apply", Group: "s:a", Object: pod, Status: status, Change: change}
}

// TestSteeredRun: a group that is applied again has two spans, the second with a link to the first; a hold, a pause, an approval and an
// outage are spans, a warning and a command are events; a group that is skipped has only waited.
func TestSteeredRun(t *testing.T) {
	exit := 1
	failed := group("s:a", event.Failed)
	failed.Object, failed.Cause, failed.Timeout = pod, "not ready", &event.Timeout{After: time.Minute, Flag: "--timeout"}
	skipped := group("s:b", event.Skipped)
	skipped.Skip = &event.Skip{By: event.SkippedByFailure}
	to := recorded(t, []event.Event{
		install, phases, // 1, 2
		{Kind: event.KindRun, Status: event.Paused, Message: "--step", Origin: &event.Origin{Command: event.Pause, By: "ann"}},
		{Kind: event.KindCommand, Command: event.Resume, Status: event.Accepted, By: "ann"},
		{Kind: event.KindRun, Status: event.Running}, // 5
		group("s:a", event.Running), object(event.Applying, ""), object(event.InProgress, event.Created), // 8
		failed,
		{Kind: event.KindRun, Status: event.Held, Group: "s:a", Message: "s:a failed"}, // 10
		{Kind: event.KindRun, Status: event.Running},
		group("s:a", event.Running), object(event.Applying, ""), object(event.InProgress, event.Configured), // 14
		{Kind: event.KindServer, Status: event.Away, Message: "refused"},
		{Kind: event.KindServer, Status: event.Back},
		{Kind: event.KindWarning, Message: "careful", Rule: "R8"},
		{Kind: event.KindRun, Status: event.Paused, Code: event.Unapproved},
		{Kind: event.KindRun, Status: event.Running},
		failed, skipped, // 21
		{Kind: event.KindOperation, Status: event.Failed, Exit: &exit, Outcome: "the release is marked failed"},
		{Kind: event.KindNotes},
	})
	all := to.Spans()
	root := receiver.Root(all)
	const want = `install shop
  prepare
  paused
  s:a
    waiting
    applying
    Pod/a
    becoming ready
  s:b
    waiting
  held
  s:a
    waiting
    applying
    Pod/a
    becoming ready
  API server unreachable
  waiting for approval
`
	if got := receiver.Tree(all, root, ""); lines(got) != lines(want) {
		t.Errorf("spans:\n%s", got)
	}
	var attempts []*tracepb.Span
	for _, s := range all {
		if s.Name == "s:a" {
			attempts = append(attempts, s)
		}
	}
	if link := attempts[1].Links[0].SpanId; string(link) != string(attempts[0].SpanId) || receiver.Attribute(attempts[1], keyAttempt) != "2" {
		t.Errorf("the second attempt: %v", attempts[1])
	}
	for key, want := range map[string]string{keyErrorType: errorTimeout, keyTimeout: "--timeout 1m0s", keyCause: "not ready", keyObject: "Pod/a", keyStatus: "failed"} {
		if got := receiver.Attribute(attempts[0], key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if got := fmt.Sprint(seconds(attempts[0]), seconds(attempts[1]), seconds(receiver.Named(all, "held")), seconds(receiver.Named(all, spanUnreachable)), seconds(root)); got != "3s 8s 1s 1s 22s" {
		t.Errorf("durations: %s", got)
	}
	b := receiver.Named(all, "s:b")
	if receiver.Attribute(b, keySkip) != "failure" || len(b.Links) != 1 || string(b.Links[0].SpanId) != string(attempts[1].SpanId) {
		t.Errorf("the skipped group: %v", b)
	}
	var events []string
	for _, e := range root.Events {
		events = append(events, e.Name)
	}
	if strings.Join(events, " ") != "command warning" {
		t.Errorf("events: %v", root.Events)
	}
	metrics := to.Metrics()
	if got := metrics[metricGroupRetries].GetSum().DataPoints[0].GetAsInt(); got != 1 {
		t.Errorf("%d retries of groups, want 1", got)
	}
	if got := metrics[metricRequestRetries].GetSum().DataPoints[0].GetAsInt(); got != 1 {
		t.Errorf("%d retries of requests, want 1", got)
	}
	if got := metrics[metricOutage].GetHistogram().DataPoints[0].GetSum(); got != 1 {
		t.Errorf("an outage of %gs", got)
	}
	if got := len(metrics[metricRequests].GetSum().DataPoints); got != 2 {
		t.Errorf("%d kinds of requests, want created and configured", got)
	}
}

func lines(s string) string {
	all := strings.Split(s, "\n")
	for i, l := range all {
		all[i] = strings.TrimRight(l, " ")
	}
	seen := map[string]int{}
	for _, l := range all {
		seen[l]++
	}
	return fmt.Sprint(seen)
}

func seconds(s *tracepb.Span) time.Duration {
	return time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano)
}

// TestEnvironment: the standard variables turn traces and metrics on and off, each by itself, and invalid ones are errors without values.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		env, want string
	}{
		{"", "off off"},
		{"ENDPOINT=http://c:4318", "http://c:4318/v1/traces http://c:4318/v1/metrics"},
		{"ENDPOINT=https://u:p@c/base/", "https://c/base/v1/traces https://c/base/v1/metrics"},
		{"ENDPOINT=c:4317 PROTOCOL=grpc", "https://c:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export https://c:4317/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"},
		{"ENDPOINT=c:4317 PROTOCOL=grpc INSECURE=true OTEL_METRICS_EXPORTER=none", "http://c:4317/opentelemetry.proto.collector.trace.v1.TraceService/Export off"},
		{"TRACES_ENDPOINT=http://c/x", "http://c/x off"},
		{"OTEL_TRACES_EXPORTER=otlp", "http://localhost:4318/v1/traces off"},
		{"OTEL_METRICS_EXPORTER=otlp PROTOCOL=grpc", "off http://localhost:4317/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"},
		{"ENDPOINT=http://c OTEL_SDK_DISABLED=true", "off off"},
		{"ENDPOINT=s3cret", "OTEL_EXPORTER_OTLP_ENDPOINT is not an http:// or https:// URL"},
		{"ENDPOINT=http://c HEADERS=s3cret", "OTEL_EXPORTER_OTLP_HEADERS is not a list"},
		{"ENDPOINT=http://c PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_PROTOCOL: lockstep has only the protocols http/protobuf and grpc"},
		{"ENDPOINT=http://c TIMEOUT=1s", "OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milliseconds"},
		{"ENDPOINT=http://c CERTIFICATE=/none", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /none"},
		{"ENDPOINT=http://c OTEL_METRICS_EXPORTER=prometheus", "http://c/v1/traces OTEL_METRICS_EXPORTER: lockstep has only the exporters otlp and none"},
		{"OTEL_TRACES_EXPORTER=console", "OTEL_TRACES_EXPORTER: lockstep has only the exporters otlp and none"},
	} {
		t.Run(c.env, func(t *testing.T) {
			for _, v := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(v, "=")
				if !strings.HasPrefix(name, "OTEL_") {
					name = "OTEL_EXPORTER_OTLP_" + name
				}
				t.Setenv(name, value)
			}
			var got []string
			for _, s := range []signal{traces, metrics} {
				e, err := s.endpoint()
				switch {
				case err != nil:
					got = append(got, err.Error())
				case e == nil:
					got = append(got, "off")
				default:
					got = append(got, e.url.String())
				}
			}
			if text := strings.Join(got, " "); !strings.HasPrefix(text, c.want) || strings.Contains(text, "s3cret") {
				t.Errorf("got %s, want %s", text, c.want)
			}
			r, err := Start("", "", time.Now())
			if (err != nil) != strings.Contains(c.want, "OTEL_") || (r != nil) != (strings.HasPrefix(c.want, "http") || strings.HasPrefix(c.want, "off http")) {
				t.Errorf("Start: %v, %v", r, err)
			}
		})
	}
}

// TestInvalidSampler: an unknown sampler or ratio is a warning, and the spans are sent.
func TestInvalidSampler(t *testing.T) {
	to := receiver.Start()
	defer to.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", to.URL+"/v1/traces")
	for n, c := range []struct{ sampler, arg, want string }{
		{"sometimes", "", "OTEL_TRACES_SAMPLER: unsupported sampler: sometimes; the default applies"},
		{"traceidratio", "2", "OTEL_TRACES_SAMPLER: invalid trace ID ratio: greater than 1.0; the default applies"},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
		r, err := Start("v1", "", time.Now())
		if err == nil || err.Error() != c.want {
			t.Errorf("warning %v, want %s", err, c.want)
		}
		if err := r.Close(); err != nil || len(to.Spans()) != n+1 {
			t.Errorf("%v, spans: %v", err, to.Spans())
		}
	}
}

// TestSpansOfPrograms: a program gets the span of its unit, also after the revision was edited, when the units come again; without
// spans of lockstep, it gets what lockstep has.
func TestSpansOfPrograms(t *testing.T) {
	const pipeline = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	unit := event.Unit{Phase: "apply", Group: "s:a"}
	to := receiver.Start()
	defer to.Close()
	t.Setenv(parentVar, pipeline+"01")
	var none *Recorder
	if got := none.Environ(unit)[parentVar]; got != pipeline+"01" {
		t.Errorf("without a recorder: %s", got)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", to.URL+"/v1/metrics")
	start := func(job string) *Recorder {
		t.Helper()
		r, err := Start("v1", job, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	counts := start("")
	if got := counts.Environ(unit)[parentVar]; got != pipeline+"01" {
		t.Errorf("with metrics alone: %s", got)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	r := start("")
	var parents []string
	for range 2 {
		parents = append(parents, r.Environ(unit)[parentVar]) // before the event, which takes its time
		for _, e := range []event.Event{install, phases, group("s:a", event.Running), group("s:a", event.Ready)} {
			e.Time = time.Now()
			r.Consume(e)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var units []string
	for _, s := range to.Spans() {
		if s.Name == "s:a" {
			units = append(units, fmt.Sprintf("00-%x-%x-01", s.TraceId, s.SpanId))
		}
	}
	if fmt.Sprint(units) != fmt.Sprint(parents) || parents[0] == parents[1] {
		t.Errorf("programs have %v, the spans are %v", parents, units)
	}
	t.Setenv(parentVar, pipeline+"00")
	r = start("")
	before := len(to.Spans())
	got := r.Environ(unit)[parentVar]
	if err := r.Close(); err != nil || !strings.HasPrefix(got, "00-0af7651916cd43dd8448eb211c80319c-") || !strings.HasSuffix(got, "-00") || len(to.Spans()) != before {
		t.Errorf("not sampled: %v, a program has %s", err, got)
	}
	if err := counts.Close(); err != nil {
		t.Error(err)
	}
}

// TestPodsOfAJob: two pods of a Job have the same span of the run, with a pipeline and without, and the second starts it when the
// first did; the spans of units differ.
func TestPodsOfAJob(t *testing.T) {
	to := receiver.Start()
	defer to.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	for _, parent := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		t.Setenv(parentVar, parent)
		roots, units := map[string]bool{}, map[string]bool{}
		began := time.Now().Add(-time.Hour)
		for n, job := range []string{"ns/job/1", "ns/job/1", "ns/job/2"} {
			r, err := Start("v1", job, began.Add(time.Duration(n)*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				r.Continue(began)
			}
			units[r.Environ(event.Unit{Phase: "apply", Group: "s:a"})[parentVar]] = true
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range to.Spans() {
			if (len(s.ParentSpanId) > 0) == (parent != "") {
				roots[fmt.Sprintf("%x-%x %d", s.TraceId, s.SpanId, s.StartTimeUnixNano)] = true
			}
		}
		if len(roots) != 2 || len(units) != 3 {
			t.Errorf("parent %q: runs %v, units %v", parent, roots, units)
		}
	}
}

// TestDiagnosisAfterTheFailure: what is found about a group that has failed is in its span, which ends when the group failed.
func TestDiagnosisAfterTheFailure(t *testing.T) {
	exit := 1
	failed := group("s:a", event.Failed)
	failed.Object, failed.Cause = pod, "exited with code 3"
	found := event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: "s:a", Object: pod, Cause: "container main exited with code 3", Details: &event.Details{Source: event.Source{Pod: "a-1", Container: "main"}}}
	to := recorded(t, []event.Event{
		install, phases, group("s:a", event.Running), object(event.Applying, ""), object(event.Applied, event.Created), // 1 to 5
		object(event.Failed, ""), failed, found, // 6, 7, 8
		{Kind: event.KindOperation, Status: event.Failed, Exit: &exit}, // 9
	})
	s := receiver.Named(to.Spans(), "s:a")
	if s == nil || receiver.Attribute(s, keyPod) != "a-1" || receiver.Attribute(s, keyContainer) != "main" {
		t.Fatalf("the span is %v", s)
	}
	if end := time.Unix(0, int64(s.EndTimeUnixNano)).UTC(); end.Second() != 7 {
		t.Errorf("it ended at %s", end)
	}
}
