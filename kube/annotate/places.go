package annotate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// place is a place for annotations in a template: of one object or, in a range, of several.
type place struct {
	line  int    // of "metadata:", from 1
	kind  string // of the object, "" if it is not plain text
	holes []hole
	// when is the condition under which the place is rendered, "" for always. unknown is set if
	// the condition cannot be expressed.
	when    string
	unknown bool
	// refusal is why the place cannot be used, "" if it can.
	refusal string
}

// hole is an insertion point of a place. A place whose annotations are in several branches has several
// holes.
type hole struct {
	at     int    // offset of the line to insert before
	indent int    // of the annotations
	head   string // lines to insert before them, with line ends
	// guards are the actions that print the other annotations. They may print none.
	guards []guard
}

// The reasons why a place cannot be used.
const (
	byHelper      = "its annotations come from a helper or a value"
	notBlockStyle = "its annotations are not in block style"
	flowMetadata  = "its metadata is not in block style"
	noMetadata    = "its metadata is not written in the template"
)

var nindent = regexp.MustCompile(`\|\s*nindent\s+(\d+)\s*-?\}\}$`)

// places returns the places of a template, in the order of its lines.
func (t *text) places() []*place {
	var found []*place
	for i := range t.lines {
		key, value, column, ok := t.lines[i].key()
		if !ok || key != "metadata" || t.lines[i].at.in("define", "block") {
			continue
		}
		kind, ok := t.kind(i, column)
		if !ok {
			continue
		}
		p := &place{line: i + 1, kind: kind}
		p.when, p.unknown = t.condition(t.lines[i].at)
		switch {
		case len(t.lines[i].actions) > 0:
			p.refusal = noMetadata
		case value != "":
			p.refusal = flowMetadata
		default:
			t.addHoles(p, i, column)
		}
		found = append(found, p)
	}
	return found
}

// kind returns the kind of the object whose "metadata:" is in line i. ok is false if there is no
// "kind:" next to it, as in a pod template.
func (t *text) kind(i, column int) (kind string, ok bool) {
	for _, step := range []int{-1, 1} {
		for j := i; j >= 0 && j < len(t.lines); j += step {
			l := &t.lines[j]
			if l.blank() {
				continue
			}
			key, value, at, plain := l.key()
			item := plain && at > l.indent() // the first key of an item
			if strings.HasPrefix(l.bare, "---") || l.indent() < column && !(item && at == column) || item && step > 0 && j != i {
				break
			}
			if plain && at == column && key == "kind" {
				return value, true
			}
			if item && at == column && step < 0 {
				break
			}
		}
	}
	return "", false
}

// addHoles adds the holes of the place whose "metadata:" is in line i, or sets p.refusal.
func (t *text) addHoles(p *place, i, column int) {
	b := t.block(i, column)
	if b.column < 0 {
		p.refusal = noMetadata
		return
	}
	if len(b.annotations) == 0 {
		t.addNewBlock(p, i, b)
		return
	}
	at := t.lines[i].at
	if len(b.annotations) == 1 && t.lines[b.annotations[0]].at == at {
		t.addToBlock(p, b.annotations[0], b, false)
		return
	}
	t.addToBranches(p, at, b, b.annotations)
}

// block is the block of lines below a "metadata:".
type block struct {
	column      int   // of its keys, -1 if there are no plain ones
	end         int   // the line after it
	name        int   // the line of the name, -1 if it is in another branch
	annotations []int // the lines of "annotations:"
}

func (t *text) block(i, column int) block {
	b := block{column: -1, end: len(t.lines), name: -1}
	for j := i + 1; j < len(t.lines); j++ {
		l := &t.lines[j]
		if l.blank() {
			continue
		}
		if l.indent() <= column {
			b.end = j
			break
		}
		key, value, at, ok := l.key()
		if b.column < 0 && ok {
			b.column = at
		}
		switch {
		case !ok || at != b.column:
		case key == "annotations":
			b.annotations = append(b.annotations, j)
		case key == "name" && l.at == t.lines[i].at && b.name < 0 && t.closed(l) && !strings.HasPrefix(value, "|") && !strings.HasPrefix(value, ">"):
			b.name = j
		}
	}
	return b
}

// closed reports whether the last action of a line neither continues on the next line nor trims the
// line end.
func (t *text) closed(l *line) bool {
	if len(l.actions) == 0 {
		return true
	}
	last := l.actions[len(l.actions)-1]
	return last.end < l.end || last.end == l.end && !strings.HasSuffix(t.raw[:last.end], "-}}")
}

// addNewBlock adds a hole for a new annotations block after the name.
func (t *text) addNewBlock(p *place, i int, b block) {
	after := i
	if b.name >= 0 {
		after = b.name
	}
	p.holes = []hole{{at: t.nextLine(after), indent: b.column + 2, head: strings.Repeat(" ", b.column) + "annotations:" + t.eol(i)}}
}

