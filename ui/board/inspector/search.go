package inspector

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
)

type search struct {
	query string
	from  int // the top line when the search started
	at    int // the line of the current match, -1 for none
}

// StartSearch starts a search at the top visible line, EndSearch ends it.
func (i *Inspector) StartSearch() { i.search = search{from: i.Page.Top, at: -1} }
func (i *Inspector) EndSearch()   { i.search = search{at: -1} }

// Seek goes to the first match after the start of the search, ignoring case.
func (i *Inspector) Seek(query string) {
	i.search.query, i.search.at = query, i.search.from-1
	i.Page.Top = i.search.from
	if !i.toMatch(1) {
		i.search.at = -1
	}
}

// ToMatch goes to the next or previous matching line, cyclically.
func (i *Inspector) ToMatch(by int) tea.Cmd {
	if !i.toMatch(by) {
		return i.Say(theme.Quiet, "no match for "+canvas.Clean(i.search.query))
	}
	return nil
}

func (i *Inspector) toMatch(by int) bool {
	lines, room := i.tabLines()
	all := i.matches(lines)
	if len(all) == 0 {
		return false
	}
	n, found := slices.BinarySearch(all, i.search.at)
	if found && by > 0 {
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

// Matches returns the number of the current match and of all matches, "" before the user has typed.
func (i *Inspector) Matches() string {
	if i.search.query == "" {
		return ""
	}
	lines, _ := i.tabLines()
	all := i.matches(lines)
	if len(all) == 0 {
		return "no match"
	}
	n, found := slices.BinarySearch(all, i.search.at)
	if found {
		n++
	}
	return fmt.Sprintf("%d of %d", n, len(all))
}

func (i *Inspector) matches(lines []canvas.Line) (at []int) {
	for n, l := range lines {
		if len(found(l, i.search.query)) > 0 {
			at = append(at, n)
		}
	}
	return at
}

// found returns the ranges of a line's cells that match.
func found(l canvas.Line, query string) (cells [][2]int) {
	query = strings.ToLower(query)
	x := 0
	for _, p := range l {
		for from := 0; ; {
			n := indexFold(p.Text[from:], query)
			if n < 0 {
				break
			}
			from += n
			end := from + len(query)
			cells = append(cells, [2]int{x + canvas.Width(p.Text[:from]), x + canvas.Width(p.Text[:end])})
			from = end
		}
		x += canvas.Width(p.Text)
	}
	return cells
}

// indexFold is strings.Index ignoring case, and -1 for an empty lower. It ignores the case of ASCII
// letters; for others it may not find a match in another case. It runs for every line of a log in every
// frame, so it does not allocate.
func indexFold(text, lower string) int {
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

// tabLines returns the lines of the open tab, and how many of them fit.
func (i *Inspector) tabLines() (lines []canvas.Line, room int) {
	body, head := i.tabBody()
	return i.lines(body.W), max(body.H-len(head), 1)
}
