package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/plan"
)

// group writes a line where a group's change of state is news. was is its
// status before.
func (t *Text) group(e event.Event, was event.Status) {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil {
		return
	}
	removing := t.removing(e.Phase)
	took := e.Time.Sub(g.Started)
	switch e.Status {
	case event.Running:
		t.line(e, e.Status, started(g, removing, was))
	case event.Held:
		t.line(e, e.Status, withReason(unitName(&t.state, g)+" held", e.Message))
	case event.Ready, event.Applied, event.Gone:
		t.line(e, e.Status, t.ended(g, was, took))
		t.failures(e, g)
	case event.Failed:
		t.failed(e, g, took, doneOf(g, removing))
	case event.Aborted:
		t.line(e, e.Status, withReason(unitName(&t.state, g)+" aborted after "+Seconds(took)+" ("+doneOf(g, removing)+")", unlike(e.Message, "aborted")))
	case event.Skipped:
		t.skipped.add(e, unitName(&t.state, g))
	}
}

func (t *Text) removing(phase string) bool {
	for _, p := range t.state.Phases {
		if p.Name == phase {
			return p.Kind == event.PhaseRemove
		}
	}
	return false
}

func started(g *event.GroupState, removing bool, was event.Status) string {
	text := g.ID
	if removing {
		text += " removal"
	}
	text += " started"
	if was.Over() {
		text += " again"
	}
	return text + " (" + Count(len(g.Objects), "object") + ")"
}

func (t *Text) ended(g *event.GroupState, was event.Status, took time.Duration) string {
	text := g.ID + " " + t.opts.word(g.Status) + " ("
	if was != event.Applied {
		text += outcome(g) + ", "
	}
	return text + Seconds(took) + ")"
}

// failed writes that a group failed, for which of its objects, and why.
func (t *Text) failed(e event.Event, g *event.GroupState, took time.Duration, done string) {
	text := unitName(&t.state, g) + " failed"
	if !g.Started.IsZero() {
		text += " after " + Seconds(took)
	}
	roots := t.rootsOf(g)
	t.line(e, e.Status, withReason(text+" ("+done+")", roots[0].String()))
	for _, r := range roots {
		if r.Object == nil {
			continue
		}
		key := toldKey{e.Phase, e.Group, r.Object.Object}
		t.told[key] = why{cause: r.Cause}
		if r.Object != roots[0].Object {
			t.line(e, e.Status, withReason(place(&r.Object.Object, e.Group), withoutObject(r)))
		}
	}
	for _, r := range roots {
		if r.Object != nil {
			t.evidence(toldKey{e.Phase, e.Group, r.Object.Object}, r, len(roots) > 1)
		}
	}
	t.failures(e, g)
}

// withoutObject is the sentence that tells of a failure, after the object's name.
func withoutObject(r event.Root) string {
	return strings.TrimPrefix(r.String(), r.Object.Object.String()+": ")
}

// rootsOf are what a group has failed for: at least one.
func (t *Text) rootsOf(g *event.GroupState) []event.Root {
	roots := slices.DeleteFunc(t.state.Roots(), func(r event.Root) bool { return r.Group != g })
	if len(roots) == 0 {
		return []event.Root{{Group: g, Cause: g.Message}}
	}
	return roots
}

// evidence writes the lines that a cause is drawn from, those that have not been
// told yet, and whose they are where others fail with it.
func (t *Text) evidence(key toldKey, r event.Root, others bool) {
	was := t.told[key]
	news := unsaid(r.Evidence, append(was.lines, was.cause))
	t.quote(ofObject(r, news, others))
	was.lines = append(was.lines, news...)
	t.told[key] = was
}

// unsaid are the lines that others do not say, and that do not repeat each other.
func unsaid(lines, others []string) []string {
	var out []string
	for _, l := range lines {
		words := saying(l)
		again := func(other string) bool { return says(saying(other), words) || strings.Contains(words, saying(other)) }
		if !slices.ContainsFunc(others, func(other string) bool { return says(saying(other), words) }) && !slices.ContainsFunc(out, again) {
			out = append(out, l)
		}
	}
	return out
}

// says reports whether a text says what a line does: all of it, or, behind the words
// that lead to it ("FailedCreate: Error creating: "), the most of it.
func says(text, line string) bool {
	for rest, ok := line, true; ok && 2*len(rest) >= len(line); _, rest, ok = strings.Cut(rest, ": ") {
		if strings.Contains(text, rest) {
			return true
		}
	}
	return false
}

// which matches what tells one of many pods from another: in an event its name, its
// namespace and its UID, and before it was made the name that it was to have.
var which = regexp.MustCompile(`in pod \S+|pods "[^"]+"`)

// saying is what a line says, of whichever pod it says it.
func saying(line string) string { return strings.TrimSpace(which.ReplaceAllString(clean(line), "pod")) }

// diagnosis writes why an object is not ready, unless its group has said that.
func (t *Text) diagnosis(e event.Event) {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return
	}
	o := g.Find(*e.Object)
	switch {
	case o == nil || o.Cause == "":
	case !g.Status.Over(): // it may still come
		t.line(e, event.InProgress, withReason(place(e.Object, e.Group), o.Cause))
	default:
		key := toldKey{e.Phase, e.Group, *e.Object}
		if was := t.told[key]; !event.SameCause(was.cause, o.Cause) {
			t.told[key] = why{o.Cause, was.lines}
			t.line(e, event.Failed, withReason(place(e.Object, e.Group), o.Cause))
		}
		t.evidence(key, event.Root{Object: o, Evidence: o.Evidence}, false)
	}
}

