package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// The groups of a stack are releases (S1). Its log says installed or upgraded instead of ready, and
// includes the log of each release, with the release's name in front of each line.

// releaseEvent writes an event of a stack's release.
func (t *textLog) releaseEvent(e event.Event) {
	log := t.scopes[e.Scope]
	if log == nil {
		log = newTextLog(t.out, t.warnings, t.opts)
		log.opts.Steer, log.noReturn = "", t.noReturn
		log.scope, log.stackStarted = e.Scope, t.state.Started
		t.scopes[e.Scope] = log
	}
	if t.blankLine && e.Kind != event.KindPlan {
		fmt.Fprintln(t.out)
		t.blankLine = false
	}
	e.Scope = ""
	log.Consume(e)
}

// releaseOperation writes the start of the operation on a release. The stack's line about the release says how it ended.
func (t *textLog) releaseOperation(e event.Event) {
	switch e.Status {
	case event.Running:
		op := t.state.Operation
		op.Release, op.Namespace, op.Context = "", "", "" // the scope has them
		t.line(e, e.Status, headline(op))
	case event.RollingBack:
		t.line(e, e.Status, rollingBackTo(e.Operation))
	}
}

// releaseStatus writes a line for a release's new status.
func (t *textLog) releaseStatus(e event.Event, g *event.GroupState, took time.Duration) {
	if g.Step != nil {
		t.stepStatus(e, g, took)
		return
	}
	switch e.Status {
	case event.Ready, event.Gone:
		verb, detail := releaseOutcome(g)
		t.line(e, e.Status, g.ID+" "+verb+" ("+strings.Join(format.NonEmpty(detail, format.Duration(took)), ", ")+")")
	case event.Failed, event.Aborted:
		cause, outcome := "", ""
		if e.Status == event.Failed {
			cause = g.Cause
		}
		if release := t.state.Scopes[g.ID]; release != nil {
			outcome = release.Outcome
			if len(release.Roots()) > 0 { // its log has the cause
				cause = ""
			}
		}
		t.line(e, e.Status, format.WithReason(g.ID+" "+string(e.Status)+" after "+format.Duration(took), text.Join("; ", cause, outcome)))
	case event.Skipped:
		t.skipped.add(e, g.ID)
	}
}

// releaseOutcome returns what was done to a release, and a detail such as its revision, or "".
func releaseOutcome(g *event.GroupState) (verb, detail string) {
	var release event.ObjectState // the only object of the group
	if len(g.Objects) > 0 {
		release = *g.Objects[0]
	}
	switch {
	case event.IsRollback(g.Phase) && release.Change == event.Kept:
		return "not rolled back", release.Message
	case event.IsRollback(g.Phase) && release.Change == event.Deleted:
		return "rolled back", "uninstalled"
	case event.IsRollback(g.Phase):
		return "rolled back", strings.TrimPrefix(release.Message, "rolled back ")
	case release.Change == event.Created:
		if release.Message == "revision 1" {
			return "installed", ""
		}
		return "installed", release.Message // the earlier attempts were never deployed
	case release.Change == event.Configured:
		return "upgraded", release.Message
	case release.Change == event.Deleted:
		return "uninstalled", ""
	case release.Change == event.Absent:
		return "not installed", ""
	}
	return cmp.Or(string(release.Change), string(g.Status)), ""
}

// stackPlan writes the plan of a stack: its releases in layers, with their groups.
func (t *textLog) stackPlan(phases []event.Phase) {
	var rows [][]string
	unchanged, hooks := 0, 0
	for _, p := range phases {
		layer := func(g *plan.Group) string { return event.LayerTitle(p.Name, p.Kind, g.Layer) }
		if p.Kind == event.PhaseHooks {
			layer = func(*plan.Group) string { return event.PhaseTitle(p.Name, p.Kind) }
		}
		rows = append(rows, planRows(p.Groups, layer, func(g *plan.Group) string {
			release := t.state.Scopes[g.ID]
			switch {
			case g.Step != nil:
				hooks++
				return "runs " + g.Step.Line()
			case release != nil:
				return text.Count(len(release.Groups()), "group") + ", " + text.Count(release.Count().Total, "object")
			case p.Kind == event.PhaseRemove:
				return "not installed"
			}
			unchanged++
			return "unchanged"
		})...)
	}
	head := "plan: " + phrase.CountStack(len(rows)-hooks, hooks)
	if unchanged > 0 {
		head += fmt.Sprintf(", %d unchanged", unchanged)
	}
	fmt.Fprint(t.out, "\n"+head+"\n"+joinLines(table(rows)))
	t.blankLine = true
}

