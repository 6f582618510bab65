package picture

import (
	"fmt"
	"regexp"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/ui/board/graph"
)

// IsRelease reports whether the groups are the releases of a stack.
func (p *Picture) IsRelease() bool { return p.State.Operation.IsStack() }

// Progress returns how much of a group is done, "2/3": its objects, or those of its release. It returns "" for a
// release that stays as it is.
func (p *Picture) Progress(n *graph.Node) string {
	if !p.IsRelease() {
		return n.Count()
	}
	done, total := p.ReleaseObjects(n)
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", done, total)
}

// ReleaseObjects counts the objects of a stack's release, without those of its rollback.
func (p *Picture) ReleaseObjects(n *graph.Node) (done, total int) {
	for _, g := range p.ReleaseGroups(n) {
		total += len(g.Objects)
		done += g.Reached()
	}
	return done, total
}

// ReleaseGroups returns the groups of a stack's release, without those of its rollback. Of one that was rolled back by itself, it
// returns only those.
func (p *Picture) ReleaseGroups(n *graph.Node) (groups []*event.GroupState) {
	release := p.State.Scopes[n.ID]
	if release == nil {
		return nil
	}
	undone := p.rolledItselfBack(n)
	for g := range release.GroupStates() {
		if event.IsRollback(g.Phase) == (undone || event.IsRollback(n.Phase)) {
			groups = append(groups, g)
		}
	}
	return groups
}

// chartVersion splits a chart's name and version.
var chartVersion = regexp.MustCompile(`^(.+?)-(v?\d+\..*)$`)

// Planned says what the stack does to a release: install, upgrade from which version to which, or nothing. short is for a card that is
// too narrow for long.
func (p *Picture) Planned(n *graph.Node) (long, short string) {
	if n.Step != nil {
		return "runs " + n.Step.Line(), ""
	}
	release := p.State.Scopes[n.ID]
	if release == nil {
		return p.Theme.Mark(string(event.Unchanged)).Word, ""
	}
	if p.rolledItselfBack(n) {
		return phrase.Undone(release), phrase.UndoneBriefly(release)
	}
	op := release.Operation
	now, before := chartVersion.FindStringSubmatch(op.Chart), chartVersion.FindStringSubmatch(op.PreviousChart)
	again := ""
	if op.Name == "install" && op.Revision > 1 { // no earlier attempt was deployed
		again = " again"
	}
	switch {
	case now == nil || op.Name != "install" && op.Name != "upgrade":
		return op.Name + again, ""
	case before != nil && before[1] == now[1] && before[2] != now[2]:
		return fmt.Sprintf("%s %s → %s", op.Name, before[2], now[2]), fmt.Sprintf("%s → %s", op.Name, now[2])
	case strings.HasSuffix(n.ID, "/"+now[1]): // named like its chart
		return op.Name + " " + now[2] + again, op.Name
	}
	return fmt.Sprintf("%s %s %s", op.Name, now[1], now[2]) + again, op.Name + " " + now[2]
}
