package report

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"
	"lockstep/theme"
)

// Written is what has been written into the files of a chart, and what is left.
type Written struct {
	Chart string        `json:"chart"`
	Files []WrittenFile `json:"files"`
	Left  []LeftOut     `json:"left"`
}

// WrittenFile is a file below the chart's directory, and how many lines it got.
type WrittenFile struct {
	Name  string `json:"name"`
	Lines int    `json:"lines"`
}

// LeftOut is something that has to be put in by hand: which lines, for which
// objects, or where there are none, into Chart.yaml.
type LeftOut struct {
	Chart   string        `json:"chart"`
	Objects []plan.Object `json:"objects,omitempty"`
	File    string        `json:"file,omitempty"`
	Line    int           `json:"line,omitempty"`
	Why     string        `json:"why"`
	Lines   []string      `json:"lines"`
}

func (m machine) Written(w Written) error { return encode(m.out, w) }

func (h human) Written(w Written) error {
	var b strings.Builder
	total := 0
	var rows [][]string
	for _, f := range w.Files {
		total += f.Lines
		rows = append(rows, []string{f.Name, fmt.Sprintf("+%d", f.Lines)})
	}
	switch {
	case len(w.Files) == 0 && len(w.Left) == 0:
		fmt.Fprintf(&b, "%s says all of its order already; nothing was written\n", clean(w.Chart))
	case len(w.Files) == 0:
		fmt.Fprintf(&b, "nothing was written to %s\n", clean(w.Chart))
	default:
		fmt.Fprintf(&b, "%s: %s added to %s, and nothing else changed\n", clean(w.Chart), Count(total, "line"), Count(len(w.Files), "file"))
	}
	for _, line := range table(rows) {
		fmt.Fprintf(&b, "%s\n", clean(line))
	}
	if len(w.Left) > 0 {
		b.WriteString("\nto be put in by hand:\n")
	}
	for _, l := range w.Left {
		at := l.File
		if at == "" {
			at = l.Chart
		}
		if l.Line > 0 {
			at = fmt.Sprintf("%s:%d", at, l.Line)
		}
		about := ""
		if len(l.Objects) > 0 {
			about = " " + someOf(names(l.Objects))
		}
		fmt.Fprintf(&b, "  %s%s: %s\n", h.out.Style.render(theme.Strong, clean(at)), clean(about), clean(l.Why))
		for _, line := range l.Lines {
			fmt.Fprintf(&b, "      %s\n", clean(line))
		}
	}
	return write(h.text, b.String())
}
