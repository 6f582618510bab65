package theme

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Mark is how a status looks: always a glyph, a word and a colour, because no single one of them works
// for everybody.
type Mark struct {
	Glyph string
	Word  string
	Role  Role
}

// marks is the table of statuses. Its keys are the statuses and changes of the event format, and the
// outcomes that screens and reports derive from them. Each ASCII sign stands for only one Unicode glyph,
// here and in Lines, except for lines and arrows. The Unicode glyphs are in DejaVu Sans Mono, and no
// terminal draws them as emoji two cells wide.
var marks = map[string]struct {
	glyph, ascii, word string
	role               Role
}{
	"":              {"○", ".", "waiting", Idle},
	"waiting":       {"○", ".", "waiting", Idle},
	"held":          {"‖", `"`, "paused", Stopped}, // a group at a breakpoint
	"paused":        {"‖", `"`, "paused", Stopped},
	"running":       {"◐", "o", "running", Busy},
	"applying":      {"◐", "o", "applying", Busy},
	"started":       {"◇", "^", "started", Quiet}, // a Job that is not complete (R22)
	"applied":       {"◇", "^", "applied", Quiet}, // not checked (R21)
	"in-progress":   {"◐", "o", "in progress", Busy},
	"degraded":      {"◑", "%", "degraded", Stopped}, // waiting will not help, or no longer ready
	"deleting":      {"◐", "o", "deleting", Busy},
	"aborting":      {"◐", "o", "aborting", Stopped},
	"replacing":     {"◐", "o", "replacing", Stopped},
	"rolling-back":  {"◐", "o", "rolling back", Stopped},
	"away":          {"!", "!", "API server unreachable", Stopped},
	"back":          {"✓", "v", "API server reachable again", Good},
	"ready":         {"✓", "v", "ready", Good},
	"gone":          {"✓", "v", "gone", Good},
	"succeeded":     {"✓", "v", "done", Good},
	"accepted":      {"✓", "v", "accepted", Good},
	"unchanged":     {"–", "=", "unchanged", Quiet},
	"kept":          {"–", "=", "kept", Quiet},
	"removed":       {"↩", "u", "deleted", Quiet},
	"rolled-back":   {"↩", "u", "rolled back", Quiet},
	"partly-undone": {"↩", "u", "partly rolled back", Stopped},
	"failed":        {"✗", "x", "failed", Bad},
	"refused":       {"✗", "x", "refused", Bad},
	"aborted":       {"✗", "x", "aborted", Stopped},
	"cut-off":       {"✗", "x", "killed", Stopped},
	"unwatched":     {"○", ".", "not watched", Idle},
	"slow":          {"!", "!", "slower than last time", Stopped},
	"no-return":     {"!", "!", "past the point of no return", Stopped},
	"skipped":       {"⊘", "/", "never started", Never},
	"set":           {"●", "*", "breakpoint", Stopped},
	"disabled":      {"○", ".", "breakpoint disabled", Idle},
	"cleared":       {"○", ".", "no breakpoint", Idle},
}

// Mark returns the mark of a status. The word for an unknown status is its name.
func (t *Theme) Mark(status string) Mark {
	m, ok := marks[status]
	if !ok {
		m.glyph, m.ascii, m.word, m.role = "?", "?", status, Quiet
	}
	if t.ASCII {
		m.glyph = m.ascii
	}
	return Mark{Glyph: m.glyph, Word: m.word, Role: m.role}
}

// HeldFailure returns the mark of a run that is held because a group failed.
func (t *Theme) HeldFailure() Mark {
	m := t.Mark("failed")
	m.Word = "held"
	return m
}

// MayBeStatus reports whether lower-case text is part of a status or of the word for one.
func MayBeStatus(text string) bool {
	for status, m := range marks {
		if strings.Contains(strings.ToLower(m.word), text) || strings.Contains(status, text) {
			return true
		}
	}
	return false
}

// The arms of a line in a cell; their sum is the index into Lines.Light and Lines.Heavy.
const (
	ArmUp = 1 << iota
	ArmRight
	ArmDown
	ArmLeft
)

// Lines are the characters to draw with. Each is one cell wide, except for the ASCII forms of keys.
type Lines struct {
	// Light and Heavy hold the character for each combination of arms.
	Light, Heavy [16]string
	// Mixed holds the character for each combination of weights, see MixedIndex.
	Mixed [81]string
	// Round are the corners of a card: top left, top right, bottom left, bottom right.
	Round [4]string
	// Arrow points at a card, More and Less mark columns out of view, Cursor the selected line, Break a
	// breakpoint, Next the next group to step.
	Arrow, More, Less, Cursor, Break, Next string
	// Bar, Half and Rest draw the progress bar.
	Bar, Half, Rest string
	// Ellipsis ends truncated text, Dot separates parts, Enter, Left, Right and Up are keys.
	Ellipsis, Dot, Enter, Left, Right, Up string
}

var unicodeLines = Lines{
	Light: [16]string{" ", "│", "─", "└", "│", "│", "┌", "├", "─", "┘", "─", "┴", "┐", "┤", "┬", "┼"},
	Heavy: [16]string{" ", "┃", "━", "┗", "┃", "┃", "┏", "┣", "━", "┛", "━", "┻", "┓", "┫", "┳", "╋"},
	Mixed: [81]string(strings.Split(" ╵╹╶└┖╺┕┗╷│╿┌├┞┍┝┡╻╽┃┎┟┠┏┢┣╴┘┚─┴┸╼┶┺┐┤┦┬┼╀┮┾╄┒┧┨┰╁╂┲╆╊╸┙┛╾┵┹━┷┻┑┥┩┭┽╃┯┿╇┓┪┫┱╅╉┳╈╋", "")),
	Round: [4]string{"╭", "╮", "╰", "╯"},
	Arrow: "▶", More: "▸", Less: "◂", Cursor: "▸", Break: "●", Next: "▷",
	Bar: "━", Half: "╸", Rest: "─",
	Ellipsis: "…", Dot: "·", Enter: "↵", Left: "←", Right: "→", Up: "↑",
}

var asciiLines = Lines{
	Light: [16]string{" ", "|", "-", "+", "|", "|", "+", "+", "-", "+", "-", "+", "+", "+", "+", "+"},
	Heavy: [16]string{" ", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#"},
	Mixed: asciiMixed(),
	Round: [4]string{"+", "+", "+", "+"},
	Arrow: ">", More: ">", Less: "<", Cursor: ">", Break: "*", Next: "@",
	Bar: "#", Half: "#", Rest: "-",
	Ellipsis: "~", Dot: "-", Enter: "enter", Left: "left", Right: "right", Up: "up",
}

func asciiMixed() (out [81]string) {
	for arms := range byte(16) {
		for heavy := range arms + 1 {
			sign := "+"
			switch {
			case arms == 0:
				sign = " "
			case arms&heavy != 0:
				sign = "#"
			case arms&(ArmLeft|ArmRight) == 0:
				sign = "|"
			case arms&(ArmUp|ArmDown) == 0:
				sign = "-"
			}
			out[MixedIndex(arms, heavy)] = sign
		}
	}
	return out
}

// MixedIndex returns the index in Mixed of a cell's arms, of which some are heavy.
func MixedIndex(arms, heavy byte) (i int) {
	for n, weight := 0, 1; n < 4; n, weight = n+1, weight*3 {
		i += weight * int(arms>>n&1+arms&heavy>>n&1)
	}
	return i
}

// signs returns the characters that may also occur in text.
func (l *Lines) signs() []string {
	return slices.Concat(l.Light[:], l.Heavy[:], l.Mixed[:], l.Round[:],
		[]string{l.Arrow, l.More, l.Less, l.Break, l.Next, l.Half, l.Ellipsis, l.Dot})
}

// asciiReplacements are for the characters that lockstep draws, and for common ones in the text of
// charts.
var asciiReplacements = func() map[rune]string {
	out := map[rune]string{
		'‐': "-", '‑': "-", '‒': "-", '—': "-", '−': "-", '•': "*", '×': "x", '→': ">", '←': "<", '≥': ">", '≤': "<",
		'‘': "'", '’': "'", '‚': "'", '“': `"`, '”': `"`, '„': `"`, '«': `"`, '»': `"`, '‹': "<", '›': ">", '\u00a0': " ",
	}
	add := func(sign, ascii string) {
		if r, n := utf8.DecodeRuneInString(sign); n > 1 {
			out[r] = ascii
		}
	}
	ascii := asciiLines.signs()
	for i, sign := range unicodeLines.signs() {
		add(sign, ascii[i])
	}
	for _, m := range marks {
		add(m.glyph, m.ascii)
	}
	out['⏸'] = marks["paused"].ascii
	out['–'] = "-" // in text; as a mark it is never replaced
	return out
}()

// Plain returns text that the theme can show: an ASCII theme replaces each non-ASCII character with a
// similar one or a question mark.
func (t *Theme) Plain(s string) string {
	if !t.ASCII || !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		if ascii := asciiReplacements[r]; ascii != "" {
			return rune(ascii[0])
		}
		return '?'
	}, s)
}
