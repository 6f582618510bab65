package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// group writes a line for a group's new status. before is its previous one.
func (t *textLog) group(e event.Event, before event.Status) {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil {
		return
	}
	name, removing, took := format.GroupName(&t.state, g), format.Removes(&t.state, e.Phase), e.Time.Sub(g.Started)
	if t.state.Operation.IsStack() {
		t.releaseStatus(e, g, took)
		return
	}
	switch e.Status {
	case event.Running:
		t.line(e, e.Status, startLine(g, removing, before, e))
	case event.Ready, event.Applied, event.Gone:
		t.line(e, g.Shown(), t.endLine(g, before, took))
		t.objectFailures(e, g)
	case event.Failed:
		text := name + " failed"
		if !g.Started.IsZero() {
			text += " after " + format.Duration(took)
		}
		t.groupFailure(e, g, text+" ("+format.Progress(g, removing)+")")
	case event.Aborted:
		text := name + " aborted"
		if slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return !o.Sent.IsZero() }) {
			text += " after " + format.Duration(took) + " (" + format.Progress(g, removing) + ")"
		}
		t.line(e, e.Status, format.WithReason(text, phrase.Unfinished(g)))
	case event.Skipped:
		if removing {
			name = format.Deletion(g)
		}
		t.skipped.add(e, name)
	}
}

func startLine(g *event.GroupState, removing bool, before event.Status, e event.Event) string {
	line := g.ID
	if removing {
		line = format.Deletion(g)
	}
	switch {
	case e.Object != nil && before == event.Ready:
		return line + " is " + e.Message
	case e.Code == event.Rechecking:
		line = "re-checking " + line
	case before.Over():
		line += " started again"
	default:
		line += " started"
	}
	return line + " (" + text.Count(len(g.Objects), "object") + ")"
}

func (t *textLog) endLine(g *event.GroupState, before event.Status, took time.Duration) string {
	text := g.ID + " " + t.opts.word(g.Shown()) + " ("
	if before != event.Applied { // else the line about that has the changes
		text += changesText(g) + ", "
	}
	return text + format.Duration(took) + format.WithPrefix(", ", judgesText(g)) + ")"
}

// judgesText says by which rules the objects of a group are ready, without the usual ones: "2 by the chart's expressions".
func judgesText(g *event.GroupState) string {
	n := map[event.Judge]int{}
	for _, o := range g.Objects {
		if !o.ReadyBy.IsUsual() {
			n[o.ReadyBy]++
		}
	}
	var parts []string
	for _, j := range slices.Sorted(maps.Keys(n)) {
		count := ""
		if len(g.Objects) > 1 {
			count = fmt.Sprint(n[j], " ")
		}
		parts = append(parts, count+j.Text())
	}
	return strings.Join(parts, ", ")
}

// changesText summarises the changes to the objects of a group: "3 objects created",
// "2 created, 1 unchanged", or "3 objects" if the changes are unknown.
func changesText(g *event.GroupState) string {
	n := map[event.Change]int{}
	for _, o := range g.Objects {
		n[o.Change]++
	}
	var parts []string
	for _, c := range []event.Change{event.Created, event.Configured, event.Replaced, event.Unchanged, event.Deleted, event.Absent, event.Kept} {
		if n[c] == len(g.Objects) && n[c] > 0 {
			return text.Count(n[c], "object") + " " + c.Word()
		}
		if n[c] > 0 {
			parts = append(parts, fmt.Sprint(n[c], " ", c.Word()))
		}
	}
	if len(parts) == 0 {
		return text.Count(len(g.Objects), "object")
	}
	if n[""] > 0 {
		parts = append(parts, fmt.Sprint(n[""], " not applied"))
	}
	return strings.Join(parts, ", ")
}

// objectIn names an object and the group of an event, either of which may be missing. The name of a hook's group has the object.
func objectIn(s *event.State, e event.Event, o *plan.Object) string {
	if o == nil || phrase.NamesObject(s.Find(e.Phase, e.Group), *o) {
		return e.Group
	}
	return o.String() + format.WithPrefix(" in ", e.Group)
}

