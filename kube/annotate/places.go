package annotate

import (
	"regexp"
	"slices"
	"strings"
)

// place is where the annotations of what one stretch of a template makes can be
// written: of one object, or where that is in a range, of several.
type place struct {
	line  int    // of "metadata:", from 1
	kind  string // what stands beside it, where that is plain
	holes []hole
	// when is the condition under which it is rendered, empty for always, and
	// unsure set where it cannot be told.
	when   string
	unsure bool
	// refused tells why nothing can be written there, if so.
	refused string
}

// hole is one of the points of a place at which lines go in. A place has several
// where its annotations stand in several branches.
type hole struct {
	at     int    // the offset of the line that they go before
	indent int    // of the annotations
	head   string // lines that go before them, with line ends
}

// The reasons for which a place is refused.
const (
	byHelper = "its annotations come from a helper or a value"
	unplain  = "its annotations are not in block style"
)

var nindent = regexp.MustCompile(`\|\s*nindent\s+(\d+)\s*-?\}\}$`)

// places finds the places of a template, in the order of its lines.
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
		p.when, p.unsure = t.condition(t.lines[i].at)
		if value != "" || len(t.lines[i].actions) > 0 {
			p.refused = unplain
		} else {
			t.open(p, i, column)
		}
		found = append(found, p)
	}
	return found
}

// kind finds the kind that stands beside a "metadata:". That of a pod template
// has none.
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

// open finds the holes of the place whose "metadata:" stands in line i.
func (t *text) open(p *place, i, column int) {
	b := t.block(i, column)
	if b.column < 0 {
		p.refused = unplain
		return
	}
	if len(b.annotations) == 0 {
		t.add(p, i, b)
		return
	}
	at := t.lines[i].at
	if len(b.annotations) == 1 && t.lines[b.annotations[0]].at == at {
		t.fill(p, b.annotations[0], b, false)
		return
	}
	t.branches(p, at, b, b.annotations)
}

// block is what stands below a "metadata:".
type block struct {
	column      int   // of its keys, -1 where it has none that are written plainly
	end         int   // the line behind it
	name        int   // the line of the name, -1 where it is not in the same branch
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

// closed reports whether a line ends by itself: no action of it goes on below, or
// takes the line end away.
func (t *text) closed(l *line) bool {
	if len(l.actions) == 0 {
		return true
	}
	last := l.actions[len(l.actions)-1]
	return last.end < l.end || last.end == l.end && !strings.HasSuffix(t.raw[:last.end], "-}}")
}

// add makes room for annotations where there are none: behind the name.
func (t *text) add(p *place, i int, b block) {
	after := i
	if b.name >= 0 {
		after = b.name
	}
	p.holes = []hole{{at: t.behind(after), indent: b.column + 2, head: strings.Repeat(" ", b.column) + "annotations:" + t.eol(i)}}
}

// fill makes room below an "annotations:". What it holds may be made by an action
// only where that makes something: guarded by a condition, or beside other lines.
func (t *text) fill(p *place, i int, b block, guarded bool) {
	l := &t.lines[i]
	_, value, _, _ := l.key()
	h := hole{at: t.behind(i), indent: b.column + 2}
	if value != "" || !t.closed(l) {
		p.refused = unplain
		return
	}
	if len(l.actions) > 0 { // annotations: {{ … | nindent 4 }}
		m := nindent.FindStringSubmatch(t.raw[l.start:l.end])
		if !guarded || len(l.actions) > 1 || m == nil {
			p.refused = byHelper
			return
		}
		h.indent = number(m[1])
		p.holes = append(p.holes, h)
		return
	}
	plain, made, first := false, false, -1
	for j := i + 1; j < b.end; j++ {
		e := &t.lines[j]
		if !e.blank() && e.indent() <= b.column {
			break
		}
		if e.inside || e.at != l.at {
			continue
		}
		if !e.blank() {
			plain = true
			if first < 0 {
				first = e.indent()
			}
			continue
		}
		for _, a := range e.actions {
			if a.word == "" && !comment(t.raw[a.start:a.end]) && !assignment(t.raw[a.start:a.end]) {
				made = true
				if m := nindent.FindStringSubmatch(t.raw[a.start:a.end]); m != nil && first < 0 {
					first = number(m[1])
				}
			}
		}
	}
	if made && !plain && !guarded {
		p.refused = byHelper
		return
	}
	if first >= 0 {
		h.indent = first
	}
	p.holes = append(p.holes, h)
}

// branches makes room where the annotations in some lines are there under a condition
// only: in each branch of it, also in conditions inside of it, and where it has no else, in
// one of its own.
func (t *text) branches(p *place, at *branch, b block, annotations []int) {
	var chain *chain
	inside := map[*branch][]int{}
	for _, i := range annotations {
		in := t.lines[i].at.below(at)
		if in == nil || chain != nil && in.chain != chain {
			p.refused = byHelper
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
			p.refused = byHelper
		case direct:
			t.fill(p, lines[0], b, true)
		default:
			t.branches(p, in, b, lines)
		}
	}
	if p.refused != "" {
		p.holes = nil
		return
	}
	end := t.lineOf(chain.end)
	if chain.word == "range" || !t.lines[end].only() || !t.lines[t.lineOf(chain.open)].only() {
		p.refused, p.holes = byHelper, nil
		return
	}
	if chain.whole {
		return
	}
	margin := t.raw[t.lines[end].start:chain.end.start]
	eol := t.eol(end)
	p.holes = append(p.holes, hole{
		at: t.lines[end].start, indent: b.column + 2,
		head: margin + "{{- else }}" + eol + strings.Repeat(" ", b.column) + "annotations:" + eol,
	})
}

// lineOf returns the line that an action begins on.
func (t *text) lineOf(a *action) int {
	for i := range t.lines {
		if a.start <= t.lines[i].end {
			return i
		}
	}
	return len(t.lines) - 1
}

// behind returns the offset of the line after a line.
func (t *text) behind(i int) int {
	if i+1 < len(t.lines) {
		return t.lines[i+1].start
	}
	return len(t.raw)
}

// eol returns the line end that a line has, or the ones before it.
func (t *text) eol(i int) string {
	if end := t.lines[i].end; strings.HasPrefix(t.raw[end:], "\r") || strings.Contains(t.raw[:end], "\r\n") {
		return "\r\n"
	}
	return "\n"
}

func comment(action string) bool {
	return strings.HasPrefix(strings.TrimLeft(strings.TrimLeft(action, "{-"), " \t\r\n"), "/*")
}

// assignment reports whether an action sets a variable, and so prints nothing.
func assignment(action string) bool {
	return strings.HasPrefix(strings.TrimLeft(strings.TrimLeft(action, "{-"), " \t\r\n"), "$") && strings.Contains(action, "=")
}

func number(digits string) int {
	n := 0
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return min(n, 100)
}
