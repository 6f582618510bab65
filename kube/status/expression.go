package status

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Expression is one entry of a readiness annotation (R23):
//
//	{<jsonpath>} <op> <value>
//
// The path starts at the object's .status; a leading .status, $ or @ is allowed. The operators are == != < <= > >=.
// The value is a string, bare or in quotes of either kind, a number or a boolean.
//
// A path can match several values, through a filter, [*] or ..; one that satisfies the comparison is enough. If it
// matches nothing, or only null, objects and lists, the expression is false, even with !=.
//
// Two values are compared as numbers if one is a number and the other can be parsed as one, so
// 1 == 1.0 and the string "3" == 3; otherwise as text, so true == "true", and the string "1.10"
// is not "1.1" in quotes. An ordering operator without a number on both sides is false.
type Expression struct {
	text string
	path *jsonpath.JSONPath
	op   string
	want literal
}

// literal is the value on the right of an expression. If it is quoted, it is text, unless it is compared with a number.
type literal struct {
	text   string
	quoted bool
}

func parseExpression(text string) (Expression, error) {
	text = strings.TrimSpace(text)
	path, rest, err := splitPath(text)
	if err != nil {
		return Expression{}, err
	}
	e := Expression{text: text}
	if e.path, err = parsePath(path); err != nil {
		return Expression{}, err
	}
	rest = strings.TrimSpace(rest)
	if fix := mistakenOperators[signs.FindString(rest)]; fix != "" {
		return Expression{}, fmt.Errorf("unknown operator %q; use %s", signs.FindString(rest), fix)
	}
	if e.op = operator.FindString(rest); e.op == "" {
		return Expression{}, fmt.Errorf("no operator after {%s}; add one of == != < <= > >= and a value, for example {%[1]s} == 1", path)
	}
	value := strings.TrimSpace(rest[len(e.op):])
	if value == "" {
		return Expression{}, fmt.Errorf("no value after %s; add one, for example {%s} %[1]s 1", e.op, path)
	}
	if e.want, err = parseLiteral(value); err != nil {
		return Expression{}, err
	}
	return e, nil
}

var (
	// operator matches the operator after a path.
	operator = regexp.MustCompile(`^(==|!=|<=|>=|<|>)`)
	// signs matches whatever stands in place of an operator.
	signs = regexp.MustCompile(`^([=!<>~]+|is\b|eq\b|ne\b|lt\b|le\b|gt\b|ge\b)`)
)

// mistakenOperators maps operators of other languages to those of an Expression.
var mistakenOperators = map[string]string{
	"=": "==", "===": "==", "is": "==", "eq": "==", "!": "!=", "!==": "!=", "<>": "!=", "ne": "!=",
	"lt": "<", "le": "<=", "=<": "<=", "gt": ">", "ge": ">=", "=>": ">=",
	"~": "== or !=; patterns are not supported", "=~": "== or !=; patterns are not supported", "!~": "== or !=; patterns are not supported",
}

// String returns the expression as it was written.
func (e Expression) String() string { return e.text }

func (e Expression) ordering() bool { return e.op[0] == '<' || e.op[0] == '>' }

// Holds reports whether the expression is true for an object's status. If it is false, doubt describes an ordering
// comparison with something that is not a number, if there was one.
//
// Rule R23: expressions read .status, and one that cannot be decided is false.
func (e Expression) Holds(status map[string]any) (holds bool, doubt string) {
	for _, v := range e.find(status) {
		if e.ordering() {
			c, ok := compareNumbers(v, e.want)
			if !ok {
				doubt = e.notANumber(v)
				continue
			}
			if e.satisfied(c) {
				return true, ""
			}
		} else if equal(v, e.want) == (e.op == "==") {
			return true, ""
		}
	}
	return false, doubt
}

