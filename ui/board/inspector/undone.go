package inspector

import (
	"cmp"

	"lockstep/engine/event"
	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/graph"
	"lockstep/ui/board/picture"
)

// undoneWhy says what the run did to an object, and then the rollback.
func (s Subject) undoneWhy(n *graph.Node, o *event.ObjectState, mark theme.Mark, outcome string) canvas.Line {
	did, why := s.StatusMark(n, o).Word, ""
	if change := o.Change.Word(); change != "" && change != did {
		did = change + ", " + did
	}
	if !o.Done() {
		why = cmp.Or(o.Cause, o.Message)
	}
	when, what := s.undone(outcome)
	return canvas.Line{{Role: mark.Role, Text: mark.Glyph + " "}, {Role: mark.Role, Text: did}, {Role: theme.Text, Text: withUndone(why, when+" "+what)}}
}

// withUndone joins the reason of a status, which may be "", and what the rollback did then.
func withUndone(why, undone string) string {
	if why == "" {
		return ", " + undone
	}
	return ": " + why + "; " + undone
}

// undone says what a rollback did to an object or a group, or is doing: "then", "removed by the rollback". It returns "" without
// an outcome.
func (s Subject) undone(outcome string) (when, what string) {
	switch word := s.Theme.Mark(outcome).Word; outcome {
	case "":
		return "", ""
	case picture.Removed:
		return "then", word + " by the rollback"
	case string(event.Deleting), string(event.RollingBack):
		return "now", word
	default:
		return "then", word
	}
}