// writeReleases writes the totals of a stack, then a line for each release that is not OK.
func writeReleases(w io.Writer, s *event.State, o Options) {
	rolledBack := func(id string) bool {
		return slices.ContainsFunc(s.Phases, func(p *event.PhaseState) bool {
			return event.IsRollback(p.Name) && s.Find(p.Name, id) != nil
		})
	}
	outcomes, ran := map[string]int{}, 0
	var verbs []string
	var rows [][]string
	for g := range s.GroupStates() {
		result := lateResult(s, g)
		switch {
		case result != "":
			rows = append(rows, append([]string{o.glyphAndWord(event.Failed)}, cleaned(g.ID, result)...))
		case !format.GroupOK(g):
			reason := cmp.Or(g.Cause, phrase.Unfinished(g))
			if release := s.Scopes[g.ID]; release != nil {
				roots := release.Roots()
				switch {
				case len(roots) == 0:
				case g.Status == event.Failed && len(s.Roots()) <= maxFailures: // the end of the summary has the cause
					reason = roots[0].Group.ID
				case reason == "":
					reason = roots[0].Group.ID + ": " + phrase.RootInGroup(roots[0])
				}
			}
			reason = text.Join("; ", reason, phrase.Undone(s.Scopes[g.ID]))
			rows = append(rows, append([]string{o.glyphAndWord(g.Status)}, cleaned(g.ID, reason)...))
		case g.Step != nil:
			ran++
		case event.IsRollback(g.Phase) || !rolledBack(g.ID):
			verb, _ := releaseOutcome(g)
			if outcomes[verb]++; outcomes[verb] == 1 {
				verbs = append(verbs, verb)
			}
		}
	}
	for n, verb := range verbs {
		verbs[n] = fmt.Sprint(outcomes[verb], " ", verb)
	}
	if len(verbs) > 0 {
		mark := event.Ready
		if outcomes["rolled back"]+outcomes["not rolled back"] > 0 {
			mark = "rolled-back"
		}
		fmt.Fprintln(w, " ", o.glyph(mark), "releases:", strings.Join(verbs, ", "))
	}
	if ran > 0 {
		fmt.Fprintln(w, " ", o.glyph(event.Ready), text.Count(ran, "hook"), "ran")
	}
	fmt.Fprint(w, joinLines(table(rows)))
}

// lateResult returns what the record of a release says at the end if that contradicts its group, which ended well: somebody
// else has changed the release since, or it is not ready any more. Otherwise it returns "".
func lateResult(s *event.State, g *event.GroupState) string {
	i := slices.IndexFunc(s.Results, func(r event.ReleaseResult) bool { return r.Release == g.ID })
	if i < 0 || !format.GroupOK(g) || event.IsRollback(g.Phase) {
		return ""
	}
	switch r := s.Results[i]; {
	case r.Newer != nil:
		return "newest: " + r.Newer.String()
	case r.Result == event.ChangedByOthers || r.Result == event.NotReady || r.Result == event.UnknownResult || r.Result == event.Unfinished:
		return string(r.Result) + format.WithPrefix(": ", r.Status)
	}
	return ""
}

// StackPlan is the plan of an operation on a stack.
type StackPlan struct {
	Stack    string        `json:"stack"`
	Releases []ReleasePlan `json:"releases"`
	// Warnings are about the stack itself.
	Warnings []plan.Warning `json:"warnings"`
	// Hooks are the programs that the run starts on this machine, in order.
	Hooks []plan.PlannedStep `json:"hooks,omitempty"`
}

// ReleasePlan is the plan for one release of a stack.
type ReleasePlan struct {
	// Release is [context/]namespace/name, Needs are the releases that it waits for.
	Release string   `json:"release"`
	Needs   []string `json:"needs"`
	// Unchanged releases have no Plan.
	Unchanged bool  `json:"unchanged"`
	Plan      *Plan `json:"plan,omitempty"`
	// Pruned releases are uninstalled because the file no longer defines them.
	Pruned bool `json:"pruned,omitempty"`
	// Absent releases are Unchanged because they are not installed and must not be.
	Absent bool `json:"-"`
}

// Count counts the refused changes together with errors about anything else, and the releases to
// deploy.
func (p StackPlan) Count() (refused, changed int) {
	for _, r := range p.Releases {
		if r.Plan == nil {
			continue
		}
		n, _ := r.Plan.Count()
		changed++
		refused += n
		for _, e := range r.Plan.Errors {
			counted := func(c inspect.Change) bool {
				return e.Object != nil && c.Object == *e.Object && c.Action == inspect.Refuse
			}
			if !slices.ContainsFunc(r.Plan.Changes, counted) {
				refused++
			}
		}
	}
	return refused, changed
}

