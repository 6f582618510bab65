package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
)

// hostile is text that tries to control the terminal, with everything but lockstep's own colours.
const hostile = "v\x1b[2J\x1b[8m\x1b[45m\x1b]0;t\x07\x1b]8;;http://x\x1b\\\x1bP1\x1b\\\x00\b\r\x7f\u009b31m\u009d0;t\u009c\u202e\u2066\u200f\u061c\u2028" +
	"\u200b\ufeff\u00ad\U000e0041\xff\x9b31m" + "w"

// poison sets each empty string of a value to hostile, and adds an element to each empty list and map.
func poison(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		if v.String() == "" {
			v.SetString(hostile)
		}
	case reflect.Pointer:
		if v.IsNil() {
			if depth > 8 {
				return
			}
			v.Set(reflect.New(v.Type().Elem()))
		}
		poison(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Len() == 0 && depth <= 8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			poison(v.Index(i), depth+1)
		}
	case reflect.Map:
		if depth <= 8 && v.Type().Key().Kind() == reflect.String {
			m, e := reflect.MakeMap(v.Type()), reflect.New(v.Type().Elem()).Elem()
			poison(e, depth+1)
			m.SetMapIndex(reflect.ValueOf(hostile).Convert(v.Type().Key()), e)
			v.Set(m)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				poison(v.Field(i), depth+1)
			}
		}
	}
}

func poisoned[T any](v T) T {
	poison(reflect.ValueOf(&v).Elem(), 0)
	return v
}

// hostileEvents returns events of every kind and status with hostile text in every field.
func hostileEvents() []event.Event {
	var out []event.Event
	add := func(e event.Event) {
		e.Seq, e.Time = uint64(len(out)+1), time.Unix(int64(len(out)), 0).UTC()
		out = append(out, poisoned(e))
	}
	add(event.Event{Kind: event.KindOperation, Status: event.Running})
	add(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Kind: event.PhaseApply}, {Name: "other", Kind: event.PhaseRemove}}})
	for _, kind := range []event.Kind{event.KindRun, event.KindGroup, event.KindObject, event.KindCommand, event.KindBreakpoint, event.KindWarning,
		event.KindWaiting, event.KindDiagnosis, event.KindLog, event.KindNotes} {
		for _, status := range []event.Status{event.Running, event.AtBreakpoint, event.Applied, event.Ready, event.Failed, event.Skipped, event.Aborted, event.Gone, event.Refused, hostile} {
			add(event.Event{Kind: kind, Status: status})
		}
	}
	add(event.Event{Kind: event.KindOperation, Status: event.RollingBack})
	add(event.Event{Kind: event.KindOperation, Status: event.Failed})
	return out
}

// outputs returns functions that write each kind of output in a mode.
func outputs(mode Mode, to Stream) map[string]func() {
	d, events := New(mode, to, to), hostileEvents()
	state := Replay(events)
	next := func(*event.State) []string { return []string{hostile} }
	groups := Groups(state, []Timing{poisoned(Timing{})})
	all := map[string]func(){
		"operation": func() {
			Replay(events, d.Operation(Options{Next: next, Record: func() string { return hostile }}))
		},
		"watch":    func() { Replay(events, d.Watch()) },
		"once":     func() { Replay(events, d.Once()) },
		"release":  func() { _ = d.Show(Release{state, []Timing{poisoned(Timing{})}}) },
		"plan":     func() { _ = d.Show(poisoned(Plan{})) },
		"lint":     func() { _ = d.Show(poisoned(Lint{})) },
		"written":  func() { _ = d.Show(poisoned(ChartEdits{})) },
		"version":  func() { _ = d.Show(poisoned(Version{})) },
		"warnings": func() { d.Warnings([]plan.Warning{poisoned(plan.Warning{})}) },
		"notices":  func() { d.Note(hostile); d.Warn(hostile); d.Start(hostile)(hostile); d.Error(errors.New(hostile)) },
		"dry run": func() {
			_ = d.DryRun(DryRun{Hide: func(s string) string { return s }, Release: map[string]string{hostile: hostile}, Print: func(w io.Writer) error { return write(w, hostile) },
				Notes: hostile, Phases: poisoned([]event.Phase{{Kind: event.PhaseRemove}}), Warnings: poisoned([]plan.Warning(nil))})
		},
		"status": func() {
			helmOutput := hostile
			if mode == ModeJSON {
				raw, _ := json.Marshal(map[string]string{"a": hostile})
				helmOutput = string(raw) + "\n"
			}
			_ = d.Status([]byte(helmOutput), LiveStatus{Groups: groups})
		},
	}
	if mode == ModeText {
		all["print"] = func() { d.Print(hostile) }
		all["lines"] = func() { _ = d.Lines(hostile) }
		all["text"] = func() { _ = write(d.Text(), hostile) }
		all["data"] = func() { _ = write(d.Data(), hostile) }
		all["summary"] = func() { Summary(to, state, Options{Style: to.Style, Next: next}) }
		all["rules"] = func() { _ = Markdown(to, hostile, to.Style, 80) }
		for _, format := range DagFormats {
			all["dag "+format] = func() { _ = Dag(to, hostile, poisoned(&plan.Plan{}), format, to.Style) }
		}
	}
	return all
}