// groupFailure writes that a group failed, with the failed objects and causes.
func (t *textLog) groupFailure(e event.Event, g *event.GroupState, text string) {
	roots := slices.DeleteFunc(t.state.Roots(), func(r event.Root) bool { return r.Group != g })
	if len(roots) == 0 {
		roots = []event.Root{{Group: g, Cause: g.Message}}
	}
	t.line(e, e.Status, format.WithReason(text, phrase.RootInGroup(roots[0])))
	for _, r := range roots {
		if r.Object == nil {
			continue
		}
		t.reported[objectKey{e.Phase, e.Group, r.Object.Object}] = []string{r.Cause}
		if r.Object != roots[0].Object {
			t.line(e, e.Status, format.WithReason(objectIn(&t.state, e, &r.Object.Object), phrase.Why(r)))
		}
	}
	for _, r := range roots {
		if r.Object != nil {
			lines := t.newEvidence(objectKey{e.Phase, e.Group, r.Object.Object}, r.Evidence)
			if len(roots) > 1 {
				lines = nameObject(r.Object.Object, lines)
			}
			t.quote(lines)
		}
	}
	t.objectFailures(e, g)
}

// newEvidence returns the lines of evidence that were not reported before, and marks them as reported.
func (t *textLog) newEvidence(key objectKey, evidence []string) []string {
	lines := format.UnknownLines(evidence, t.reported[key])
	t.reported[key] = append(t.reported[key], lines...)
	return lines
}

// find returns the group and the object of an event, or nil.
func (t *textLog) find(e event.Event) (*event.GroupState, *event.ObjectState) {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return g, nil
	}
	return g, g.Find(*e.Object)
}

// diagnosis writes why an object is not ready, unless the line about its group's failure has the cause.
func (t *textLog) diagnosis(e event.Event) {
	g, o := t.find(e)
	switch {
	case o == nil || o.Cause == "" || t.state.Operation.IsStack():
	case e.Outside && o.Cause == o.Message: // the line about the wait says it
	case !g.Status.Over(): // it may still become ready
		t.line(e, event.InProgress, format.WithReason(t.about(e), o.Cause))
	default:
		key := objectKey{e.Phase, e.Group, *e.Object}
		if known := t.reported[key]; len(known) == 0 || known[0] != o.Cause {
			t.reported[key] = append([]string{o.Cause}, known...)
			t.line(e, event.Failed, format.WithReason(objectIn(&t.state, e, e.Object), o.Cause))
		}
		t.quote(t.newEvidence(key, o.Evidence))
	}
}

// skippedGroups collects groups that were skipped for the same reason, so that they share a line.
type skippedGroups struct {
	first event.Event
	names []string
}

// accepts reports whether an event skips a group for the same reason as the collected ones.
func (s *skippedGroups) accepts(e event.Event) bool {
	return e.Kind == event.KindGroup && e.Status == event.Skipped && (len(s.names) == 0 || e.Message == s.first.Message)
}

func (s *skippedGroups) add(e event.Event, name string) {
	if len(s.names) == 0 {
		s.first = e
	}
	s.names = append(s.names, name)
}

func (t *textLog) flushSkipped() {
	s := t.skipped
	if len(s.names) == 0 {
		return
	}
	t.skipped = skippedGroups{}
	t.line(s.first, event.Skipped, format.Abbreviate(s.names)+" "+cmp.Or(s.first.Message, t.opts.word(event.Skipped)))
}

// maxRegressions is how often the log says that the same object is no longer ready: a pod may crash again and again.
const maxRegressions = 3

// object writes a line about an object that failed after its group, became ready after a failure, or did not stay ready.
func (t *textLog) object(e event.Event) {
	g, o := t.find(e)
	if o == nil || t.state.Operation.IsStack() {
		return
	}
	key := objectKey{e.Phase, e.Group, o.Object}
	switch {
	case e.Outside:
		t.outside(e, key)
	case e.Status == event.Failed && g.Status != event.Running:
		t.objectFailures(e, g)
	case e.Status == event.Ready && t.reported[key] != nil:
		delete(t.reported, key)
		t.regressed[key] = regression{false, t.regressed[key].count}
		t.line(e, e.Status, objectIn(&t.state, e, e.Object)+" ready after all")
	case g.Status != event.Ready || t.state.Operation.IsWatch():
	case e.Status == event.InProgress && !t.regressed[key].now && t.regressed[key].count < maxRegressions:
		t.regressed[key] = regression{true, t.regressed[key].count + 1}
		t.line(e, event.Degraded, format.WithReason(objectIn(&t.state, e, e.Object)+" is no longer ready", e.Message))
	case e.Status == event.Ready && t.regressed[key].now:
		t.regressed[key] = regression{false, t.regressed[key].count}
		t.line(e, e.Status, objectIn(&t.state, e, e.Object)+" ready again")
	}
}

// outside writes that a group starts to wait for an object outside the release, and that the object is ready.
func (t *textLog) outside(e event.Event, key objectKey) {
	switch {
	case e.Status == event.Ready && t.awaited[key]:
		delete(t.awaited, key)
		t.line(e, e.Status, t.outsideName(e)+" is ready: "+e.Group+" waited for it")
	case e.Status == event.InProgress && e.Message != "" && !t.awaited[key]:
		t.awaited[key] = true
		t.line(e, e.Status, format.WithReason(t.about(e), e.Message))
	}
}

