package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/ui/report"
)

// TestRecordInspector reads events, pods, logs and manifests from a record.
func TestRecordInspector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.ndjson")
	if err := os.WriteFile(path, []byte(`{"seq":1,"time":"2026-01-01T00:00:00Z","kind":"operation","status":"running"}
{"seq":0,"time":"2026-01-01T00:00:00Z","kind":"manifest","object":{"group":"batch","kind":"Job","namespace":"n","name":"a"},"lines":["kind: Job"]}
{"seq":2,"time":"2026-01-01T00:00:01Z","kind":"diagnosis","object":{"group":"batch","kind":"Job","namespace":"n","name":"a"},"details":{"conditions":["x"],"pods":[{"name":"a-1","why":"being created"}],"events":[{"time":"2026-01-01T00:00:00Z","object":"Pod/a-1","reason":"BackOff","message":"again","count":1}]}}
{"seq":2,"time":"2026-01-01T00:00:01Z","kind":"diagnosis","object":{"group":"batch","kind":"Job","namespace":"n","name":"a"},"details":{"pod":"a-1","container":"c","log":["FATAL"],"pods":[{"name":"a-1","why":"exit code 2"}],"events":[{"time":"2026-01-01T00:00:09Z","object":"Pod/a-1","reason":"BackOff","message":"again","count":2}]}}
{"seq":3,"time":"2026-01-01T00:00:01Z","kind":"diagnosis","object":{"group":"","kind":"Service","namespace":"n","name":"s"},"lines":["no endpoints"]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := report.ReadRecord("", path)
	if err != nil {
		t.Fatal(err)
	}
	look, ctx := recordInspector{r, func() int { return len(r.Events) }}, context.Background()
	job := plan.Object{Group: "batch", Kind: "Job", Namespace: "n", Name: "a"}
	service := plan.Object{Kind: "Service", Namespace: "n", Name: "s"}
	is := func(what, want string, lines []string, err error) {
		t.Helper()
		if got := strings.Join(lines, "|"); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	events, err := look.Events(ctx, job)
	if len(events) != 1 || err != nil || phrase.ClusterEvent(events[0]) != time.Unix(1767225609, 0).Format(time.TimeOnly)+" Pod/a-1 BackOff: again (×2)" {
		t.Errorf("events: %v, %v", events, err)
	}
	pods, err := look.Pods(ctx, job)
	if len(pods) != 1 || pods[0] != (inspect.Pod{Name: "a-1", Why: "exit code 2"}) || err != nil {
		t.Errorf("pods: %v, %v", pods, err)
	}
	var lines []string
	err = look.Logs(ctx, job, func(l inspect.LogLine) { lines = append(lines, l.Pod+" "+l.Container+" "+l.Text) })
	is("logs", "a-1 c FATAL", lines, err)
	text, err := look.Sent(ctx, inspect.Item{Object: job})
	is("manifest", "kind: Job", []string{text}, err)
	none := inspect.Unavailable("")
	if _, err = look.Events(ctx, service); !errors.As(err, &none) || none != "no events recorded; the record has only:; no endpoints" {
		t.Errorf("no events: %v", err)
	}
	lines = nil
	err = look.Logs(ctx, service, func(l inspect.LogLine) { lines = append(lines, fmt.Sprint(l.Note, " ", l.Text)) })
	is("no logs", "true no logs recorded; the record has only:|true no endpoints", lines, err)
	if _, err = look.Pods(ctx, plan.Object{Kind: "Secret"}); !errors.As(err, &none) || none != "no pods recorded at this point" {
		t.Errorf("no pods: %v", err)
	}
	look.at = func() int { return 1 }
	if _, err = look.Pods(ctx, job); !errors.As(err, &none) || none != "no pods recorded at this point" {
		t.Errorf("before the diagnosis: %v", err)
	}
	if _, err = look.Change(ctx, inspect.Item{Object: job}); !errors.As(err, &none) {
		t.Errorf("change of an object that is not in the plan: %v", err)
	}
	if _, err = look.Live(ctx, job); !errors.As(err, &none) {
		t.Errorf("the live object: %v", err)
	}
	if _, err = look.Sent(ctx, inspect.Item{Object: service}); err == nil {
		t.Error("got a manifest that was not recorded")
	}
}

// TestRecordedHookChange: a hook that its delete policy deleted is shown as a hook, not as a
// deletion.
func TestRecordedHookChange(t *testing.T) {
	job := plan.Object{Group: "batch", Kind: "Job", Namespace: "n", Name: "a"}
	state := &event.State{}
	feed := func(e event.Event) { state.Apply(e) }
	phase := func(name string, kind event.PhaseKind) event.Phase {
		return event.Phase{Name: name, Kind: kind, Groups: []*plan.Group{{ID: name + ":g", Objects: []plan.Object{job}}}}
	}
	feed(event.Event{Seq: 1, Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade"}})
	phases := []event.Phase{phase("pre-upgrade", event.PhaseHooks), phase("apply", event.PhaseApply), phase("remove", event.PhaseRemove), phase("post-upgrade", event.PhaseHooks)}
	feed(event.Event{Seq: 2, Kind: event.KindPlan, Phases: phases})
	seq := uint64(2)
	did := func(phase string, changes ...event.Change) {
		for _, c := range changes {
			seq++
			feed(event.Event{Seq: seq, Kind: event.KindObject, Phase: phase, Group: phase + ":g", Object: &job, Status: event.Applied, Change: c})
		}
	}
	did("pre-upgrade", event.Created, event.Deleted)
	did("apply", event.Created, event.Deleted) // a hook of lockstep/hook-scope
	did("remove", event.Deleted)
	look := recordInspector{record: &report.Record{State: state}}
	for n, want := range []inspect.Action{"hook", "hook", "delete", ""} {
		p := phases[n]
		c, err := look.Change(t.Context(), inspect.Item{Unit: event.Unit{Phase: p.Name, Group: p.Name + ":g"}, Kind: p.Kind, Object: job})
		if c.Action != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", p.Name, c.Action, err, want)
		}
	}
}
