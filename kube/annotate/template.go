package annotate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// action is an action of a template, from {{ to }}.
type action struct {
	start, end int    // offsets of the first brace and after the last
	word       string // if, with, range, define, block, else, else if, end, or ""
	inner      string // the text after the word, without the dashes and white space at its ends
}

// isComment reports whether an action prints nothing.
func (a *action) isComment() bool { return strings.HasPrefix(a.inner, "/*") }

// isPlain reports whether the text of an action can be repeated on one line.
func (a *action) isPlain() bool {
	return !strings.Contains(a.inner, "/*") && !strings.Contains(a.inner, "\n")
}

// branch is a conditional or repeated part of a template: the body of an if, with, range or
// else. The top branch has no chain.
type branch struct {
	above *branch
	chain *chain
}

// chain is an if, with, range, define or block with all its branches.
type chain struct {
	word      string
	open, end *action
	branches  []*branch
	hasElse   bool // an else without a condition
}

// in reports whether a branch, or one around it, belongs to one of the given words.
func (b *branch) in(words ...string) bool {
	for ; b.chain != nil; b = b.above {
		if slices.Contains(words, b.chain.word) {
			return true
		}
	}
	return false
}

// below returns the child of top that contains b, nil if there is none.
func (b *branch) below(top *branch) *branch {
	for ; b.chain != nil; b = b.above {
		if b.above == top {
			return b
		}
	}
	return nil
}

// line is one line of a template.
type line struct {
	start, end int       // offsets; end is before the line end
	bare       string    // the text without actions and trailing white space
	text       string    // bare without leading spaces
	actions    []*action // that start on the line
	at         *branch   // of its first character that is not white space
	inside     bool      // the line starts inside an action
}

// text is a template split into lines.
type text struct {
	raw   string
	lines []line
}

// parse splits a template into lines and branches. ok is false if the actions are not well-formed.
func parse(raw string) (t *text, ok bool) {
	actions, ok := scan(raw)
	if !ok {
		return nil, false
	}
	top := &branch{}
	branches, ok := nest(top, actions)
	if !ok {
		return nil, false
	}
	return &text{raw, splitLines(raw, top, actions, branches)}, true
}

// scan returns the actions of a template. ok is false if an action is not closed.
func scan(raw string) (actions []*action, ok bool) {
	for at := 0; ; {
		i := strings.Index(raw[at:], "{{")
		if i < 0 {
			return actions, true
		}
		start := at + i
		end := actionEnd(raw, start+2)
		if end < 0 {
			return nil, false
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(raw[start+2:end-2], "-"), "-")
		word, inner := keyword(strings.TrimSpace(inner))
		actions = append(actions, &action{start, end, word, inner})
		at = end
	}
}

var commentStart = regexp.MustCompile(`^-?\s*/\*`)

// actionEnd returns the offset after the closing braces of the action whose text starts at from, or
// -1.
func actionEnd(raw string, from int) int {
	if commentStart.MatchString(raw[from:]) {
		closed := strings.Index(raw[from:], "*/")
		if closed < 0 {
			return -1
		}
		from += closed + 2
	}
	quote := byte(0)
	for i := from; i < len(raw); i++ {
		switch c := raw[i]; {
		case quote == 0 && strings.HasPrefix(raw[i:], "}}"):
			return i + 2
		case quote == 0 && (c == '"' || c == '`' || c == '\''):
			quote = c
		case c == '\\' && quote != 0 && quote != '`':
			i++
		case c == quote:
			quote = 0
		}
	}
	return -1
}

// keyword splits the text of an action after its first word, if that starts or ends a branch; else the word is "".
func keyword(inner string) (word, rest string) {
	end := strings.IndexFunc(inner, func(r rune) bool { return r < 'a' || r > 'z' })
	if end < 0 {
		end = len(inner)
	}
	word, rest = inner[:end], strings.TrimSpace(inner[end:])
	switch word {
	case "if", "with", "range", "define", "block", "end":
		return word, rest
	case "else":
		if rest != "" {
			return "else if", rest
		}
		return word, rest
	}
	return "", inner
}