// addToBlock adds a hole below the "annotations:" in line i. An action may produce the annotations only
// if there is always one: if guarded by a condition, or next to other lines.
func (t *text) addToBlock(p *place, i int, b block, guarded bool) {
	l := &t.lines[i]
	_, value, _, _ := l.key()
	h := hole{at: t.nextLine(i), indent: b.column + 2}
	if value != "" || !t.closed(l) {
		p.refusal = notBlockStyle
		return
	}
	if len(l.actions) > 0 { // annotations: {{ … | nindent 4 }}
		m := nindent.FindStringSubmatch(t.raw[l.start:l.end])
		if len(l.actions) > 1 || m == nil {
			p.refusal = byHelper
			return
		}
		h.indent = number(m[1])
		if !guarded {
			h.at, h.head = len(strings.TrimRight(t.raw[:l.actions[0].start], " ")), t.eol(i)
			h.guards = t.guard(i, l.actions[0], h.at)
		}
		p.addHole(h, guarded)
		return
	}
	hasLines, printing, first := t.scanBlock(i, b)
	if first >= 0 {
		h.indent = first
	}
	guarded = guarded || hasLines || len(printing) == 0
	if !guarded {
		for _, j := range printing {
			if !t.lines[j].isAction() {
				p.refusal = byHelper
				return
			}
			h.guards = append(h.guards, t.guard(j, t.lines[j].actions[0], -1)...)
		}
		if len(h.guards) < len(printing) {
			h.guards = nil
		}
	}
	p.addHole(h, guarded)
}

// addHole adds a hole. If nothing guarantees that the annotations there are never empty, the hole needs guards.
func (p *place) addHole(h hole, guarded bool) {
	if !guarded && h.guards == nil {
		p.refusal = byHelper
		return
	}
	p.holes = append(p.holes, h)
}

// scanBlock reports whether the annotations below the "annotations:" in line i contain plain lines. It returns the lines with
// actions that print something, and the indent of the first annotation, -1 if unknown.
func (t *text) scanBlock(i int, b block) (hasLines bool, printing []int, first int) {
	first = -1
	for j := i + 1; j < b.end; j++ {
		e := &t.lines[j]
		if !e.blank() && e.indent() <= b.column {
			break
		}
		if e.inside || e.at != t.lines[i].at {
			continue
		}
		if !e.blank() {
			hasLines = true
			if first < 0 {
				first = e.indent()
			}
			continue
		}
		for _, a := range e.actions {
			if a.prints() {
				printing = append(printing, j)
				if m := nindent.FindStringSubmatch(t.raw[a.start:a.end]); m != nil && first < 0 {
					first = number(m[1])
				}
			}
		}
	}
	return hasLines, printing, first
}

// addToBranches adds holes to annotations under a condition: in each branch, in nested conditions, and
// in a new else branch if there is none.
func (t *text) addToBranches(p *place, at *branch, b block, annotations []int) {
	var chain *chain
	inside := map[*branch][]int{}
	for _, i := range annotations {
		in := t.lines[i].at.below(at)
		if in == nil || chain != nil && in.chain != chain {
			p.refusal = byHelper
			return
		}
		chain = in.chain
		inside[in] = append(inside[in], i)
	}
	for _, in := range chain.branches {
		lines := inside[in]
		direct := slices.ContainsFunc(lines, func(i int) bool { return t.lines[i].at == in })
		switch {
		case len(lines) == 0, direct && len(lines) > 1:
			p.refusal = byHelper
		case direct:
			t.addToBlock(p, lines[0], b, true)
		default:
			t.addToBranches(p, in, b, lines)
		}
	}
	if p.refusal != "" {
		p.holes = nil
		return
	}
	end := t.lineOf(chain.end)
	if chain.word == "range" || !t.lines[end].isAction() || !t.lines[t.lineOf(chain.open)].isAction() {
		p.refusal, p.holes = byHelper, nil
		return
	}
	if chain.hasElse {
		return
	}
	margin := t.raw[t.lines[end].start:chain.end.start]
	eol := t.eol(end)
	p.holes = append(p.holes, hole{
		at: t.lines[end].start, indent: b.column + 2,
		head: margin + "{{- else }}" + eol + strings.Repeat(" ", b.column) + "annotations:" + eol,
	})
}

// lineOf returns the line in which an action starts.
func (t *text) lineOf(a *action) int {
	for i := range t.lines {
		if a.start <= t.lines[i].end {
			return i
		}
	}
	return len(t.lines) - 1
}

// nextLine returns the offset of the line after line i.
func (t *text) nextLine(i int) int {
	if i+1 < len(t.lines) {
		return t.lines[i+1].start
	}
	return len(t.raw)
}

// eol returns the line end of line i, or of the lines before it.
func (t *text) eol(i int) string { return eolOf(t.raw[:t.nextLine(i)]) }

// prints reports whether an action may print something: it is neither a comment nor an assignment.
func (a *action) prints() bool {
	return a.word == "" && !a.isComment() && !(strings.HasPrefix(a.inner, "$") && strings.Contains(a.inner, "="))
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the largest int if it is out of range
	return min(n, 100)
}
