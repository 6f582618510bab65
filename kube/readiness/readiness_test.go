package readiness

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/status"
)

func flag(t *testing.T, value string) Override {
	t.Helper()
	o, err := ParseFlag(value)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func operator(t *testing.T, list ...Override) *Operator {
	t.Helper()
	o, err := New(list)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestInvalidStatements: what an operator may get wrong is refused without a cluster, and the error says how to write it (R22b).
func TestInvalidStatements(t *testing.T) {
	parseFlag := func(v string) error {
		o, err := ParseFlag(v)
		if err == nil {
			_, err = New([]Override{o})
		}
		return err
	}
	noWait := func(v string) error { _, err := ParseNoWait(v); return err }
	timeout := func(v string) error { _, _, err := ParseTimeout(v); return err }
	file := func(v string) error { _, err := ParseFile("f.yaml", []byte(v)); return err }
	for _, c := range []struct {
		parse       func(string) error
		value, want string
	}{
		{parseFlag, "Rollout", "write KIND.GROUP[/NAME]='SUCCESS; FAILURE'"},
		{parseFlag, "{.phase} == Up", "write KIND.GROUP[/NAME]='SUCCESS; FAILURE'"},
		{parseFlag, "rollout={.a} == 1", `"rollout" selects no objects`},
		{parseFlag, "A/b/c={.a} == 1", `"A/b/c" selects no objects`},
		{parseFlag, "A/={.a} == 1", `"A/" selects no objects`},
		{parseFlag, "A={.a == 1", "the readiness of A: expression \"{.a == 1\": no closing brace"},
		{parseFlag, "A={.a} ~ 1", "unknown operator"},
		{parseFlag, "A={.a} == 1; b", "the readiness of A: expression \"b\""},
		{parseFlag, "A=; {.a} == 1", "needs one for the success"},
		{noWait, "api", `--no-wait-for: "api" selects no objects`},
		{noWait, "app in (", "label selector"},
		{timeout, "A/b=soon", `the readiness timeout of A/b must be a duration of more than 0, such as 10m, but is 'soon'`},
		{timeout, "A/b=-1m", `must be a duration of more than 0, such as 10m, but is '-1m'`},
		{timeout, "a/b=1m", `"a/b" selects no objects`},
		{file, "A: {}", "f.yaml: A says nothing"},
		{file, "A: {sucess: x}", `unknown field "sucess"`},
		{file, "A: {success: 1}", "write an expression or a list"},
		{file, "A: {timeout: 0s}", "timeout must be a duration of more than 0"},
		{file, "a: {wait: false}", `"a" selects no objects`},
	} {
		if err := c.parse(c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.value, err, c.want)
		}
	}
}

// TestNearestRule: the operator's rule for an object comes before that for its kind, for its labels, and the chart's (R22b).
func TestNearestRule(t *testing.T) {
	chart := map[string]string{plan.AnnotationReadinessSuccess: `["{.by} == chart"]`, plan.AnnotationReadinessFailure: `["{.by} == none"]`}
	labels := map[string]string{"app": "api"}
	byLabel := Override{For: "app=api", Success: []string{"{.by} == label"}}
	list := []Override{byLabel, flag(t, "Thing={.by} == kind; {.by} == broken"), flag(t, "Thing.example.org/one={.by} == name")}
	for _, c := range []struct {
		object plan.Object
		list   []Override
		want   string
	}{
		{plan.Object{Group: "example.org", Kind: "Thing", Name: "one"}, list, "name"},
		{plan.Object{Group: "other.org", Kind: "Thing", Name: "one"}, list, "kind"},
		{plan.Object{Group: "example.org", Kind: "Thing", Name: "two"}, list, "kind"},
		{plan.Object{Kind: "Pod", Name: "one"}, list, "label"},
		{plan.Object{Kind: "Pod", Name: "one"}, nil, "chart"},
		{plan.Object{Kind: "Pod", Name: "one"}, Join([]Override{byLabel}, []Override{{For: "app=api", Success: []string{"{.by} == nearer"}}}), "nearer"},
	} {
		rule, err := operator(t, c.list...).RuleOf(c.object, labels, chart)
		if err != nil || len(rule.Success) != 1 || rule.Success[0].String() != "{.by} == "+c.want || rule.Operator != (c.want != "chart") {
			t.Errorf("%s: %v, %v, want %s", c.object, rule, err, c.want)
		}
	}
}

// TestWaitOfObject: the operator's word about waiting comes before the chart's (R22b).
func TestWaitOfObject(t *testing.T) {
	never, err := ParseNoWait("Deployment/debug")
	if err != nil {
		t.Fatal(err)
	}
	slow, forSome, err := ParseTimeout("Deployment=2m")
	if err != nil || !forSome {
		t.Fatal(forSome, err)
	}
	o := operator(t, never, slow)
	chart := plan.Wait{Timeout: time.Minute, Source: plan.AnnotationReadinessTimeout}
	for name, want := range map[string]plan.Wait{
		"debug": {Never: true, Timeout: 2 * time.Minute, Source: "--readiness-timeout Deployment"},
		"api":   {Timeout: 2 * time.Minute, Source: "--readiness-timeout Deployment"},
	} {
		if got := o.Wait(plan.Object{Group: "apps", Kind: "Deployment", Name: name}, nil, chart); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := o.Wait(plan.Object{Kind: "Pod", Name: "debug"}, nil, chart); got != chart {
		t.Errorf("the chart's: %v", got)
	}
}

// TestFileIsRead: a file is read as it was written, so a run in the cluster judges by the same rules (R22b).
func TestFileIsRead(t *testing.T) {
	list, err := ParseFile("f", []byte(`
Rollout.argoproj.io: {success: '{.phase} == Healthy', failure: ['{.phase} == Degraded', '{.abort} == true']}
Deployment/debug: {wait: false}
app in (a, b): {timeout: 10m}
`))
	if err != nil {
		t.Fatal(err)
	}
	data, err := FileOf(list)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseFile("f", data)
	if err != nil {
		t.Fatal(err)
	}
	once, err := FileOf(again)
	if err != nil || string(once) != string(data) || len(again) != 3 || len(again[1].Failure) != 2 {
		t.Errorf("%v, %s", err, data)
	}
}

// TestFlagIsSplit: a semicolon in a path or in quotes does not end the first expression.
func TestFlagIsSplit(t *testing.T) {
	for value, want := range map[string][2]string{
		`A={.a} == 1`:                                   {`{.a} == 1`, ""},
		`A={.a} == 1; {.b} == 2`:                        {`{.a} == 1`, `{.b} == 2`},
		`A={.a[?(@.t==";")]} == ";"; {.b} == 2`:         {`{.a[?(@.t==";")]} == ";"`, `{.b} == 2`},
		`A={.c[?(@.type=="Ready")].status} == True;`:    {`{.c[?(@.type=="Ready")].status} == True`, ""},
		`A = {.metadata} == 'a;b' ; {.phase} == Failed`: {`{.metadata} == 'a;b'`, `{.phase} == Failed`},
	} {
		o := flag(t, value)
		if got := strings.Join(o.Success, "") + "|" + strings.Join(o.Failure, ""); o.For != "A" || got != want[0]+"|"+want[1] {
			t.Errorf("%s: %q", value, got)
		}
	}
}

// TestUnmatchedStatements: a statement that applies to no object is reported with the nearest name (R22b).
func TestUnmatchedStatements(t *testing.T) {
	objects := []Object{{plan.Object{Group: "apps", Kind: "Deployment", Name: "api"}, map[string]string{"app": "api"}}, {Object: plan.Object{Kind: "Service", Name: "api"}}}
	for text, want := range map[string]string{
		"Deployment.apps/api": "",
		"Deployment":          "",
		"app=api":             "",
		"Deploymnt/api":       "no object of this kind; did you mean Deployment?",
		"Deployment/apo":      "no object of this kind with this name; did you mean Deployment/api?",
		"Deployment.example":  "no object of this kind",
		"app=web":             "no object of the release has these labels",
	} {
		never := false
		w, found := operator(t, Override{For: text, Wait: &never}).Unmatched(objects)[text]
		if found != (want != "") || !strings.Contains(w.Message, want) {
			t.Errorf("%s: %q, want %q", text, w.Message, want)
		}
	}
}

// TestFieldsAreChecked: an expression names fields of the kind, as far as its schema says which there are (R22b).
func TestFieldsAreChecked(t *testing.T) {
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	text := map[string]any{"type": "string"}
	gvk := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"}
	root := object(map[string]any{"spec": object(nil), "status": object(map[string]any{
		"phase": text, "open": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		"counts":     map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer"}},
		"conditions": map[string]any{"type": "array", "items": object(map[string]any{"type": text, "status": text})},
	})})
	crd := map[string]any{"spec": map[string]any{"group": "example.org", "names": map[string]any{"kind": "Thing"},
		"versions": []any{map[string]any{"name": "v1", "schema": map[string]any{"openAPIV3Schema": root}}}}}
	things := []Kinded{{Object{Object: plan.Object{Group: "example.org", Kind: "Thing", Name: "it"}}, gvk}}
	for expression, want := range map[string]string{
		`{.phase} == Up`:                                   "",
		`{.status.phase} == Up`:                            "",
		`{.open.any.thing} == 1`:                           "",
		`{.counts.any} == 1`:                               "",
		`{.conditions[?(@.type=="Ready")].status} == True`: "",
		`{.conditions[*].status} == True`:                  "",
		`{..anything} == 1`:                                "",
		`{.phse} == Up`:                                    "example.org/v1 Thing has no field .status.phse; did you mean .status.phase?",
		`{.zzzzzzzz} == Up`:                                "no field .status.zzzzzzzz; it has conditions, counts, open, phase",
		`{.conditions[?(@.typ=="Ready")].status} == True`:  "no field .status.conditions[].typ; did you mean .status.conditions[].type?",
		`{.conditions[?(@.type=="Ready")].statsu} == True`: "did you mean .status.conditions[].status?",
		`{.conditions[0].reason} == x`:                     "no field .status.conditions[].reason",
	} {
		o := operator(t, Override{For: "Thing", Success: []string{expression}})
		found := o.CheckFields(slices.Repeat(things, 2), func(gvk schema.GroupVersionKind) status.Schema { return DefinedSchema(crd, gvk) })
		switch {
		case want == "" && len(found) > 0, want != "" && (len(found) != 1 || !strings.Contains(found[0].Message, want)):
			t.Errorf("%s: %v, want %q", expression, found, want)
		}
	}
	gvk.Version = "v2"
	if DefinedSchema(crd, gvk).Known() {
		t.Error("another version has the same schema")
	}
}
