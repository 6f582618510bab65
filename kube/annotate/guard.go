package annotate

import (
	"regexp"
	"strings"
)

// guard is a condition around an action that prints annotations, so that annotations beside it are valid YAML if it prints
// an empty mapping. It changes nothing else: the action stays as it is.
type guard struct {
	condition string
	at, end   int      // offsets where the condition starts and ends: of lines, or at of the action if inline is set
	inline    bool     // the action is on the line of "annotations:"
	value     []string // the path of the value that it prints, nil if it prints something else
}

var (
	indentEnd  = regexp.MustCompile(`\s*\|\s*n?indent\s+\d+\s*$`)
	toYaml     = regexp.MustCompile(`^toYaml\s+([$.][\w.$]*)$`)
	toYamlPipe = regexp.MustCompile(`^([$.][\w.$]*)\s*\|\s*toYaml$`)
	valuePath  = regexp.MustCompile(`^\$?\.Values\.([\w.]+)$`)
)

// guard returns the guard of an action in line i, or nil if it cannot have one. inline is the offset after "annotations:" if
// the action is on that line, else -1.
func (t *text) guard(i int, a *action, inline int) []guard {
	printed := indentEnd.ReplaceAllString(a.inner, "")
	if !a.isPlain() || strings.Contains(a.inner, ":=") || i+1 >= len(t.lines) && !strings.HasSuffix(t.raw, "\n") {
		return nil
	}
	g := guard{condition: "fromYaml (" + printed + ")", at: t.lines[i].start, end: t.nextLine(i), inline: inline >= 0}
	if g.inline {
		g.at = inline
	}
	for _, simple := range []*regexp.Regexp{toYaml, toYamlPipe} {
		if m := simple.FindStringSubmatch(printed); m != nil {
			g.condition = m[1]
			if v := valuePath.FindStringSubmatch(m[1]); v != nil {
				g.value = strings.Split(v[1], ".")
			}
		}
	}
	return []guard{g}
}

// insertions returns the lines around the action. indent is that of its annotations.
func (g guard) insertions(indent, eol string) []insertion {
	open := indent + "{{- if " + g.condition + " }}"
	if !g.inline {
		open += eol
	}
	return []insertion{{g.at, open}, {g.end, indent + "{{- end }}" + eol}}
}