// notANumber describes an ordering comparison with something that is not a number.
func (e Expression) notANumber(v any) string {
	if _, ok := parseNumber(e.want.text); !ok {
		return fmt.Sprintf("%s compares numbers, but %q is not a number", e.text, CleanText(e.want.text))
	}
	return fmt.Sprintf("%s compares numbers, but found %q", e.text, CleanText(scalarText(v)))
}

// Actual describes the values that the path matches: ".phase is Broken", or ".status.phase is not set"
// if it matches no string, number or boolean.
func (e Expression) Actual(status map[string]any) string {
	var values []string
	for _, v := range e.find(status) {
		values = append(values, scalarText(v))
	}
	if len(values) == 0 {
		field := e.field()
		if strings.HasPrefix(field, ".") { // a whole path
			field = ".status" + field
		}
		return field + " is not set"
	}
	return CleanText(e.field() + " is " + strings.Join(values, ", "))
}

// withValue returns the expression, which is true, and the value that the path matches, unless the expression has it.
func (e Expression) withValue(status map[string]any) string {
	if e.op == "==" {
		return e.text
	}
	return e.text + " (" + e.Actual(status) + ")"
}

// field returns the end of the path, after the last index or filter: "status". Without these it returns the whole path:
// ".phase".
func (e Expression) field() string {
	path, _, _ := splitPath(e.text) // parseExpression checked it
	last := strings.LastIndexAny(path, "]$@*")
	whole := last < 0 || path[last] == '$'
	path = strings.TrimLeft(strings.TrimPrefix(path[last+1:], ".status."), ".")
	switch {
	case path == "":
		return "it"
	case whole:
		return "." + path
	}
	return path
}

// satisfied reports whether an ordering operator is true for the result of cmp.Compare.
func (e Expression) satisfied(c int) bool {
	switch e.op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// find returns the strings, numbers and booleans that the path matches. If the library returns an error, for example for
// an index out of range or a filter on something that is not a list, nothing matches.
func (e Expression) find(status map[string]any) []any {
	if status == nil {
		return nil
	}
	results, err := e.path.FindResults(status)
	if err != nil {
		return nil
	}
	var found []any
	for _, r := range results {
		for _, v := range r {
			if v.IsValid() && v.CanInterface() && isScalar(v.Interface()) {
				found = append(found, v.Interface())
			}
		}
	}
	return found
}

func isScalar(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

func scalarText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// Unquoted calls visit with each byte of an expression that is neither in quotes nor escaped, until visit returns false. It
// returns the quote that is still open, 0 for none.
func Unquoted(text string, visit func(i int, c byte) bool) (quote byte) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case !visit(i, c):
			return 0
		}
	}
	return quote
}

// splitPath splits "{path} rest" at the closing brace. Braces in quotes are part of the path:
// {.conditions[?(@.type=="}")].status}.
func splitPath(text string) (path, rest string, err error) {
	if !strings.HasPrefix(text, "{") {
		return "", "", errors.New("no path in braces at its start; write one, for example {.succeeded} == 1")
	}
	end := 0
	quote := Unquoted(text, func(i int, c byte) bool {
		if c == '}' {
			end = i
		}
		return end == 0
	})
	if end > 0 {
		return strings.TrimSpace(text[1:end]), text[end+1:], nil
	}
	if quote != 0 {
		return "", "", fmt.Errorf("no closing %c in the path; add one", quote)
	}
	return "", "", errors.New("no closing brace after the path; add one, for example {.succeeded} == 1")
}

// relativePath returns a path relative to .status.
func relativePath(path string) string {
	rel := strings.TrimLeft(path, "$@")
	if after, ok := strings.CutPrefix(rel, ".status"); ok && (after == "" || after[0] == '.' || after[0] == '[') {
		rel = after
	}
	return rel
}

