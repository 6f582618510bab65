package inspector

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// Searches reports whether something is searched for in the open tab.
func (r *Region) Searches() bool { return r.Shown && r.Seeks() }

// Seek looks for a text in what the open tab shows.
func (r *Region) Seek(query string) {
	r.Query = query
	lines, room := r.tabLines()
	r.Inspector.Seek(query, lines, room)
}

// EndSearch forgets what was searched for.
func (r *Region) EndSearch() {
	r.Query = ""
	r.Search(false)
}

// ToMatch goes to the next match, or to the one before.
func (r *Region) ToMatch(by int) tea.Cmd {
	lines, room := r.tabLines()
	if !r.NextMatch(by, lines, room) {
		return r.Say(theme.Quiet, "nothing here matches "+canvas.Clean(r.Query))
	}
	return nil
}

// matched says which match was gone to, as of the lines that are shown.
func (r *Region) matched(lines []canvas.Line) string {
	if !r.Searches() {
		return ""
	}
	at, of := r.Match(lines)
	if of == 0 {
		return "no match"
	}
	return fmt.Sprintf("%d of %d", at, of)
}

// tabLines are the lines of the open tab, and how many of them there is room for.
func (r *Region) tabLines() (lines []canvas.Line, room int) {
	body, head := r.tabBody()
	return r.Lines(r.Selected(), body.W), max(body.H-len(head), 1)
}
