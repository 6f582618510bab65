package inspector

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

// search is a search in the open tab.
type search struct {
	on    bool
	query string // in lower case
	from  int    // the top line at the start of the search
	at    int    // the line of the current match, -1 for none
}

// Search starts or ends a search.
func (i *Inspector) Search(on bool) { i.search = search{on: on, from: i.Page.Top, at: -1} }

// Seek goes to the first match, ignoring case, from where the search started.
func (i *Inspector) Seek(query string, lines []canvas.Line, room int) {
	i.search.query, i.search.at = strings.ToLower(query), i.search.from-1
	i.Page.Top = i.search.from
	if !i.NextMatch(1, lines, room) {
		i.search.at = -1
	}
}

// NextMatch goes to the next or previous matching line, cyclically. It reports whether
// there is one.
func (i *Inspector) NextMatch(by int, lines []canvas.Line, room int) bool {
	all := i.matches(lines)
	if len(all) == 0 {
		return false
	}
	n := 0
	for n < len(all) && (all[n] < i.search.at || by > 0 && all[n] == i.search.at) {
		n++
	}
	if by < 0 {
		n--
	}
	i.search.at = all[(n+len(all))%len(all)]
	i.Page.Last = max(len(lines)-room, 0)
	if top := i.Page.Top; i.search.at < top || i.search.at >= top+room {
		i.Page.Top = min(max(i.search.at-room/2, 0), i.Page.Last)
	}
	i.Page.End = false
	return true
}

// matches returns the indexes of the matching lines.
func (i *Inspector) matches(lines []canvas.Line) (at []int) {
	for n, l := range lines {
		for _, p := range l {
			if fold(p.Text, i.search.query) >= 0 {
				at = append(at, n)
				break
			}
		}
	}
	return at
}

// Found returns the ranges of a line's cells that match.
func (i *Inspector) Found(l canvas.Line) (cells [][2]int) {
	x := 0
	for _, p := range l {
		for from := 0; ; {
			n := fold(p.Text[from:], i.search.query)
			if n < 0 {
				break
			}
			from += n
			end := from + len(i.search.query)
			cells = append(cells, [2]int{x + canvas.Width(p.Text[:from]), x + canvas.Width(p.Text[:end])})
			from = end
		}
		x += canvas.Width(p.Text)
	}
	return cells
}

// fold returns strings.Index ignoring case, -1 for an empty text; it finds letters only whose
// cases have the same length in bytes. It runs for every line of a log in every frame, so
// it does not allocate.
func fold(text, lower string) int {
	if lower == "" {
		return -1
	}
	first := lower[0]
	for n := 0; n+len(lower) <= len(text); n++ {
		c := text[n]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c == first && strings.EqualFold(text[n:n+len(lower)], lower) {
			return n
		}
	}
	return -1
}

// At returns the line of the current match, -1 for none.
func (i *Inspector) At() int {
	if i.search.query == "" {
		return -1
	}
	return i.search.at
}

// IsSearching reports whether a search is on in the open tab.
func (r *Region) IsSearching() bool { return r.Shown && r.search.on }

func (r *Region) Seek(query string) {
	r.Query = query
	lines, room := r.tabLines()
	r.Inspector.Seek(query, lines, room)
}

func (r *Region) EndSearch() {
	r.Query = ""
	r.Search(false)
}

func (r *Region) ToMatch(by int) tea.Cmd {
	lines, room := r.tabLines()
	if !r.NextMatch(by, lines, room) {
		return r.Say(theme.Quiet, "nothing here matches "+canvas.Clean(r.Query))
	}
	return nil
}

// matched returns the number of the current match and of all matches.
func (r *Region) matched(lines []canvas.Line) string {
	if !r.IsSearching() {
		return ""
	}
	all, at := r.matches(lines), 0
	if len(all) == 0 {
		return "no match"
	}
	for n, line := range all {
		if line <= r.search.at {
			at = n + 1
		}
	}
	return fmt.Sprintf("%d of %d", at, len(all))
}

// tabLines returns the lines of the open tab, and how many of them fit.
func (r *Region) tabLines() (lines []canvas.Line, room int) {
	body, head := r.tabBody()
	return r.Lines(r.Selected(), body.W), max(body.H-len(head), 1)
}
