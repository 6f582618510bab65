// Package jump is the mode that goes to a group by letters of its name, or by the two-letter
// code that each group shows while the mode is open. Its central type is Jump.
package jump

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/keys"
	"lockstep/ui/board/line"
	"lockstep/ui/board/screen"
)

type Jump struct {
	*screen.Screen
	*line.Line
	board  Board
	from   screen.Spot   // the selection before
	detail screen.Detail // the detail before
	found  []*graph.Node // matches, the best first
}

// Board selects a group and scrolls it into view, and says whether all groups are in view.
type Board interface {
	Select(*graph.Node)
	InView() bool
}

func New(s *screen.Screen, b Board) *Jump {
	j := &Jump{Screen: s, board: b}
	j.Line = line.New(s, line.Config{Prompt: "go to ", Enter: "go", Esc: "back", OnInput: j.find, OnClear: j.cancel, Status: j.status, OnAccept: keys.Run(j.accept), Other: []keys.Binding{
		{Keys: "tab", About: "breakpoint", Only: s.Steerable, Do: j.breakpoint},
	}})
	return j
}

// Open shows the code of each group: on its card if all groups are in view, else on its line.
func (j *Jump) Open() tea.Cmd {
	j.from, j.detail, j.found = j.Sel, j.Detail, nil
	if !j.board.InView() {
		j.Detail = screen.Compact
	}
	j.Follow, j.Codes = false, codes(j.Visible())
	return j.Line.Open()
}

func (j *Jump) accept() {
	j.Reset()
	j.Detail, j.Codes = j.detail, nil
	if n := j.Group(); n != nil {
		j.board.Select(n)
	}
}

func (j *Jump) cancel() {
	j.Detail, j.Codes, j.Sel = j.detail, nil, j.from
}

// breakpoint sets or clears a breakpoint on the match and keeps it selected.
func (j *Jump) breakpoint() tea.Cmd {
	j.Close()
	j.accept()
	n := j.Group()
	return j.Send(event.Command{Name: event.Break, Phase: n.Phase, Group: n.ID})
}

func (j *Jump) find(letters string) {
	j.found = j.search(strings.ToLower(letters))
	if len(j.found) > 0 {
		j.board.Select(j.found[0])
	}
}

func (j *Jump) status() string {
	switch {
	case j.Value() == "":
		return "type a name or a code"
	case len(j.found) == 0:
		return "no matching group"
	}
	return fmt.Sprintf("%s, 1 of %d", j.found[0].Name, len(j.found))
}

// search returns the matching groups: by code first, then by the last part of the name, the
// start of a part, a substring, and finally by letters in the same order.
func (j *Jump) search(letters string) []*graph.Node {
	if letters == "" {
		return nil
	}
	ranks := map[*graph.Node]int{}
	for _, n := range j.Visible() {
		name := strings.ToLower(n.Name)
		parts := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("/:-_.() ", r) })
		starts := func(part string) bool { return strings.HasPrefix(part, letters) }
		switch {
		case j.Codes[n.Unit()] == letters:
			ranks[n] = 1
		case name == letters || len(parts) > 0 && parts[len(parts)-1] == letters:
			ranks[n] = 2
		case starts(name) || slices.ContainsFunc(parts, starts):
			ranks[n] = 3
		case strings.Contains(name, letters):
			ranks[n] = 4
		case inOrder(name, letters):
			ranks[n] = 5
		}
	}
	out := j.Graph.Select(func(n *graph.Node) bool { return ranks[n] > 0 })
	slices.SortStableFunc(out, func(a, b *graph.Node) int { return ranks[a] - ranks[b] })
	return out
}

func inOrder(name, letters string) bool {
	for _, l := range letters {
		i := strings.IndexRune(name, l)
		if i < 0 {
			return false
		}
		name = name[i+len(string(l)):]
	}
	return true
}

// codes gives each group a unique code of two letters, preferably from its name.
func codes(nodes []*graph.Node) map[event.Unit]string {
	taken := map[string]bool{}
	out := make(map[event.Unit]string, len(nodes))
	for _, n := range nodes {
		code := freeCode(letters(n.Name), taken)
		taken[code], out[n.Unit()] = true, code
	}
	return out
}

const alphabet = "abcdefghijklmnopqrstuvwxyz"

// letters returns the letters of a name, its last part first, where names differ most.
func letters(name string) string {
	name = strings.TrimSuffix(strings.ToLower(name), ":"+plan.Unsequenced)
	if at := strings.LastIndexAny(name, "/:-_."); at >= 0 {
		name = name[at+1:] + name[:at]
	}
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, name)
}

func freeCode(name string, taken map[string]bool) string {
	for _, from := range []string{name, alphabet} {
		for i := range from {
			seconds := from[i+1:]
			if from == alphabet {
				seconds = alphabet
			}
			for k := range seconds {
				if code := from[i:i+1] + seconds[k:k+1]; !taken[code] {
					return code
				}
			}
		}
	}
	return "" // out of codes; the name still finds the group
}
