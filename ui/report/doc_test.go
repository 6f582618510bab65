package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// fields lists the JSON names of a type, with those of the types inside.
func fields(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if f.Anonymous {
			out = append(out, fields(f.Type, prefix)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, prefix+name)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		switch {
		case inner.Kind() != reflect.Struct || inner == reflect.TypeFor[time.Time]():
		case inner == reflect.TypeFor[plan.Object]() && prefix != "":
		default:
			out = append(out, fields(inner, prefix+name+".")...)
		}
	}
	return out
}

// documented lists the names in the first column of the tables under a heading.
func documented(headings ...string) []string {
	var out []string
	cell := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	for _, section := range strings.Split(EventsDoc, "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if slices.Contains(headings, name) {
			for _, m := range cell.FindAllStringSubmatch(body, -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s documented:\n%s\nin the program:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	same(t, "fields", documented("Fields", "Objects", "Skips", "Tallies", "Progress", "Sources", "Details", "Drift", "Waits", "Timeouts", "Holds", "Origins", "Operation", "Results", "Phases"), fields(reflect.TypeFor[event.Event](), ""))
}

func TestEveryKindAndStatusIsDocumented(t *testing.T) {
	values := map[string][]string{} // by type
	for _, name := range []string{"event.go", "command.go", "phases.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../../engine/event/"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Type == nil || len(spec.Values) == 0 {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				s, _ := strconv.Unquote(lit.Value)
				typ := spec.Type.(*ast.Ident).Name
				values[typ] = append(values[typ], s)
			}
			return true
		})
	}
	same(t, "kinds", documented("Kinds"), values["Kind"])
	same(t, "statuses", documented("Statuses"), values["Status"])
	for _, typ := range []string{"Change", "CommandName", "PhaseKind"} {
		if len(values[typ]) == 0 {
			t.Errorf("no values of %s", typ)
		}
		for _, v := range values[typ] {
			if !strings.Contains(EventsDoc, "`"+v+"`") {
				t.Errorf("%s %s is not documented", typ, v)
			}
		}
	}
}

func TestEveryStatusHasALook(t *testing.T) {
	look := theme.New(theme.Options{})
	for _, s := range documented("Statuses") {
		if look.Mark(s).Glyph == "?" {
			t.Errorf("status %s has no glyph", s)
		}
	}
}
