package charts

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
)

var (
	recursion   = regexp.MustCompile(`rendering template has a nested reference name: (.*): unable to execute template`)
	executingAt = regexp.MustCompile(`template: ([^\s"]+:\d+:\d+):?\s+executing `)
)

// shortenRecursion replaces Helm's error about a template that includes itself, which lists about 1,000
// calls, with the position of the last include in the chart and advice.
func shortenRecursion(text string) string {
	name := recursion.FindStringSubmatch(text)
	if name == nil {
		return text
	}
	for _, m := range slices.Backward(executingAt.FindAllStringSubmatch(text, -1)) {
		if !strings.HasPrefix(m[1], "gotpl:") { // not in a tpl
			before, _, _ := strings.Cut(text, "template: ")
			return fmt.Sprintf("%s%s: template %q includes itself; remove the include", before, m[1], name[1])
		}
	}
	return text
}

var (
	// nilValue matches an error about a field of a value that is not set, notMap one about a field of
	// a value that is not a map.
	nilValue = regexp.MustCompile(`at <([^>]*)>:\s+nil pointer evaluating interface \{\}\.(\w+)`)
	notMap   = regexp.MustCompile(`at <([^>]*)>:\s+can't evaluate field (\w+) in type interface \{\}`)
	// noTemplate and undefinedTemplate match errors of include and template.
	noTemplate        = regexp.MustCompile(`(?:template: )?no template ("[^"]*") associated with template "gotpl"`)
	undefinedTemplate = regexp.MustCompile(`template ("[^"]*") not defined`)
	brokenLine        = regexp.MustCompile(`(error calling include:)\s+(no template )`)
	// invalidSchema matches Helm's error about a schema that is not JSON, incompatible its error about
	// a kubeVersion.
	invalidSchema = regexp.MustCompile(`(?s)values don't meet the specifications of the schema\(s\) in the following chart\(s\):\n` +
		`(?:.*\n)?([^\s:]+):\n((?:unexpected )?EOF\b|invalid character [^\n]*).*`)
	// schemaChart matches the line with a chart's name in Helm's list of values that violate a schema,
	// schemaPath the path of a value, such as "- at '/db/port': ", combination the name of a violated
	// combination of schemas.
	schemaChart = regexp.MustCompile(`^([^\s:]+):$`)
	schemaPath  = regexp.MustCompile(`^- at '([^']*)': `)
	combination = regexp.MustCompile(`'(allOf|anyOf|oneOf)' failed`)
	// bound matches the violation of a limit.
	bound        = regexp.MustCompile(`\b(min|max|exclusiveMin|exclusiveMax)(imum|Length|Items|Properties): got (\S+), want (\S+)$`)
	incompatible = regexp.MustCompile(`chart requires kubeVersion: (.*) which is incompatible with Kubernetes (\S+)`)
)

// The advice of ExplainError for a chart that requires another version of Kubernetes. $2 is the version
// that it is rendered for.
const (
	WrongClusterVersion = "the cluster runs $2; use another version of the chart"
	WrongVersionFlag    = "is rendered for $2; set another with --kube-version, or use another version of the chart"
)

// templateRefusal matches Helm's error about a template that called required or fail.
var templateRefusal = regexp.MustCompile(`(?s)execution error at \((.*?)\): (.*)`)

// RefusedByTemplate reports whether a rendering failed because a template called required or fail, where, and with which
// message. "helm lint" ignores these calls.
func RefusedByTemplate(err error) (where, message string, refused bool) {
	if err == nil {
		return "", "", false
	}
	m := templateRefusal.FindStringSubmatch(err.Error())
	if m == nil {
		return "", "", false
	}
	return m[1], strings.TrimSpace(m[2]), true
}

// RequiresVersion reports whether a rendering failed because a chart requires another version of Kubernetes, which "helm lint" does not
// check.
func RequiresVersion(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if incompatible.MatchString(err.Error()) {
			return true
		}
	}
	return false
}

// ExplainError adds advice to a rendering error about a missing value, a missing or recursive template, an
// invalid schema or the version of Kubernetes, and says which of the outputs is not a manifest. chart is the
// name of the root chart, wrongVersion is WrongClusterVersion or WrongVersionFlag.
func ExplainError(err error, outputs Outputs, chart, wrongVersion string) error {
	if err == nil {
		return nil
	}
	text := shortenRecursion(err.Error())
	if m := nilValue.FindStringSubmatch(text); m != nil {
		if parent := parentOf(m[1], m[2]); parent != "" {
			text += fmt.Sprintf("; %s is not set%s", parent, howToSet(text, parent, m[2]))
		}
	} else if m := notMap.FindStringSubmatch(text); m != nil {
		if parent := parentOf(m[1], m[2]); strings.HasPrefix(parent, ".Values.") {
			text += fmt.Sprintf("; %s must be a map", parent)
		}
	}
	text = invalidSchema.ReplaceAllString(text, "values.schema.json of $1: invalid JSON: $2")
	text = explainInvalidValues(text, chart)
	text = outputs.explainNotManifest(text, chart)
	text = incompatible.ReplaceAllString(text, "this version of the chart requires Kubernetes $1, but "+wrongVersion)
	const fix = "no template $1; define it or correct the name"
	text = undefinedTemplate.ReplaceAllString(noTemplate.ReplaceAllString(text, fix), fix)
	text = brokenLine.ReplaceAllString(text, "$1 $2")
	if text == err.Error() {
		return err
	}
	return &cleanError{text, err}
}

// invalidValues is the heading of Helm's list of values that violate the schemas of charts.
const invalidValues = "values don't meet the specifications of the schema(s) in the following chart(s):\n"

