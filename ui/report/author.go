package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// SeverityInfo is the severity of a finding that needs no fix.
const SeverityInfo = plan.SeverityInfo

// Lint is the result of "lint".
type Lint struct {
	Charts []LintedChart `json:"charts"`
	// Quiet hides findings of SeverityInfo in the text. Diff means that LintedChart.Fixed has not been written.
	Quiet, Diff bool `json:"-"`
}

// LintedChart is the result for one chart.
type LintedChart struct {
	Chart    string    `json:"chart"`
	Failed   bool      `json:"failed"`
	Findings []Finding `json:"findings"`
	NotFound bool      `json:"-"` // then it also counts as failed
	// Fixed are the lines that --fix wrote, or --diff shows.
	Fixed []FixedLine `json:"fixed,omitempty"`
}

// FixedLine is a run of lines of a file, as it was and as it is or would be. Line counts from 1.
type FixedLine struct {
	File string   `json:"file"`
	Line int      `json:"line"`
	Old  []string `json:"old"`
	New  []string `json:"new"`
}

// Finding is a message about a chart. Rule is empty for messages of Helm.
type Finding struct {
	Severity string       `json:"severity"` // error, warning or info
	Rule     string       `json:"rule,omitempty"`
	Chart    string       `json:"chart,omitempty"`
	Object   *plan.Object `json:"object,omitempty"`
	Path     string       `json:"path,omitempty"`
	Message  string       `json:"message"`
}

// Failed counts the charts with an error.
func (l Lint) Failed() int {
	n := 0
	for _, c := range l.Charts {
		if c.Failed {
			n++
		}
	}
	return n
}

func (l Lint) text(Stream) string {
	var b strings.Builder
	for _, c := range l.Charts {
		lines := []string{}
		for _, x := range c.Fixed {
			lines = append(lines, x.text(l.Diff)...)
		}
		for _, f := range c.Findings {
			if !l.Quiet || f.Severity != SeverityInfo {
				lines = append(lines, f.String())
			}
		}
		if !l.Quiet || len(lines) > 0 {
			fmt.Fprintf(&b, "==> Linting %s\n%s\n", clean(c.Chart), strings.Join(append(lines, ""), "\n"))
		}
	}
	if b.Len() > 0 {
		fmt.Fprintln(&b, l.summary())
	}
	return b.String()
}

// text returns the change as a diff.
func (x FixedLine) text(wouldFix bool) []string {
	head := "fixed "
	if wouldFix {
		head = "--fix would change "
	}
	lines := []string{fmt.Sprintf("%s%s:%d", head, clean(x.File), x.Line)}
	for _, old := range x.Old {
		lines = append(lines, "- "+clean(old))
	}
	for _, now := range x.New {
		lines = append(lines, "+ "+clean(now))
	}
	return lines
}

// summary counts the charts.
func (l Lint) summary() string {
	notFound := 0
	for _, c := range l.Charts {
		if c.NotFound {
			notFound++
		}
	}
	linted := len(l.Charts) - notFound
	if linted == 0 {
		return text.Count(notFound, "chart") + " not found"
	}
	out := text.Count(linted, "chart") + " linted, "
	if n := l.Failed() - notFound; n > 0 {
		out += fmt.Sprintf("%d failed", n)
	} else {
		out += "no errors"
	}
	if notFound > 0 {
		out += fmt.Sprintf(", %d not found", notFound)
	}
	return out
}

// String formats a finding as Helm does.
func (f Finding) String() string {
	text := format.Warning(f.Rule, nil, f.Message)
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	return "[" + strings.ToUpper(f.Severity) + "] " + text
}

// ChartEdits is the result of "suggest --write".
type ChartEdits struct {
	Chart  string       `json:"chart"`
	Files  []EditedFile `json:"files"`
	Manual []ManualEdit `json:"left"`
	// Restarts are the workloads that restart once because a checksum in their pods changes.
	Restarts []plan.Object `json:"restarts,omitempty"`
	// NoOrder means that the chart neither declares nor implies dependencies between its groups.
	NoOrder bool `json:"-"`
}

// EditedFile is a file below the chart's directory, and the number of added lines.
type EditedFile struct {
	Name  string `json:"name"`
	Lines int    `json:"lines"`
}

// ManualEdit has lines to add by hand: to the templates of Objects, or, without Objects, to Chart.yaml.
type ManualEdit struct {
	Chart   string        `json:"chart"`
	Objects []plan.Object `json:"objects,omitempty"`
	File    string        `json:"file,omitempty"`
	Line    int           `json:"line,omitempty"`
	Why     string        `json:"why"`
	Lines   []string      `json:"lines"`
}

