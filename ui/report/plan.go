package report

import (
	"cmp"
	"fmt"
	"io"
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

// Plan is the changes that an operation would make.
type Plan struct {
	Operation event.Operation  `json:"operation"`
	Changes   []inspect.Change `json:"changes"`
	Warnings  []plan.Warning   `json:"warnings"`
	// Errors are all reasons why lockstep would refuse the operation.
	Errors []plan.Warning `json:"errors"`
	// Saved is set for a plan from a file.
	Saved *Saved `json:"saved,omitempty"`
	// Phases only serve to distinguish removals from other groups.
	Phases []event.Phase `json:"-"`
}

// Saved is what the file of a saved plan has besides the plan.
type Saved struct {
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
	// Cluster identifies the cluster, Revision is the release's latest one.
	Cluster  string            `json:"cluster"`
	Revision int               `json:"revision"`
	Options  map[string]string `json:"options"`
	Images   []string          `json:"images"`
}

// Lines returns who saved the plan, for which revision, and the images.
func (s Saved) Lines() []string {
	when := "before the first revision of the release"
	if s.Revision > 0 {
		when = fmt.Sprintf("at revision %d of the release", s.Revision)
	}
	who := "saved at " + s.At.UTC().Format(time.RFC3339) + format.WithPrefix(" by ", s.By) + ", " + when
	return format.NonEmpty(who, format.WithPrefix("images: ", strings.Join(s.Images, ", ")))
}

// actions are the sign, the word and the colour of each action.
var actions = map[inspect.Action]struct {
	sign, word string
	role       theme.Role
}{
	inspect.Create: {"+", "create", theme.Good}, inspect.Modify: {"~", "change", theme.Busy}, inspect.Unchanged: {"=", "unchanged", theme.Quiet},
	inspect.Replace: {"-/+", "replace", theme.Bad}, inspect.Delete: {"-", "delete", theme.Bad}, inspect.Absent: {"=", "already absent", theme.Quiet}, inspect.Keep: {"=", "keep", theme.Quiet},
	inspect.Hook: {">", "hook", theme.Accent}, inspect.Refuse: {"!", "refused", theme.Bad},
}

func (p Plan) jsonForm() any {
	p.Changes = append([]inspect.Change{}, p.Changes...) // lists are never null
	for n := range p.Changes {
		p.Changes[n].Fields = nil // Diff has them all
	}
	p.Warnings = append([]plan.Warning{}, p.Warnings...)
	p.Errors = append([]plan.Warning{}, p.Errors...)
	return p
}

// PlanLine is a line of a plan as a person reads it.
type PlanLine struct {
	Indent int
	Role   theme.Role
	Text   string
	// Detail follows Text in another role.
	Detail     string
	DetailRole theme.Role
}

func (p Plan) text(to Stream) string {
	var b strings.Builder
	lines := append(p.Lines(), PlanLine{}, PlanLine{Text: p.Summary()})
	if p.Saved != nil {
		for _, l := range p.Saved.Lines() {
			lines = append(lines, PlanLine{Role: theme.Quiet, Text: l})
		}
	}
	for _, l := range lines {
		b.WriteString(strings.Repeat(" ", l.Indent) + to.Style.render(l.Role, l.Text) + to.Style.render(l.DetailRole, l.Detail) + "\n")
	}
	return b.String()
}

// Lines returns the phases, groups and changes of the plan.
func (p Plan) Lines() (lines []PlanLine) {
	head := p.Operation.Name + " " + p.Operation.Release
	if p.Operation.ToRevision > 0 {
		head += fmt.Sprintf(" to revision %d", p.Operation.ToRevision)
	}
	head += format.WithPrefix(": chart ", p.Operation.Chart)
	state := event.State{}
	state.Apply(event.Event{Kind: event.KindPlan, Phases: p.Phases})
	lines = append(lines, PlanLine{Role: theme.Strong, Text: head, Detail: ", namespace " + p.Operation.Namespace})
	var phase, group string
	for n, c := range p.Changes {
		if c.Phase != phase {
			phase, group = c.Phase, ""
			lines = append(lines, PlanLine{}, PlanLine{Role: theme.Strong, Text: cmp.Or(event.PhaseTitle(c.Phase, state.PhaseKind(c.Phase)), c.Phase)})
		}
		g := state.Find(c.Phase, c.Group)
		if c.Group != group && c.Action != inspect.Hook {
			group = c.Group
			gate := ""
			if g != nil {
				gate = format.WithPrefix(" waits for ", plan.OutsideNames(g.WaitFor, p.Operation.Namespace))
				if len(g.Approve) > 0 {
					gate += " " + phrase.Missing(g.Approve)
				}
			}
			lines = append(lines, PlanLine{Indent: 2, Text: group, Detail: gate, DetailRole: theme.Quiet})
		}
		wait := ""
		if g != nil && c.Action != inspect.Hook {
			wait = format.WithPrefix(", ", plannedWait(g.WaitOf(c.Object)))
		}
		lines = append(lines, p.changeLines(c, wait)...)
		last := n == len(p.Changes)-1 || p.Changes[n+1].Group != c.Group || p.Changes[n+1].Phase != c.Phase
		if last && g != nil && g.NoReturn != "" {
			lines = append(lines, PlanLine{}, PlanLine{Role: theme.Stopped, Text: "== " + phrase.NoReturnAfter(g.ID, g.NoReturn) + " =="})
		}
	}
	return lines
}

// changeIndent is the indent of a change below its group.
const changeIndent = 4

// changeLines returns the line of a change, with a detail, and its fields.
func (p Plan) changeLines(c inspect.Change, detail string) []PlanLine {
	a := actions[c.Action]
	lines := []PlanLine{{Indent: changeIndent, Role: a.role, Text: a.sign + " " + p.line(c), Detail: detail, DetailRole: theme.Quiet}}
	for _, l := range inspect.FieldLines(c.Fields) {
		if l.Sign == "" {
			lines = append(lines, PlanLine{Indent: changeIndent + 4, Role: theme.Quiet, Text: l.Text})
			continue
		}
		lines = append(lines, PlanLine{Indent: changeIndent + 4, Role: theme.DiffRole(l.Sign), Text: l.Shown() + " " + l.Text})
	}
	if len(c.Fields) == 0 { // of a plan that was saved without them
		for _, l := range text.Lines(c.Diff) {
			lines = append(lines, PlanLine{Indent: changeIndent + 4, Role: theme.DiffRole(l[:min(1, len(l))]), Text: l})
		}
	}
	return lines
}

func (p Plan) line(c inspect.Change) string {
	s := c.Object.String()
	if ns := c.Object.Namespace; ns != "" && ns != p.Operation.Namespace {
		s += " (namespace " + ns + ")"
	}
	message := strings.TrimPrefix(c.Message, c.Object.String()+": ")
	return format.WithReason(s+" "+cmp.Or(actions[c.Action].word, string(c.Action)), message)
}

// plannedWait says how the operation will wait for an object, "" if as usual: "ready by the operator's rule, stable for 30s".
func plannedWait(w plan.Wait) string {
	if w.Never {
		return event.NotAwaited.Text()
	}
	var parts []string
	if text := event.Judge(w.By).Text(); text != "" {
		parts = append(parts, "ready "+text)
	}
	if w.StableFor > 0 {
		parts = append(parts, "stable for "+text.Duration(w.StableFor))
	}
	if w.Timeout > 0 {
		parts = append(parts, "readiness timeout "+text.Duration(w.Timeout))
	}
	return strings.Join(parts, ", ")
}

// Count counts the refused changes and those that modify the cluster. Hooks do not count: they
// run with every operation.
func (p Plan) Count() (refused, changed int) {
	n := countActions(p.Changes)
	return n[inspect.Refuse], n[inspect.Create] + n[inspect.Modify] + n[inspect.Replace] + n[inspect.Delete]
}

// Tally is a number of changes: 3 "to create".
type Tally struct {
	N    int
	Text string
}

func (t Tally) String() string { return fmt.Sprint(t.N, " ", t.Text) }

func countActions(changes []inspect.Change) map[inspect.Action]int {
	n := map[inspect.Action]int{}
	for _, c := range changes {
		n[c.Action]++
	}
	return n
}

// Tallies counts the changes of the plan by what they do to objects, without those that are 0.
func (p Plan) Tallies() (all []Tally) {
	n := countActions(p.Changes)
	for _, t := range []Tally{{n[inspect.Create], "to create"}, {n[inspect.Modify], "to change"}, {n[inspect.Replace], "to replace"}, {n[inspect.Delete], "to delete"},
		{n[inspect.Unchanged], "unchanged"}, {n[inspect.Keep], "kept"}, {n[inspect.Absent], "already absent"}, {n[inspect.Hook], "hook to run"}, {n[inspect.Refuse], "refused"}} {
		if t.N > 1 && t.Text == "hook to run" {
			t.Text = "hooks to run"
		}
		if t.N > 0 {
			all = append(all, t)
		}
	}
	return all
}

// Summary counts the changes in one line.
func (p Plan) Summary() string { return cmp.Or(joinTallies(p.Tallies()), "no changes") }

func joinTallies(all []Tally) string {
	words := make([]string, len(all))
	for n, t := range all {
		words[n] = t.String()
	}
	return strings.Join(words, ", ")
}

// DryRun is the release that an install or an upgrade would deploy.
type DryRun struct {
	// Release is the release as Helm prints it as JSON.
	Release any
	// Print writes its manifest in the order of deployment.
	Print    func(io.Writer) error
	Phases   []event.Phase // only removals are shown
	Notes    string
	Warnings []plan.Warning
	// Hide masks secret values in text.
	Hide func(string) string
}

// DryRun shows a dry run.
func (d Display) DryRun(r DryRun) error {
	d.Warnings(r.Warnings)
	var b strings.Builder
	if !d.isText() {
		if err := encodeLine(&b, r.Release); err != nil {
			return err
		}
		return write(d.out, r.Hide(b.String()))
	}
	if err := r.Print(&b); err != nil {
		return err
	}
	if err := write(d.Data(), r.Hide(b.String())); err != nil {
		return err
	}
	if r.Notes != "" {
		d.Note("NOTES:\n" + r.Hide(r.Notes))
	}
	var removed []string
	for g, o := range event.Objects(r.Phases) {
		if g.Phase.Kind == event.PhaseRemove {
			removed = append(removed, "## REMOVE: "+clean(g.ID+" "+o.String()))
		}
	}
	return write(d.lines, joinLines(removed))
}

// Edit compares an edited revision with the one it replaces (R46).
type Edit struct {
	Operation     event.Operation
	Before, After []event.Phase
	Changes       []inspect.Change
	Warnings      []plan.Warning
	// Empty means that both revisions apply the same objects in the same order.
	Empty bool
}

// Lines returns the counts, the warnings and the changes to the plan. A line about a group starts,
// after its indent, with + (new), - (removed) or ~ (changed).
func (e Edit) Lines() []string {
	counts := cmp.Or(joinTallies(Plan{Changes: e.Changes}.Tallies()), "no object changes")
	lines := []string{fmt.Sprintf("this edit (revision %d): %s", e.Operation.Revision, counts)}
	if e.Empty {
		lines = []string{"no object changes: nothing to apply"}
	}
	for _, w := range e.Warnings {
		lines = append(lines, "! "+format.Warning(w.Rule, nil, w.Message))
	}
	if plan := e.plan(); len(plan) > 0 && !e.Empty {
		lines = append(append(lines, "", "plan"), plan...)
	}
	return cleaned(lines...)
}

// plan returns the changes to the applied groups and their order.
func (e Edit) plan() (lines []string) {
	before, after := plan.Plan{Groups: appliedGroups(e.Before)}, plan.Plan{Groups: appliedGroups(e.After)}
	for _, g := range after.Groups {
		old, dependencies := before.Group(g.ID), strings.Join(g.After, ", ")
		switch {
		case old == nil:
			lines = append(lines, fmt.Sprintf("  + %s (%s)%s", g.ID, text.Count(len(g.Objects), "object"), format.WithPrefix(", after ", dependencies)))
		case strings.Join(old.After, ", ") != dependencies:
			lines = append(lines, "  ~ "+g.ID+" waits for "+cmp.Or(dependencies, "nothing"))
		}
	}
	for _, g := range before.Groups {
		if after.Group(g.ID) == nil {
			lines = append(lines, "  - "+g.ID)
		}
	}
	return lines
}

// appliedGroups returns the groups of all phases except removals and the namespace, which already exists.
func appliedGroups(phases []event.Phase) (groups []*plan.Group) {
	for _, p := range phases {
		if p.Kind != event.PhaseRemove && p.Kind != event.PhaseNamespace {
			groups = append(groups, p.Groups...)
		}
	}
	return groups
}

// ChangeLines returns the changes of an operation as lines of a plan, without their groups.
func ChangeLines(op event.Operation, changes []inspect.Change) (lines []string) {
	p := Plan{Operation: op}
	for _, c := range changes {
		for _, l := range p.changeLines(c, "") {
			lines = append(lines, strings.Repeat(" ", l.Indent-changeIndent)+l.Text)
		}
	}
	return lines
}