// nest returns the branch that follows each action. ok is false if the branches are not balanced.
func nest(top *branch, actions []*action) (after []*branch, ok bool) {
	now := top
	for _, a := range actions {
		switch a.word {
		case "if", "with", "range", "define", "block":
			now = (&chain{word: a.word, open: a}).branch(now)
		case "else", "else if":
			if now.chain == nil || now.chain.hasElse {
				return nil, false
			}
			now.chain.hasElse = a.word == "else"
			now = now.chain.branch(now.above)
		case "end":
			if now.chain == nil {
				return nil, false
			}
			now.chain.end = a
			now = now.above
		}
		after = append(after, now)
	}
	return after, now.chain == nil
}

func (c *chain) branch(above *branch) *branch {
	b := &branch{above, c}
	c.branches = append(c.branches, b)
	return b
}

// splitLines splits a template into lines. branches are those that follow each action.
func splitLines(raw string, top *branch, actions []*action, branches []*branch) []line {
	var lines []line
	next, inside, now := 0, 0, top // inside is the end of the last action, now the branch of the line
	for start := 0; start < len(raw); {
		end, after := len(raw), len(raw)
		if i := strings.IndexByte(raw[start:], '\n'); i >= 0 {
			end, after = start+i, start+i+1
		}
		l := line{start: start, end: len(strings.TrimSuffix(raw[:end], "\r")), at: now, inside: inside > start}
		var bare strings.Builder
		from := max(start, min(inside, l.end))
		if strings.TrimSpace(raw[from:l.end]) != "" {
			l.at = nil // not known yet
		}
		seen := now
		for next < len(actions) && actions[next].start < l.end {
			a := actions[next]
			l.add(&bare, raw[from:a.start], seen)
			l.actions = append(l.actions, a)
			seen, inside = branches[next], a.end
			if l.at == nil && a.word == "" {
				l.at = seen
			}
			from = max(from, min(a.end, l.end))
			next++
		}
		l.add(&bare, raw[from:l.end], seen)
		l.at = cmp.Or(l.at, now)
		now = seen
		l.bare = strings.TrimRight(bare.String(), " \t")
		l.text = strings.TrimLeft(l.bare, " ")
		lines = append(lines, l)
		start = after
	}
	return lines
}

// add adds text of the line that is outside of actions and in a branch.
func (l *line) add(bare *strings.Builder, piece string, in *branch) {
	bare.WriteString(piece)
	if l.at == nil && strings.TrimSpace(piece) != "" {
		l.at = in
	}
}

// blank reports whether a line has only actions and comments.
func (l *line) blank() bool {
	rest := strings.TrimLeft(l.text, " \t")
	return l.inside || rest == "" || rest[0] == '#'
}

// key returns the key at the start of a line, which may follow the dash of a list item, with its column
// and the value after the colon.
func (l *line) key() (key, value string, column int, ok bool) {
	if l.blank() || len(l.actions) > 0 && l.actions[0].start <= l.start+l.indent() {
		return "", "", 0, false
	}
	rest := l.text
	for strings.HasPrefix(rest, "- ") {
		rest = strings.TrimLeft(rest[2:], " ")
	}
	column = len(l.bare) - len(rest)
	key, value, ok = strings.Cut(rest, ":")
	if !ok || key == "" || strings.ContainsAny(key, " \t\"'{}[]&*!") || value != "" && value[0] != ' ' {
		return "", "", 0, false
	}
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "#") {
		value = ""
	}
	return key, value, column, true
}

// indent returns the number of leading spaces of a line.
func (l *line) indent() int { return len(l.bare) - len(l.text) }

// isAction reports whether a line consists of one action.
func (l *line) isAction() bool {
	return !l.inside && len(l.actions) == 1 && l.bare == "" && l.actions[0].end <= l.end
}