// parsePath compiles a path relative to .status.
func parsePath(path string) (*jsonpath.JSONPath, error) {
	rel := relativePath(path)
	if rel == "" || rel == "." {
		return nil, fmt.Errorf("{%s} names no field; name one, for example {.succeeded}", path)
	}
	if rel[0] != '.' && rel[0] != '[' {
		return nil, fmt.Errorf("the path {%s} must start with a dot, for example {.succeeded}", path)
	}
	parsed, err := jsonpath.Parse("status", "{"+rel+"}")
	if err != nil {
		return nil, fmt.Errorf("invalid JSONPath {%s}: %w%s", path, err, jsonPathHints[err.Error()])
	}
	if len(parsed.Root.Nodes) != 1 {
		return nil, fmt.Errorf("{%s} is more than one JSONPath; write an expression for each", path)
	}
	if err := checkNode(parsed.Root, false); err != nil {
		return nil, fmt.Errorf("{%s}: %w", path, err)
	}
	j := jsonpath.New("status").AllowMissingKeys(true)
	return j, j.Parse("{" + rel + "}")
}

// jsonPathHints say what to write, by the errors of the JSONPath parser about a missing end.
var jsonPathHints = map[string]string{
	"unterminated filter":     `; close it with )], for example {.conditions[?(@.type=="Ready")].status}`,
	"unclosed array expect ]": `; close the filter with )], for example {.conditions[?(@.type=="Ready")].status}`,
	"unterminated array":      `; close it with ], for example {.items[0].name}`,
}

// checkNode returns an error for paths that the library parses but that fail later or never match: constants outside
// filters, unquoted words, range and end.
func checkNode(node jsonpath.Node, allowConstants bool) error {
	constant := ""
	switch n := node.(type) {
	case *jsonpath.ListNode:
		return checkNodes(n.Nodes, allowConstants)
	case *jsonpath.UnionNode:
		return checkNodes(n.Nodes, allowConstants)
	case *jsonpath.FilterNode:
		return cmp.Or(checkNode(n.Left, true), checkNode(n.Right, true))
	case *jsonpath.IdentifierNode:
		return fmt.Errorf("%q found where a field or a quoted value is needed", n.Name)
	case *jsonpath.TextNode:
		constant = strconv.Quote(n.Text)
	case *jsonpath.IntNode:
		constant = fmt.Sprint(n.Value)
	case *jsonpath.FloatNode:
		constant = fmt.Sprint(n.Value)
	case *jsonpath.BoolNode:
		constant = fmt.Sprint(n.Value)
	}
	if constant != "" && !allowConstants {
		return fmt.Errorf("%s found where a field is needed", constant)
	}
	return nil
}

func checkNodes[N jsonpath.Node](nodes []N, allowConstants bool) error {
	for _, n := range nodes {
		if err := checkNode(n, allowConstants); err != nil {
			return err
		}
	}
	return nil
}

// parseLiteral parses a value that is not empty.
func parseLiteral(s string) (literal, error) {
	switch s[0] {
	case '"', '\'':
		text, err := jsonpath.UnquoteExtend(s)
		switch {
		case err == nil:
			return literal{text: text, quoted: true}, nil
		case strings.Count(s, s[:1]) == 1:
			return literal{}, fmt.Errorf("no closing quote in %s; add one", s)
		}
		return literal{}, fmt.Errorf("%s is not one quoted string; escape quotes in it with \\, and write nothing after it", s)
	case '{', '[':
		return literal{}, fmt.Errorf("cannot compare with %s; write a string, a number, true or false", s)
	case '=', '<', '>', '!':
		return literal{}, fmt.Errorf("unexpected %s after the operator; put a value that starts with it in quotes", s[:1])
	}
	return literal{text: s}, nil
}

// equal compares v with want: as numbers if one of them is a number and the other can be parsed as one, otherwise as text.
func equal(v any, want literal) bool {
	n, isNumber, ok := toNumber(v)
	m, wantOK := parseNumber(want.text)
	if ok && wantOK && (isNumber || !want.quoted) {
		return n.compare(m) == 0
	}
	return scalarText(v) == want.text
}