// explainInvalidValues rewords that list, names the values as --set does, and adds how to fix them. root is
// the name of the root chart.
func explainInvalidValues(text, root string) string {
	before, list, ok := strings.Cut(text, invalidValues)
	if !ok {
		return text
	}
	violations := violationsIn(list, root)
	if len(violations) == 1 {
		return before + "the values violate values.schema.json: " + violations[0] + "; correct them with -f or --set"
	}
	var b strings.Builder
	for _, v := range violations {
		indent := indentOf(v)
		fmt.Fprintf(&b, "\n%s- %s", v[:indent], v[indent:])
	}
	return before + "the values violate values.schema.json; correct these values:" + b.String()
}

// violationsIn returns the violations in Helm's list. Nested ones are indented.
func violationsIn(list, root string) (violations []string) {
	subchart := ""
	var dropped []int // the indentation of the omitted combinations around the line
	lines := strings.Split(strings.TrimRight(list, "\n"), "\n")
	for i, line := range lines {
		if m := schemaChart.FindStringSubmatch(line); m != nil {
			subchart, dropped = "", nil
			if m[1] != root {
				subchart = "subchart " + m[1] + ": "
			}
			continue
		}
		indent := indentOf(line)
		for len(dropped) > 0 && indent <= dropped[len(dropped)-1] {
			dropped = dropped[:len(dropped)-1]
		}
		text := line[indent:]
		if m := schemaPath.FindStringSubmatch(text); m != nil {
			text = text[len(m[0]):]
			if (text == "'allOf' failed" || text == "validation failed") && i+1 < len(lines) && indentOf(lines[i+1]) > indent {
				dropped = append(dropped, indent)
				continue // the nested violations say what is wrong
			}
			if path := strings.ReplaceAll(strings.TrimPrefix(m[1], "/"), "/", "."); path != "" {
				text = path + ": " + text
			}
		}
		text = combination.ReplaceAllString(rewordBound(text), "$1 is violated")
		if indent -= 2 * len(dropped); indent == 0 {
			text = subchart + text
		}
		violations = append(violations, strings.Repeat(" ", indent)+text)
	}
	return violations
}

// rewordBound rewords a violation such as "exclusiveMinimum: got 0, want 0".
func rewordBound(violation string) string {
	m := bound.FindStringSubmatch(violation)
	if m == nil {
		return violation
	}
	limit, size := "at least ", map[string]string{"Length": "characters", "Items": "items", "Properties": "properties"}[m[2]]
	switch {
	case m[1] == "exclusiveMin":
		limit = "greater than "
	case m[1] == "exclusiveMax":
		limit = "less than "
	case m[1] == "max":
		limit = "at most "
	}
	have, is := "must be ", "but is "
	if m[4] == "1" {
		size = map[string]string{"characters": "character", "items": "item", "properties": "property"}[size]
	}
	if size != "" {
		have, is, size = "must have ", "but has ", " "+size
	}
	return bound.ReplaceAllLiteralString(violation, have+limit+m[4]+size+", "+is+m[3])
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// fieldPath matches a path of fields in an expression: ".Values.a.b" or "$x.a".
var fieldPath = regexp.MustCompile(`[.$][\w.$]*`)

// parentOf returns the path before a field in an expression: ".Values.x" for the field y of
// ".Values.x.y.z". It returns "" unless the expression contains the field exactly once.
func parentOf(expression, field string) (parent string) {
	for _, path := range fieldPath.FindAllString(expression, -1) {
		names := strings.Split(path, ".")
		for i, name := range names {
			if name != field || i == 0 || strings.Join(names[:i], ".") == "" {
				continue
			}
			if parent != "" {
				return ""
			}
			parent = strings.Join(names[:i], ".")
		}
	}
	return parent
}

// howToSet returns the flag that sets a value of the root chart, given the error about it.
func howToSet(text, parent, field string) string {
	path, ok := strings.CutPrefix(strings.TrimPrefix(parent, "$"), ".Values.")
	if !ok || strings.Contains(text, "/charts/") { // the values of a subchart are below its name or alias
		return ""
	}
	return fmt.Sprintf("; set it, for example with --set %s.%s=VALUE", path, field)
}

// notManifest matches Helm's error about a document that is not a manifest: its template, and the parser's error.
var notManifest = regexp.MustCompile(`(?s)^YAML parse error on (.*?): (.*)$`)

// explainNotManifest says in such an error which document of the template's output is wrong, and why. Helm counts
// the lines within that document. root is the name of the root chart.
func (o Outputs) explainNotManifest(text, root string) string {
	m := notManifest.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	file, cause := strings.TrimPrefix(m[1], root+"/"), m[2]
	doc, number := o.findBroken(m[1], cause)
	which := "a document of the rendered template"
	if number > 0 {
		which = fmt.Sprintf("document %d of the rendered template", number)
	}
	if field, message := documents.TypeError(errors.New(cause)); message != "" {
		if field != "" {
			which = field + " of " + which
		}
		return file + ": " + which + " " + message
	}
	line, message := documents.SyntaxError([]byte(doc), errors.New(cause))
	switch {
	case line > 0 && number > 0:
		which += fmt.Sprintf(", line %d of that document", line)
	case line > 0:
		which = fmt.Sprintf("line %d of %s", line, which)
	}
	return file + ": invalid YAML in " + which + ": " + message
}

// findBroken returns the first document of a template's output that causes the parser's error, and its number, from 1.
// It returns 0 if a post-renderer broke the document.
func (o Outputs) findBroken(file, cause string) (doc string, number int) {
	for _, out := range o {
		if out.name != file {
			continue
		}
		for i, doc := range documents.Split(out.text) {
			var head releaseutil.SimpleHead
			if err := yaml.Unmarshal([]byte(doc), &head); err != nil && err.Error() == cause {
				return doc, i + 1
			}
		}
	}
	return "", 0
}

type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }
