package theme

import "strings"

// Mark is how a status looks: always a glyph, a word and a colour, as none of
// them alone is clear to everybody.
type Mark struct {
	Glyph string
	Word  string
	Role  Role
}

// marks is the one table of statuses. The keys are the words of the event
// format (statuses and changes), the first glyph is for Unicode, the second
// for ASCII. An ASCII sign stands for one Unicode glyph only, here and in Lines.
// The Unicode ones are in DejaVu Sans Mono, and none is drawn as a picture of two
// cells by a terminal that likes those.
var marks = map[string]struct {
	glyph, ascii, word string
	role               Role
}{
	"":              {"○", ".", "waiting", Idle},
	"waiting":       {"○", ".", "waiting", Idle},
	"held":          {"‖", `"`, "held", Stopped},
	"paused":        {"‖", `"`, "paused", Stopped},
	"running":       {"◐", "o", "running", Busy},
	"applying":      {"◐", "o", "applying", Busy},
	"applied":       {"◇", "^", "applied", Quiet}, // how it fares nobody has waited for (R21)
	"in-progress":   {"◐", "o", "in progress", Busy},
	"deleting":      {"◐", "o", "deleting", Busy},
	"aborting":      {"◐", "o", "aborting", Stopped},
	"replacing":     {"◐", "o", "replacing", Stopped},
	"rolling-back":  {"◐", "o", "rolling back", Stopped},
	"away":          {"!", "!", "API server away", Stopped},
	"back":          {"✓", "v", "API server back", Good},
	"ready":         {"✓", "v", "ready", Good},
	"gone":          {"✓", "v", "gone", Good},
	"succeeded":     {"✓", "v", "done", Good},
	"accepted":      {"✓", "v", "accepted", Good},
	"unchanged":     {"–", "=", "unchanged", Quiet},
	"kept":          {"–", "=", "kept", Quiet},
	"removed":       {"↩", "u", "removed", Quiet},
	"rolled-back":   {"↩", "u", "rolled back", Quiet},
	"partly-undone": {"↩", "u", "partly undone", Stopped},
	"failed":        {"✗", "x", "failed", Bad},
	"refused":       {"✗", "x", "refused", Bad},
	"aborted":       {"✗", "x", "aborted", Stopped},
	"cut-off":       {"✗", "x", "cut off", Stopped},
	"slow":          {"!", "!", "slower than usual", Stopped},
	"skipped":       {"⊘", "/", "never started", Never},
	"set":           {"●", "*", "breakpoint", Stopped},
	"disabled":      {"○", ".", "breakpoint disabled", Idle},
	"cleared":       {"○", ".", "no breakpoint", Idle},
}

// Mark returns how a status of the event format looks. One that is not in the
// table is shown by its name.
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

// MayBeStatus reports whether text, in lower case, is a part of a word for a status.
func MayBeStatus(text string) bool {
	for status, m := range marks {
		if strings.Contains(strings.ToLower(m.word), text) || strings.Contains(status, text) {
			return true
		}
	}
	return false
}