// about names the object of an event and its group: "Deployment/api in shop:app", or "shop:app waits for Secret/db-tls" if the
// object is from outside the release.
func (t *textLog) about(e event.Event) string {
	if e.Outside && e.Object != nil {
		return e.Group + " waits for " + t.outsideName(e)
	}
	return objectIn(&t.state, e, e.Object)
}

// outsideName names the object of an event, from outside the release.
func (t *textLog) outsideName(e event.Event) string {
	return plan.FormatOutside(*e.Object, t.state.Operation.Namespace)
}

// objectFailures writes a line for each failed object of a group, unless it was reported before.
func (t *textLog) objectFailures(e event.Event, g *event.GroupState) {
	for _, o := range g.Objects {
		key := objectKey{e.Phase, g.ID, o.Object}
		if o.Status != event.Failed || t.reported[key] != nil {
			continue
		}
		cause := cmp.Or(o.Cause, o.Message)
		t.reported[key] = []string{cause}
		t.line(e, o.Status, format.WithReason(objectIn(&t.state, e, &o.Object)+" failed", cause))
		t.quote(t.newEvidence(key, o.Evidence))
	}
}

// plan writes the phases that were not written before, as a table: layer, group, number of objects,
// dependencies.
func (t *textLog) plan(phases []event.Phase) {
	if t.state.Operation.IsStack() {
		t.stackPlan(phases)
		return
	}
	var rows [][]string
	groups, objects, created := 0, 0, event.NewNamespace(phases)
	for _, p := range phases {
		if t.planned[p.Name] {
			continue
		}
		t.planned[p.Name] = true
		rows = append(rows, phaseRows(p)...)
		groups += len(p.Groups)
		objects += event.CountObjects([]event.Phase{p}, created)
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(t.out, "\nplan: %s in %s\n%s", text.Count(objects, "object"), text.Count(groups, "group"), joinLines(table(rows)))
	t.blankLine = true
}

func phaseRows(p event.Phase) [][]string {
	layers := plan.Layers(p.Groups)
	layer := func(g *plan.Group) string {
		if p.Kind == event.PhaseApply || p.Kind == event.PhaseRemove {
			return event.LayerTitle(p.Name, p.Kind, layers[g.ID])
		}
		return event.PhaseTitle(p.Name, p.Kind)
	}
	return planRows(inLayers(p.Groups, layers), layer, func(g *plan.Group) string { return text.Count(len(g.Objects), "object") })
}

// planRows returns a row for each group: layer, id, size and dependencies. The layer is left out if
// the previous row has the same one.
func planRows(groups []*plan.Group, layer, size func(*plan.Group) string) (rows [][]string) {
	after, last := plan.Reduce(groups), ""
	for _, g := range groups {
		column := layer(g)
		if column == last {
			column = ""
		} else {
			last = column
		}
		rows = append(rows, cleaned(column, g.ID, size(g), order(g, after[g.ID])))
	}
	return rows
}

// order says what a group waits for: "after db; waits for Secret/db-tls; waits for approval: drops table users;
// no return: schema 37 cannot be read by 36".
func order(g *plan.Group, after []string) string {
	groups, outside := format.WithPrefix("after ", strings.Join(after, ", ")), format.WithPrefix("waits for ", plan.OutsideNames(g.WaitFor, ""))
	approval := ""
	if len(g.Approve) > 0 {
		approval = phrase.Missing(g.Approve)
	}
	return strings.Join(format.NonEmpty(groups, outside, approval, format.WithPrefix("no return: ", g.NoReturn)), "; ")
}

// The theme's marks for a group that takes longer than last time, and for a point of no return. They are not an event.Status.
const (
	slow     = "slow"
	noReturn = "no-return"
)

// reportSlow reports each group that takes longer than last time, once. Only heartbeats and
// events of groups trigger it.
func (t *textLog) reportSlow(e event.Event) {
	if e.Kind == event.KindPlan {
		t.nextSlow = time.Time{}
	}
	if e.Kind != event.KindWaiting && e.Kind != event.KindGroup || !e.Time.After(t.nextSlow) || !forecast.HasHistory(&t.state) {
		return
	}
	late, next := forecast.SlowGroups(&t.state, e.Time)
	t.nextSlow = next
	for _, s := range late {
		if u := s.Group.Unit(); !t.slow[u] {
			t.slow[u] = true
			t.line(e, slow, format.GroupName(&t.state, s.Group)+" "+s.String())
		}
	}
}