// warnings returns the warnings about the stack and its releases.
func (p StackPlan) warnings() []plan.Warning {
	all := slices.Clone(p.Warnings)
	for _, r := range p.Releases {
		if r.Plan != nil {
			for _, w := range r.Plan.Warnings {
				w.Message = r.Release + ": " + w.Message
				all = append(all, w)
			}
		}
	}
	return all
}

func (p StackPlan) jsonForm() any {
	out := StackPlan{Stack: p.Stack, Releases: []ReleasePlan{}, Warnings: append([]plan.Warning{}, p.Warnings...), Hooks: p.Hooks}
	for _, r := range p.Releases {
		r.Needs = append([]string{}, r.Needs...)
		if r.Plan != nil {
			plan := r.Plan.jsonForm().(Plan)
			r.Plan = &plan
		}
		out.Releases = append(out.Releases, r)
	}
	return out
}

func (p StackPlan) text(to Stream) string {
	var b strings.Builder
	counts := map[string]int{}
	for _, r := range p.Releases {
		name, needs := to.Style.render(theme.Strong, r.Release), clean(format.WithPrefix(", after ", strings.Join(r.Needs, ", ")))
		if r.Plan == nil {
			state := "unchanged"
			if r.Absent {
				state = "not installed"
			}
			counts[state]++
			b.WriteString(name + " " + state + needs + "\n\n")
			continue
		}
		verb := "to deploy"
		switch {
		case r.Pruned:
			verb = "to prune"
		case r.Plan.Operation.Name == "uninstall":
			verb = "to uninstall"
		}
		counts[verb]++
		note := ""
		if r.Pruned {
			note = " (--prune: no longer in the file)"
		}
		b.WriteString(name + note + needs + "\n" + r.Plan.text(to) + "\n")
	}
	parts := []string{}
	for _, state := range []string{"to deploy", "to uninstall", "to prune", "unchanged", "not installed"} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(p.Hooks) > 0 {
		b.WriteString("hooks run programs on this machine, or images in the cluster (up and down need --allow-hooks):\n")
		var rows [][]string
		for _, h := range p.Hooks {
			rows = append(rows, cleaned("  "+h.ID, h.Line(), h.Pod.String(), h.At, format.WithPrefix("no return: ", h.NoReturn)))
		}
		b.WriteString(joinLines(table(rows)) + "\n")
		parts = append(parts, text.Count(len(p.Hooks), "hook")+" to run")
	}
	fmt.Fprintf(&b, "%s: %s\n", text.Count(len(p.Releases), "release"), strings.Join(parts, ", "))
	return b.String()
}

// StackStatus is the current status of a stack's releases.
type StackStatus []ReleaseStatus

// ReleaseStatus is the current status of a release of a stack: its record, and how many of
// its groups are ready. Problem describes the first group that is not.
type ReleaseStatus struct {
	Release  string `json:"release"`
	Status   string `json:"status"`
	Revision int    `json:"revision,omitempty"`
	Chart    string `json:"chart,omitempty"`
	Groups   int    `json:"groups"`
	Ready    int    `json:"ready"`
	Problem  string `json:"problem,omitempty"`
}

func (s StackStatus) text(Stream) string {
	rows := [][]string{{"RELEASE", "STATUS", "REVISION", "CHART", "READY", ""}}
	for _, r := range s {
		if r.Revision == 0 {
			rows = append(rows, cleaned(r.Release, r.Status))
			continue
		}
		rows = append(rows, cleaned(r.Release, r.Status, format.Number(r.Revision), r.Chart, fmt.Sprintf("%d/%d", r.Ready, r.Groups), r.Problem))
	}
	return joinLines(table(rows))
}

// Needs are the needs that a stack's file does not declare.
type Needs []Need

// Need is a release that needs another one, and the reason.
type Need struct {
	Release string `json:"release"`
	Needs   string `json:"needs"`
	Why     string `json:"why"`
}

func (n Needs) jsonForm() any { return append([]Need{}, n...) } // never null

func (n Needs) text(Stream) string {
	if len(n) == 0 {
		return "no missing needs found\n"
	}
	var lines []string
	for _, need := range n {
		lines = append(lines, clean(need.Release+" needs "+need.Needs), "  "+clean(need.Why))
	}
	return joinLines(lines)
}