func (c ChartEdits) text(to Stream) string {
	total := 0
	var rows [][]string
	for _, f := range c.Files {
		total += f.Lines
		rows = append(rows, cleaned(f.Name, fmt.Sprintf("+%d", f.Lines)))
	}
	head := fmt.Sprintf("%s: added %s to %s", c.Chart, text.Count(total, "line"), text.Count(len(c.Files), "file"))
	switch {
	case c.NoOrder:
		head = c.Chart + ": no dependencies between groups found; nothing to write"
	case len(c.Files) == 0 && len(c.Manual) == 0:
		head = c.Chart + " already declares the whole order; nothing to write"
	case len(c.Files) == 0:
		head = "nothing was written to " + c.Chart
	}
	var b strings.Builder
	b.WriteString(clean(head) + "\n" + joinLines(table(rows)))
	if len(c.Restarts) > 0 {
		fmt.Fprintf(&b, "the next upgrade restarts these workloads once, because a checksum in their pods changes: %s\n", clean(format.Abbreviate(names(c.Restarts))))
	}
	if len(c.Files) > 0 {
		b.WriteString(clean("review the changes: git diff "+c.Chart) + "\n" + clean("see the order: lockstep dag "+c.Chart) + "\n")
	}
	if len(c.Manual) > 0 {
		b.WriteString("\nnot written:\n")
	}
	for _, m := range c.Manual {
		at := cmp.Or(m.File, m.Chart)
		if m.Line > 0 {
			at = fmt.Sprintf("%s:%d", at, m.Line)
		}
		about := format.WithReason(format.WithPrefix(" ", format.Abbreviate(names(m.Objects))), m.Why)
		b.WriteString("  " + to.Style.render(theme.Strong, at) + clean(about) + "\n")
		for _, line := range m.Lines {
			b.WriteString("      " + clean(line) + "\n")
		}
	}
	return b.String()
}

// Suggested is an inferred order and its plan.
type Suggested struct {
	Plan  *plan.Plan
	Order *infer.Order
	// NotInferred has pairs of groups: the chart declares that the first waits for the second, but no
	// edge confirms it.
	NotInferred [][2]string
	// All makes the text list all reasons between groups.
	All bool
}

// Suggestion writes the plan of an inferred order as Dag does, with reasons: text has those
// between groups, json all edges.
func Suggestion(w io.Writer, title string, s Suggested, format string, style Style) error {
	if format == "json" {
		return suggestionJSON(escaped(w), s)
	}
	err := Dag(w, title, s.Plan, format, style)
	if err == nil && format == "text" {
		err = write(styled(w, style), reasonsText(s, style))
	}
	return err
}

type suggestedEdge struct {
	From     plan.Object    `json:"from"`
	To       plan.Object    `json:"to"`
	Strength infer.Strength `json:"strength"`
	Reason   string         `json:"reason"`
	// Value is what field Path of the object In contains.
	In    plan.Object `json:"in"`
	Path  string      `json:"path"`
	Value string      `json:"value,omitempty"`
}

func suggestionJSON(w io.Writer, s Suggested) error {
	out := struct {
		dagOutput
		Edges []suggestedEdge `json:"edges"`
	}{newDagOutput(s.Plan), []suggestedEdge{}}
	for _, e := range s.Order.Edges {
		out.Edges = append(out.Edges, suggestedEdge{e.From, e.To, e.Strength, e.Reason.Text, e.Reason.In, e.Reason.Path, e.Reason.Value})
	}
	return JSON(w, out)
}

// reasonsText explains why groups wait for others.
func reasonsText(s Suggested, style Style) string {
	why, edges := groupReasons(s, style)
	var b strings.Builder
	b.WriteString(format.WithPrefix("\nwhy\n", joinLines(why)))
	if len(s.NotInferred) > 0 {
		b.WriteString("\ndeclared in the chart, but nothing in the manifests requires it\n")
		for _, pair := range s.NotInferred {
			b.WriteString(orderText(pair[0], pair[1], style) + "\n")
		}
	}
	if inside := len(s.Order.Edges) - edges; inside > 0 {
		text := "1 dependency inside a group is not listed; Helm's install order already covers it"
		if inside > 1 {
			text = fmt.Sprintf("%d dependencies inside groups are not listed; Helm's install order already covers them", inside)
		}
		advice := "List all dependencies with -o json"
		if !s.All {
			advice += "; those between groups with --why=all"
		}
		fmt.Fprintf(&b, "\n%s.\n%s.\n", text, advice)
	}
	if len(why) > 0 {
		b.WriteString("\nTo deploy in this order, use --order=inferred; to write it into the chart, suggest --write.\n")
	}
	return b.String()
}

// orderText says that one group comes after another.
func orderText(group, other string, style Style) string {
	return "  " + style.render(theme.Strong, group) + " after " + style.render(theme.Strong, other)
}

