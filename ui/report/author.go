package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// Lint is the result of "lint".
type Lint struct {
	Charts []LintedChart `json:"charts"`
	// Quiet hides findings of plan.SeverityInfo in the text. Diff means that LintedChart.Fixed has not been written.
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
			if !l.Quiet || f.Severity != plan.SeverityInfo {
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
		b.WriteString(clean("review the changes: git diff "+c.Chart) + "\n" + clean("see the order: "+text.Program+" dag "+c.Chart) + "\n")
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
