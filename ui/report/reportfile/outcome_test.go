package reportfile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/golden"
)

var install = event.Operation{Name: "install", Release: "shop", Namespace: "shop", Context: "kind-dev", Chart: "shop-1.0.0", Revision: 1, Timeout: 5 * time.Minute, ReadinessTimeout: time.Minute}

// recorded reads the events of an operation that a test of package report recorded.
func recorded(t *testing.T, name string) []event.Event {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "testdata", name+".ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := event.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// outcomeOf returns the outcome of an operation with the given events.
func outcomeOf(events []event.Event, next ...string) *Outcome {
	s := &event.State{}
	for _, e := range events {
		s.Apply(e)
	}
	return NewOutcome(s, next)
}

// TestReports compares the --report files of operations that succeeded, failed, were aborted or rolled back, or never
// started.
func TestReports(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	outcomes := map[string]*Outcome{
		"notstarted": NotStarted(install, start, 2, errors.New("the API server cannot be reached"), nil),
		"refused": NotStarted(install, start, 2, errors.New("install: 2 problems; nothing was written:\n  one\n  two"), []plan.Warning{
			{Chart: "shop", Object: &plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "settings"}, Message: "shop: ConfigMap/settings: it belongs to release other", Rule: "R29"},
			{Message: "user few lacks permissions: in namespace ns: secrets [list]"},
		}),
	}
	for _, name := range []string{"succeeded", "failed", "aborted", "rolledback", "rolledback-refused", "roots"} {
		outcomes[name] = outcomeOf(recorded(t, name), "lockstep install shop ./shop")
	}
	for name, o := range outcomes {
		for format, ext := range map[string]string{"junit": "xml", "json": "json", "markdown": "md"} {
			golden.CompareFile(t, "testdata/"+name+"."+ext, string(formats[format](o)))
		}
	}
}

// TestNotStartedEvent: only an operation that no process has begun has written nothing.
func TestNotStartedEvent(t *testing.T) {
	for exit, want := range map[int]string{event.ExitNothingWritten: event.NothingWritten, event.ExitAborted: event.NothingWritten, event.ExitFailed: ""} {
		if e := NotStartedEvent(NotStarted(install, time.Time{}, exit, errors.New("no"), nil)); e.Code != want || (e.Outcome == "") != (want == "") {
			t.Errorf("exit %d: %q, %q", exit, e.Code, e.Outcome)
		}
	}
}

// TestJunitRegression expects that an object that is no longer ready is no error of an operation that succeeded.
func TestJunitRegression(t *testing.T) {
	o := plan.Object{Kind: "Deployment", Name: "api"}
	on := event.Event{Phase: "apply", Group: "shop:api", Object: &o}
	object := func(s event.Status) event.Event {
		on.Kind, on.Status = event.KindObject, s
		return on
	}
	group := func(s event.Status) event.Event {
		return event.Event{Kind: event.KindGroup, Phase: on.Phase, Group: on.Group, Status: s}
	}
	out := outcomeOf([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &install},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: on.Phase, Kind: event.PhaseApply, Groups: []*plan.Group{{ID: on.Group, Objects: []plan.Object{o}}}}}},
		group(event.Running), object(event.Ready), group(event.Ready), object(event.InProgress),
		{Kind: event.KindOperation, Status: event.Succeeded, Exit: new(int)},
	}).junit()
	for _, want := range []string{`errors="0" skipped="1"`, `<skipped message="no longer ready: in-progress">`} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// hostile is text that tries to control the terminal, to hide, or to end an XML section or a code block.
const hostile = "v\x1b[2J\x1b[8m\x1b]0;t\x07\x1bP1\x1b\\\x00\b\r\x7f\u009b31m\u202e\u2066\u200b\u2028\ufeff\U000e0041\xff\n]]>```w"

// poison appends hostile to every string of a value that is not empty. Names still match, because all of them change.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() && v.String() != "" { // not kinds and statuses
			v.SetString(v.String() + hostile)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				poison(v.Field(i))
			}
		}
	}
}

// TestReportsOfDriftInAStack: the report of a stack names what others have changed in its releases, with the release.
func TestReportsOfDriftInAStack(t *testing.T) {
	o := plan.Object{Kind: "ConfigMap", Name: "conf"}
	phases := func(group string) []event.Phase {
		return []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: group, Objects: []plan.Object{o}}}}}
	}
	out := outcomeOf([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "stack"}},
		{Kind: event.KindPlan, Phases: phases("n/shop")}, {Kind: event.KindPlan, Scope: "n/shop", Phases: phases("shop:a")},
		{Kind: event.KindDrift, Scope: "n/shop", Phase: "apply", Group: "shop:a", Object: &o, Drift: []event.Drift{{Field: "data.a", Manager: "kubectl"}}},
		{Kind: event.KindOperation, Status: event.Succeeded, Exit: new(int)},
	})
	want := []Warning{{"R21", &o, "n/shop: changed by kubectl: data.a"}}
	if !reflect.DeepEqual(out.Warnings, want) {
		t.Errorf("%+v, want %+v", out.Warnings, want)
	}
}

