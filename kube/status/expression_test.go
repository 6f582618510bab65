package status

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// statusOf reads a status as the API client does, with whole numbers as int64.
func statusOf(t testing.TB, text string) map[string]any {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"X","status":` + text + `}`)); err != nil {
		t.Fatal(err)
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	return status
}

const sample = `{
	"succeeded": 1, "ratio": 1.0, "half": 0.5, "big": 9007199254740993, "neg": -2,
	"phase": "Ready", "text": "two words", "digits": "3", "version": "1.10", "yes": true, "word": "true",
	"nothing": null, "empty": {}, "list": [1, 5, "x"], "status": "inner", "dotted.key": "d", "": "blank",
	"conditions": [
		{"type": "Ready", "status": "True", "port": 80},
		{"type": "}", "status": "False"}
	],
	"nested": {"status": {"deep": 7}}
}`

func TestExpressionHolds(t *testing.T) {
	status := statusOf(t, sample)
	tests := []struct {
		text string
		want bool
	}{
		// The examples of HIP-0025.
		{`{.succeeded} == 1`, true},
		{`{.succeeded} == 2`, false},
		{`{.failed} >= 1`, false},

		// The scope is .status; a leading .status is tolerated.
		{`{.status.succeeded} == 1`, true},
		{`{$.status.succeeded} == 1`, true},
		{`{$.succeeded} == 1`, true},
		{`{@.succeeded} == 1`, true},
		{`{ .succeeded }  ==  1 `, true},
		{`{['succeeded']} == 1`, true},
		{`{.status['phase']} == Ready`, true},
		{`{.status.status} == inner`, true},
		{`{.nested.status.deep} == 7`, true},
		{`{.statusx} != 1`, false},

		// Operators, with and without blanks.
		{`{.succeeded}==1`, true},
		{`{.succeeded}>=1`, true},
		{`{.succeeded} != 2`, true},
		{`{.succeeded} != 1`, false},
		{`{.succeeded} < 2`, true},
		{`{.succeeded} < 1`, false},
		{`{.succeeded} <= 1`, true},
		{`{.succeeded} > 0`, true},
		{`{.succeeded} > 1`, false},
		{`{.neg} < -1`, true},
		{`{.half} > 0.25`, true},
		{`{.half} == 5e-1`, true},

		// Numbers are compared as numbers, whole ones exactly.
		{`{.succeeded} == 1.0`, true},
		{`{.ratio} == 1`, true},
		{`{.big} == 9007199254740993`, true},
		{`{.big} == 9007199254740992`, false},
		{`{.succeeded} == "1"`, true},
		{`{.digits} == 3`, true},
		{`{.digits} == 3.0`, true},
		{`{.digits} >= 3`, true},
		{`{.digits} == "3.0"`, false},
		{`{.version} == "1.1"`, false},
		{`{.version} == "1.10"`, true},
		{`{.succeeded} == one`, false},
		{`{.succeeded} != one`, true},
		{`{.succeeded} == 0x1`, false},
		{`{.succeeded} == NaN`, false},

		// Strings and booleans.
		{`{.phase} == Ready`, true},
		{`{.phase} == "Ready"`, true},
		{`{.phase} == 'Ready'`, true},
		{`{.phase} == ready`, false},
		{`{.phase} != "Failed"`, true},
		{`{.text} == two words`, true},
		{`{.text} == "two words"`, true},
		{`{.yes} == true`, true},
		{`{.yes} == false`, false},
		{`{.yes} != false`, true},
		{`{.yes} == "true"`, true},
		{`{.word} == true`, true},
		{`{.phase} == ""`, false},
		{`{.phase} != ""`, true},

		// A missing value makes every comparison false.
		{`{.missing} == 1`, false},
		{`{.missing} != 1`, false},
		{`{.missing.deeper} != x`, false},
		{`{.phase.deeper} != x`, false},
		{`{.nothing} == null`, false},
		{`{.nothing} != 1`, false},
		{`{.empty} != 1`, false},
		{`{.list} != 1`, false},
		{`{.list[9]} != 1`, false},
		{`{.phase[0]} != 1`, false},
		{`{.phase[?(@.a=="b")]} != 1`, false},

		// Of several values one is enough.
		{`{.list[*]} == 5`, true},
		{`{.list[*]} > 4`, true},
		{`{.list[*]} == 6`, false},
		{`{.list[0,1]} == 5`, true},
		{`{.list[-1]} == x`, true},
		{`{.conditions[?(@.type=="Ready")].status} == True`, true},
		{`{.conditions[?(@.type=='Ready')].status} == "True"`, true},
		{`{.conditions[?(@.type=="Ready")].status} == true`, false},
		{`{.conditions[?(@.type=="}")].status} == False`, true},
		{`{.conditions[?(@.port==80)].status} == True`, true},
		{`{.conditions[?(@.type=="Absent")].status} != True`, false},
		{`{..deep} == 7`, true},
		{`{.dotted\.key} == d`, true},

		// An ordering operator is false unless it compares numbers.
		{`{.phase} > 1`, false},
		{`{.phase} < 1`, false},
		{`{.yes} >= 0`, false},
		{`{.succeeded} > big`, false},
		{`{.succeeded} <= "x"`, false},
		{`{.yes} < true`, false},
	}
	for _, tt := range tests {
		e, err := parseExpression(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got, _ := e.Holds(status); got != tt.want {
			t.Errorf("%s holds: %v, want %v (found %s)", tt.text, got, tt.want, e.Actual(status))
		}
		if got, _ := e.Holds(nil); got {
			t.Errorf("%s is true without a status", tt.text)
		}
	}
}

func TestExpressionDoubts(t *testing.T) {
	status := statusOf(t, sample)
	for text, want := range map[string]string{
		`{.phase} > 1`:    `{.phase} > 1 compares numbers, but found "Ready"`,
		`{.yes} <= 1`:     `{.yes} <= 1 compares numbers, but found "true"`,
		`{.list[*]} > 9`:  `{.list[*]} > 9 compares numbers, but found "x"`,
		`{.list[*]} > 4`:  "",
		`{.half} > big`:   `{.half} > big compares numbers, but "big" is not a number`,
		`{.yes} < true`:   `{.yes} < true compares numbers, but "true" is not a number`,
		`{.missing} > 1`:  "",
		`{.missing} > b`:  "",
		`{.phase} == 1`:   "",
		`{.digits} > 100`: "",
	} {
		e, err := parseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, doubt := e.Holds(status); doubt != want {
			t.Errorf("%s: doubt %q, want %q", text, doubt, want)
		}
	}
}

func TestExpressionActual(t *testing.T) {
	status := statusOf(t, sample)
	for text, want := range map[string]string{
		`{.succeeded} == 2`:                  ".succeeded is 1",
		`{$.status.missing.too} == 2`:        ".status.missing.too is not set",
		`{.list[*]} == 2`:                    "it is 1, 5, x",
		`{.half} == 2`:                       ".half is 0.5",
		`{.none[?(@.type=="a.b]")].at} == 2`: "at is not set",
		`{.a['b.c']} == 2`:                   "it is not set",
	} {
		e, err := parseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Actual(status); got != want {
			t.Errorf("%s: actual %q, want %q", text, got, want)
		}
	}
}

func TestParseExpressionErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                               "path in braces",
		`.succeeded == 1`:                "path in braces",
		`succeeded==1`:                   "path in braces",
		`{.succeeded == 1`:               "no closing brace after the path; add one",
		`{.a["} == 1`:                    "no closing \" in the path; add one",
		`{} == 1`:                        "names no field",
		`{.} == 1`:                       "names no field",
		`{.status} == 1`:                 "names no field",
		`{succeeded} == 1`:               "start with a dot",
		`{"x"} == 1`:                     "start with a dot",
		`{.a} 1`:                         "== != < <= > >=",
		`{.a}`:                           "== != < <= > >=",
		`{.a} = 1`:                       `unknown operator "="; use ==`,
		`{.a}=1`:                         `unknown operator "="; use ==`,
		`{.a} is 1`:                      `unknown operator "is"; use ==`,
		`{.a} island`:                    "no operator after {.a}; add one of == != < <= > >=",
		`{.a} ne 1`:                      `unknown operator "ne"; use !=`,
		`{.a} <> 1`:                      `unknown operator "<>"; use !=`,
		`{.a} => 1`:                      `unknown operator "=>"; use >=`,
		`{.a} =~ x`:                      `unknown operator "=~"; use == or !=; patterns are not supported`,
		`{.a} ==`:                        "no value after ==; add one, for example {.a} == 1",
		`{.a} === 1`:                     `unknown operator "==="; use ==`,
		`{.a} == {"b":1}`:                "write a string, a number, true or false",
		`{.a} == [1]`:                    "write a string, a number, true or false",
		`{.a} == "b`:                     "no closing quote",
		`{.a} == "b" or 1`:               "not one quoted string",
		`{.a[} == 1`:                     "invalid JSONPath {.a[}: unterminated array; close it with ]",
		`{.a[x]} == 1`:                   "invalid JSONPath",
		`{.a[?(@.b==1} == 1`:             "unterminated filter; close it with )], for example {.",
		`{.a[?(@.b==c)]} == 1`:           "quoted value",
		`{.a 5} == 1`:                    "{.a 5}: 5 found where a field is needed",
		`{.a 1.5} == 1`:                  "{.a 1.5}: 1.5 found where a field is needed",
		`{.a "x"} == 1`:                  `{.a "x"}: "x" found where a field is needed`,
		`{.a true} == 1`:                 "{.a true}: true found where a field is needed",
		`{.a}{.b} == 1`:                  "== != < <= > >=",
		`{range .items[*]}{.a}{end} > 1`: "start with a dot",
	} {
		_, err := parseExpression(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// FuzzExpression looks for texts or statuses that make the parser or the JSONPath
// library panic, and checks the invariants of every expression.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		`{.succeeded} == 1`, `{.conditions[?(@.type=="Ready")].status} == "True"`, `{..a[*]} != x`,
		`{.a[0:2:1]['b',"c"]} <= -1.5e3`, `{.a\.b} == 'it''s'`, `{.a[?(@.b)]} > 0`, `{.a[-1:]}==true`,
	} {
		f.Add(text, sample)
	}
	f.Fuzz(func(t *testing.T, text, data string) {
		e, err := parseExpression(text)
		if err != nil {
			return
		}
		again, err := parseExpression(e.String())
		if err != nil || again.String() != e.String() {
			t.Fatalf("%q does not parse again: %v", e, err)
		}
		if holds, doubt := e.Holds(nil); holds || doubt != "" {
			t.Fatalf("%q is true without a status", e)
		}
		var status map[string]any
		if json.Unmarshal([]byte(data), &status) != nil {
			return
		}
		first, _ := e.Holds(status)
		second, _ := again.Holds(status)
		if first != second {
			t.Fatalf("%q is not deterministic", e)
		}
		e.Actual(status)
	})
}