// TestUnsafeTextIsEscaped expects that no output contains an unsafe character, or a control sequence
// other than lockstep's colours, whatever text charts and clusters contain.
func TestUnsafeTextIsEscaped(t *testing.T) {
	colour := Style{Theme: theme.New(theme.Options{Depth: theme.Basic}), Codes: true}
	for name, style := range map[string]Style{"plain": plain, "colour": colour} {
		for _, mode := range []Mode{ModeText, ModeJSON, ModeYAML} {
			ci := map[string]CI{"plain": GitHub}[name]
			var out bytes.Buffer
			for what, do := range outputs(mode, Stream{Writer: &out, Style: style, Terminal: true, CI: ci}) {
				t.Run(fmt.Sprintf("%s %s %s", what, mode, name), func(t *testing.T) {
					out.Reset()
					do()
					checkSafe(t, out.String(), style)
				})
			}
		}
	}
}

func checkSafe(t *testing.T, out string, style Style) {
	t.Helper()
	if own := style.sequences(); own != nil {
		out = own.ReplaceAllString(out, "")
	}
	for i, r := range out {
		if r != '\n' && r != '\t' && !text.Safe(r) {
			t.Fatalf("unsafe %U in %q", r, out[max(0, i-30):min(len(out), i+30)])
		}
	}
}

// TestPipedDataIsUnchanged expects data for other programs exactly as Helm writes it.
func TestPipedDataIsUnchanged(t *testing.T) {
	var out bytes.Buffer
	if err := write(New(ModeText, Stream{Writer: &out}, Stream{Writer: &out}).Data(), hostile); err != nil || out.String() != hostile {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestRunLogIsSafe(t *testing.T) {
	dir := t.TempDir()
	log := NewRunLog(dir, func(s string) { t.Error(s) })
	events := hostileEvents()
	Replay(events, log)
	log.Close()
	path, err := FindRun(dir, log.Name())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checkSafe(t, string(raw), plain)
	again, err := event.Read(bytes.NewReader(raw))
	want, _ := json.Marshal(events)
	want = bytes.ReplaceAll(want, []byte(`\ufffd`), []byte("\ufffd"))
	if got, _ := json.Marshal(again); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the record has other events (%v)", err)
	}
}

// TestSafeTextIsKept expects that lockstep's colours, those of Helm's output, and characters written
// byte by byte are kept.
func TestSafeTextIsKept(t *testing.T) {
	style := Style{Theme: theme.New(theme.Options{Depth: theme.Basic}), Codes: true}
	good := style.Theme.Render(theme.Good, "fine")
	for _, c := range []struct {
		w          func(io.Writer) io.Writer
		in, expect string
	}{
		{Safe, "日本 é\n\tx", "日本 é\n\tx"},
		{func(w io.Writer) io.Writer { return styled(w, style) }, good, good},
		{Safe, good, "fine"},
		{func(w io.Writer) io.Writer { return New(ModeText, Stream{Writer: w}, Stream{Writer: w}).Text() }, "\x1b[32mdeployed\x1b[0m \x1b[32mother\x1b[0m \x1b[36mnow here\x1b[0m \x1b[36mprod-1\x1b[0m", "\x1b[32mdeployed\x1b[0m other now here \x1b[36mprod-1\x1b[0m"},
	} {
		var out strings.Builder
		if err := write(c.w(&out), c.in); err != nil || out.String() != c.expect {
			t.Errorf("%q becomes %q, %v", c.in, out.String(), err)
		}
	}
	var out strings.Builder
	w := Safe(&out)
	for _, b := range []byte("日é") {
		if _, err := w.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "日é" {
		t.Errorf("byte by byte: %q", out.String())
	}
}
