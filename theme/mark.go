package theme

// Mark is how a status looks: always a glyph, a word and a colour, as none of
// them alone is clear to everybody.
type Mark struct {
	Glyph string
	Word  string
	Role  Role
}

// marks is the one table of statuses. The keys are the words of the event
// format (statuses and changes), the first glyph is for Unicode, the second
// for ASCII.
var marks = map[string]struct {
	glyph, ascii, word string
	role               Role
}{
	"":              {"○", ".", "waiting", Idle},
	"waiting":       {"○", ".", "waiting", Idle},
	"held":          {"⏸", "=", "held", Stopped},
	"paused":        {"⏸", "=", "paused", Stopped},
	"running":       {"◐", "~", "running", Busy},
	"applying":      {"◐", "~", "applying", Busy},
	"applied":       {"✓", "+", "applied", Good},
	"in-progress":   {"◐", "~", "in progress", Busy},
	"deleting":      {"◐", "~", "deleting", Busy},
	"aborting":      {"◐", "~", "aborting", Stopped},
	"replacing":     {"◐", "~", "replacing", Stopped},
	"rolling-back":  {"◐", "~", "rolling back", Stopped},
	"away":          {"○", "!", "API server away", Stopped},
	"back":          {"✓", "+", "API server back", Good},
	"ready":         {"✓", "+", "ready", Good},
	"gone":          {"✓", "+", "gone", Good},
	"succeeded":     {"✓", "+", "done", Good},
	"accepted":      {"✓", "+", "accepted", Good},
	"unchanged":     {"–", "-", "unchanged", Quiet},
	"kept":          {"–", "-", "kept", Quiet},
	"removed":       {"↩", "<", "removed", Quiet},
	"rolled-back":   {"↩", "<", "rolled back", Quiet},
	"partly-undone": {"↩", "<", "partly undone", Stopped},
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
func (t Theme) Mark(status string) Mark {
	m, ok := marks[status]
	if !ok {
		m.glyph, m.ascii, m.word, m.role = "?", "?", status, Quiet
	}
	if t.ASCII {
		m.glyph = m.ascii
	}
	return Mark{Glyph: m.glyph, Word: m.word, Role: m.role}
}