// TestReportsOfUnsafeText expects that reports contain no unsafe character and can be parsed.
func TestReportsOfUnsafeText(t *testing.T) {
	for _, name := range []string{"succeeded", "failed", "aborted", "rolledback", "roots"} {
		events := recorded(t, name)
		poison(reflect.ValueOf(events))
		o := outcomeOf(events, hostile)
		if len(o.Groups) == 0 {
			t.Fatal("no groups")
		}
		for format, write := range formats {
			out := string(write(o))
			for i, r := range out {
				if r != '\n' && r != '\t' && !text.Safe(r) {
					t.Fatalf("%s: unsafe %U in %q", format, r, out[max(0, i-30):min(len(out), i+30)])
				}
			}
			if format == "json" && !json.Valid([]byte(out)) {
				t.Error("the report is not JSON")
			}
			if err := xml.Unmarshal([]byte(out), new(junitSuites)); format == "junit" && err != nil {
				t.Error(err)
			}
		}
	}
}

// TestEveryFieldOfReportsIsDocumented compares the fields with reports.md.
func TestEveryFieldOfReportsIsDocumented(t *testing.T) {
	var got []string
	_, section, _ := strings.Cut(Doc, "\n## Fields")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			got = append(got, name[1])
		}
	}
	want := slices.DeleteFunc(fields(reflect.TypeFor[Outcome](), ""), func(name string) bool {
		return strings.HasPrefix(name, "operation.") || strings.HasPrefix(name, "object.")
	})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("documented:\n%s\nin the program:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// fields lists the JSON names of a type, with those of the types inside.
func fields(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			out = append(out, fields(f.Type, prefix)...)
			continue
		case !f.IsExported() || name == "-":
			continue
		}
		out = append(out, prefix+name)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && (inner != reflect.TypeFor[plan.Object]() || prefix == "") {
			out = append(out, fields(inner, prefix+name+".")...)
		}
	}
	return out
}

// TestReportsOfSilentControllers expects that reports count an object whose controller wrote no status as skipped, not as a
// success, and say by which rule the others are ready (R22a).
func TestReportsOfSilentControllers(t *testing.T) {
	db, web := plan.Object{Kind: "Db", Name: "main"}, plan.Object{Kind: "Deployment", Name: "web"}
	object := func(o plan.Object, by event.Judge, message string) event.Event {
		return event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:db", Object: &o, Status: event.Ready, ReadyBy: by, Message: message, Change: event.Created}
	}
	exit := 0
	o := outcomeOf([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "r:db", Objects: []plan.Object{db, web}}}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "r:db", Status: event.Running},
		object(db, event.ByNoStatus, "its controller wrote no status within 10s"), object(web, event.ByKstatus, ""),
		{Kind: event.KindGroup, Phase: "apply", Group: "r:db", Status: event.Ready},
		{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit, NoStatus: 1, Outcome: "1 object whose controller said nothing"},
	})
	for text, want := range map[string][]string{
		string(o.junit()):    {`tests="2" failures="0" errors="0" skipped="1"`, `message="applied: its controller wrote no status within 10s"`},
		string(o.markdown()): {"applied after 0.0s: 1 object whose controller said nothing", "said nothing:\n\n- Db/main: its controller wrote no status within 10s"},
		string(o.json()):     {`"noStatus": 1`, `"readyBy": "no-status"`, `"readyBy": "kstatus"`},
	} {
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
}

// TestReportsOfObjectsThatAreNotAwaited expects that reports count them as skipped, whatever their status, and that the group is
// not degraded by them (R22b).
func TestReportsOfObjectsThatAreNotAwaited(t *testing.T) {
	web, debug, bad := plan.Object{Kind: "Deployment", Name: "web"}, plan.Object{Kind: "Deployment", Name: "debug"}, plan.Object{Kind: "Deployment", Name: "bad"}
	object := func(o plan.Object, status event.Status, by event.Judge, message string) event.Event {
		return event.Event{Kind: event.KindObject, Phase: "apply", Group: "r:app", Object: &o, Status: status, ReadyBy: by, Message: message, Change: event.Created}
	}
	exit := 0
	o := outcomeOf([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "r:app", Objects: []plan.Object{bad, debug, web}}}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "r:app", Status: event.Running},
		object(debug, event.InProgress, event.NotAwaited, "0 of 1 available"), object(bad, event.Failed, event.NotAwaited, "crashed"), object(web, event.Ready, event.ByKstatus, ""),
		{Kind: event.KindGroup, Phase: "apply", Group: "r:app", Status: event.Ready},
		{Kind: event.KindOperation, Status: event.Succeeded, Exit: &exit, NotAwaited: 2, Outcome: "2 objects not waited for"},
	})
	for text, want := range map[string][]string{
		string(o.junit()):    {`tests="3" failures="0" errors="0" skipped="2"`, `message="not waited for: in-progress: 0 of 1 available"`, `message="not waited for: failed: crashed"`},
		string(o.markdown()): {"applied after 0.0s: 2 objects not waited for", "| r:app | ✅ ready |"},
	} {
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
}