// groupReasons returns lines about the edges between groups, and the number of these edges. With All
// it lists every edge. Otherwise each edge of the drawing has a line with its strongest reason, preferably one that is more
// than a reference (infer.Hard), and so does every other edge with such a reason.
func groupReasons(s Suggested, style Style) (lines []string, edges int) {
	drawn := plan.Reduce(s.Plan.Groups)
	notReference := func(e infer.Edge) bool { return e.Strength != infer.Hard }
	for _, g := range s.Plan.Groups {
		for _, id := range g.After {
			reasons := s.Order.Between(g.Objects, s.Plan.Group(id).Objects)
			edges += len(reasons)
			switch inDrawing := slices.Contains(drawn[g.ID], id); {
			case len(reasons) == 0 && inDrawing && !slices.Contains(s.NotInferred, [2]string{g.ID, id}):
				lines = append(lines, orderText(g.ID, id, style)+": "+clean(indirectReason(g, id)))
			case len(reasons) == 0:
			case s.All:
				lines = append(lines, listReasons(g.ID, id, reasons, style)...)
			case inDrawing || slices.ContainsFunc(reasons, notReference):
				best := reasons[max(0, slices.IndexFunc(reasons, notReference))]
				line := orderText(g.ID, id, style) + ": " + clean(best.Reason.Text)
				if n := len(reasons) - 1; n > 0 {
					line += style.render(theme.Faint, fmt.Sprintf(" (and %d more)", n))
				}
				lines = append(lines, line)
			}
		}
	}
	return lines, edges
}

// indirectReason says why a group waits for another one without an edge between their objects.
func indirectReason(g *plan.Group, id string) string {
	switch why := g.Why[id]; {
	case why != "": // of their charts
		return "a subchart waits for all of another one; " + why
	case g.Name == plan.Unsequenced:
		return "objects without a group come last in their chart"
	}
	return "objects that several groups need come first" // R64: the group base
}

// listReasons lists all reasons why a group waits for another one.
func listReasons(group, other string, reasons []infer.Edge, style Style) []string {
	lines := []string{orderText(group, other, style)}
	for _, e := range reasons {
		lines = append(lines, "    "+style.render(theme.Faint, fmt.Sprintf("%-7s", e.Strength))+" "+clean(e.String()))
	}
	return lines
}

// Images are the images of charts or releases, sorted by name.
type Images struct {
	Images []UsedImage `json:"images"`
}

// UsedImage is an image, and who uses it. Guess is set if it is only in texts that look like an image.
type UsedImage struct {
	Image string     `json:"image"`
	Guess bool       `json:"guess,omitempty"`
	Uses  []ImageUse `json:"uses"`
}

// ImageUse is a field with an image. By is its container or volume.
type ImageUse struct {
	Release   string      `json:"release,omitempty"`
	Namespace string      `json:"namespace,omitempty"`
	Object    plan.Object `json:"object"`
	Hook      bool        `json:"hook,omitempty"`
	Path      string      `json:"path"`
	By        string      `json:"by,omitempty"`
}

// Add adds a use of an image.
func (i *Images) Add(image string, guess bool, use ImageUse) {
	at, found := slices.BinarySearchFunc(i.Images, image, func(known UsedImage, name string) int { return strings.Compare(known.Image, name) })
	if !found {
		i.Images = slices.Insert(i.Images, at, UsedImage{Image: image, Guess: guess})
	}
	known := &i.Images[at]
	known.Guess, known.Uses = known.Guess && guess, append(known.Uses, use)
}

func (i Images) text(Stream) string {
	var rows [][]string
	for _, image := range i.Images {
		var uses []string
		for _, u := range image.Uses {
			use, as := text.Join("/", u.Namespace, u.Release, u.Object.String()), u.By
			if u.Hook {
				as = text.Join(", ", "hook", u.By)
			}
			if as != "" {
				use += " (" + as + ")"
			}
			if !slices.Contains(uses, clean(use)) {
				uses = append(uses, clean(use))
			}
		}
		guess := ""
		if image.Guess {
			guess = "guess: "
		}
		rows = append(rows, []string{clean(image.Image), guess + strings.Join(uses, ", ")})
	}
	return unindent(table(rows))
}

// ValuesDiff is what a new version of a chart does to somebody's values.
type ValuesDiff struct {
	Old     ChartVersion  `json:"old"`
	New     ChartVersion  `json:"new"`
	Changes []ValueChange `json:"changes"`
}

// ChartVersion is a version of a chart.
type ChartVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// ValueChange is what happens to a value. Kind is unused, default or required; By says what requires it.
type ValueChange struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	By   string `json:"by,omitempty"`
}

func (d ValuesDiff) text(Stream) string {
	var rows [][]string
	for _, c := range d.Changes {
		what := "has no effect any more"
		switch {
		case c.By != "":
			what = "is required now, by " + c.By
		case c.Kind == "default":
			what = "default " + cmp.Or(clean(c.Old), "none") + " → " + cmp.Or(clean(c.New), "none")
		}
		rows = append(rows, []string{clean(c.Path), what})
	}
	if len(rows) == 0 {
		versions := d.Old.Version
		if d.New.Version != d.Old.Version {
			versions += " → " + d.New.Version
		}
		return clean(d.Old.Name+" "+versions) + ": your values work as before\n"
	}
	return unindent(table(rows))
}