// waiting is what a heartbeat says, and why it is waited for where that is known.
func (t *Text) waiting(e event.Event) string {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return e.Message
	}
	o := g.Find(*e.Object)
	if o == nil || o.Cause == "" {
		return e.Message
	}
	looks := strings.TrimSuffix(e.Message, ": "+e.Cause)
	if o.Message != "" {
		looks = strings.Replace(looks, o.Message, strings.Join(unsaid(strings.Split(o.Message, " · "), []string{o.Cause}), " · "), 1)
	}
	return o.Cause + " (" + looks + ")"
}

// skipped collects groups that were never started for the same reason, so that
// many of them are one line.
type skipped struct {
	first event.Event
	names []string
}

// takes reports whether an event tells of another such group.
func (s *skipped) takes(e event.Event) bool {
	return e.Kind == event.KindGroup && e.Status == event.Skipped && (len(s.names) == 0 || e.Message == s.first.Message)
}

func (s *skipped) add(e event.Event, name string) {
	if len(s.names) == 0 {
		s.first = e
	}
	s.names = append(s.names, name)
}

func (t *Text) flushSkipped() {
	s := t.skipped
	if len(s.names) == 0 {
		return
	}
	t.skipped = skipped{}
	reason := s.first.Message
	if reason == "" {
		reason = t.opts.word(event.Skipped)
	}
	t.line(s.first, event.Skipped, someOf(s.names)+" "+reason)
}

// unlike returns s unless it says nothing new.
func unlike(s, known string) string {
	if s == known {
		return ""
	}
	return s
}

// object writes a line where an object failed and its group does not say so, or
// where one that had failed is well again.
func (t *Text) object(e event.Event) {
	g := t.state.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return
	}
	key := toldKey{e.Phase, e.Group, *e.Object}
	switch {
	case e.Status == event.Failed && g.Status != event.Running:
		t.failures(e, g)
	case e.Status == event.Ready && t.hasTold(key):
		delete(t.told, key)
		t.line(e, e.Status, place(e.Object, e.Group)+" ready after all")
	}
}

// failures writes a line for every failed object of a group that has none yet.
func (t *Text) failures(e event.Event, g *event.GroupState) {
	for _, o := range g.Objects {
		key := toldKey{e.Phase, g.ID, o.Object}
		if o.Status != event.Failed || t.hasTold(key) {
			continue
		}
		cause := cmp.Or(o.Cause, o.Message)
		t.told[key] = why{cause: cause}
		t.line(e, o.Status, withReason(place(&o.Object, g.ID)+" failed", cause))
		t.evidence(key, event.Root{Object: o, Evidence: o.Evidence}, false)
	}
}

func (t *Text) hasTold(key toldKey) bool {
	_, ok := t.told[key]
	return ok
}

// plan writes the phases that have not been written yet, as a table: where a
// group stands, what it is, how many objects it has, what it waits for.
func (t *Text) plan(phases []event.Phase) {
	var rows [][]string
	groups, objects := 0, 0
	for _, p := range phases {
		if t.planned[p.Name] {
			continue
		}
		t.planned[p.Name] = true
		rows = append(rows, phaseRows(p)...)
		groups += len(p.Groups)
		for _, g := range p.Groups {
			objects += len(g.Objects)
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(t.out, "\nplan: %s in %s\n", Count(objects, "object"), Count(groups, "group"))
	for _, line := range table(rows) {
		fmt.Fprintln(t.out, clean(line))
	}
	t.quiet = true
}

// phaseRows are the lines of a phase: column, group, objects, gates. A layer is
// what could run at the same time.
func phaseRows(p event.Phase) [][]string {
	var rows [][]string
	layer, after := plan.Layers(p.Groups), plan.Reduce(p.Groups)
	last := ""
	for _, g := range inLayers(p.Groups, layer) {
		column := p.Name
		if p.Kind == event.PhaseApply || p.Kind == event.PhaseRemove {
			column += " " + strconv.Itoa(layer[g.ID])
		}
		shown := column
		if column == last {
			shown = ""
		}
		last = column
		wait := ""
		if len(after[g.ID]) > 0 {
			wait = "after " + strings.Join(after[g.ID], ", ")
		}
		rows = append(rows, []string{shown, g.ID, Count(len(g.Objects), "object"), wait})
	}
	return rows
}

// slow is the sign of a group that takes longer than it usually does. It is no
// status: it follows from the events.
const slow = "slow"

// outlook is what a heartbeat adds of how long the run is still going to take,
// where that is known of earlier ones.
func (t *Text) outlook(now time.Time) string {
	if f, ok := forecast.Of(&t.state, now); ok {
		return "; " + f.String()
	}
	return ""
}

// slowGroups tells, of each group once, that it takes longer than it usually does.
// It is asked with the heartbeat and where a group's state changes, and looks through
// the groups when there may be another one.
func (t *Text) slowGroups(e event.Event) {
	if e.Kind == event.KindPlan {
		t.slowAgain = time.Time{}
	}
	if e.Kind != event.KindWaiting && e.Kind != event.KindGroup || !e.Time.After(t.slowAgain) || !forecast.Known(&t.state) {
		return
	}
	late, again := forecast.Late(&t.state, e.Time)
	t.slowAgain = again
	for _, s := range late {
		if u := s.Group.Unit(); !t.slow[u] {
			t.slow[u] = true
			t.line(e, slow, unitName(&t.state, s.Group)+" "+s.String())
		}
	}
}
