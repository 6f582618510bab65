package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// figure is one thing that was measured, once or more by each tool.
type figure struct {
	Row     string               `json:"row"`
	Name    string               `json:"name"`
	Unit    string               `json:"unit,omitempty"`
	Samples map[string][]float64 `json:"samples"` // by tool, in the order of the rounds
	Against string               `json:"against,omitempty"`
	// Goal is what lockstep's figure, or its ratio to that of Against, is to be at
	// most; 0 for none.
	Goal float64 `json:"goal,omitempty"`
}

// against has lockstep compared with another tool.
func (f *figure) against(tool string) *figure {
	f.Against = tool
	return f
}

// value is the median of a tool's samples.
func (f *figure) value(tool string) float64 { return percentile(f.Samples[tool], 0.5) }

// judged is what the goal is about: the median of the rounds' ratios, or the median.
func (f *figure) judged() float64 {
	if f.Against == "" {
		return f.value(lockstep)
	}
	var ratios []float64
	for i, theirs := range f.Samples[f.Against] {
		if i < len(f.Samples[lockstep]) && theirs > 0 {
			ratios = append(ratios, f.Samples[lockstep][i]/theirs)
		}
	}
	return percentile(ratios, 0.5)
}

// known reports whether there is something to judge: a tool may have failed.
func (f *figure) known() bool {
	return len(f.Samples[lockstep]) > 0 && (f.Against == "" || len(f.Samples[f.Against]) > 0)
}

func (f *figure) reached() bool { return f.Goal == 0 || f.known() && f.judged() <= f.Goal }

// results are those of one run.
type results struct {
	about
	Figures []*figure `json:"figures"`
}

func readResults(path string) (*results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read earlier results: %w", err)
	}
	r := &results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read earlier results in %s: %w", path, err)
	}
	return r, nil
}

// write leaves latest.json and latest.md in a folder.
func (r *results) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"latest.json": string(text) + "\n", "latest.md": r.markdown(all)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("keep the results: %w", err)
		}
	}
	return nil
}

// cells are a figure as tables show it.
func (f *figure) cells() []string {
	unit := f.Unit
	if unit != "" {
		unit = " " + unit
	}
	theirs, ratio, goal := "", "", ""
	if len(f.Samples[helm]) > 0 {
		theirs = number(f.value(helm)) + unit
	}
	if f.Against != "" && f.known() {
		ratio = number(f.judged()) + " ×"
	}
	if f.Goal > 0 {
		goal = "≤ " + number(f.Goal)
		if f.Against != "" {
			goal += " ×"
		}
		switch {
		case f.reached():
			goal += " ✓"
		case f.known():
			goal += " ✗"
		}
	}
	return []string{f.Row, f.Name, number(f.value(lockstep)) + unit, theirs, ratio, goal}
}

// number has three digits that count.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

var columns = []string{"", "", "lockstep", "helm", "ratio", "goal"}

func (r *results) headline() string {
	return fmt.Sprintf("%s, lockstep %s beside helm %s, %s", r.Date, r.Commit, r.Helm, r.Machine)
}

func all(*figure) bool { return true }

// lines are the cells of the figures that are wanted, the name of a row once.
func (r *results) lines(wanted func(*figure) bool) (lines [][]string) {
	row := ""
	for _, f := range r.Figures {
		if !wanted(f) {
			continue
		}
		cells := f.cells()
		if cells[0] == row {
			cells[0] = ""
		}
		row = f.Row
		lines = append(lines, cells)
	}
	return lines
}

func (r *results) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.headline())
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, line := range r.lines(all) {
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// markdown is a table of the figures that are wanted.
func (r *results) markdown(wanted func(*figure) bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. Medians; ratios are those of runs that followed each other.\n\n", r.headline())
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, line := range r.lines(wanted) {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
	}
	return b.String()
}

// slowerThan lists the figures that are more than a tenth worse than in an earlier
// run: by their ratios where there are any, since machines differ.
func (r *results) slowerThan(earlier *results) string {
	var b strings.Builder
	for _, f := range r.Figures {
		at := slices.IndexFunc(earlier.Figures, func(e *figure) bool { return e.Row == f.Row && e.Name == f.Name })
		if at < 0 {
			continue
		}
		was, is := earlier.Figures[at].judged(), f.judged()
		if was > 0 && is > 1.1*was {
			fmt.Fprintf(&b, "slower: %s, %s: %s, was %s\n", f.Row, f.Name, number(is), number(was))
		}
	}
	if b.Len() == 0 {
		return fmt.Sprintf("nothing is more than a tenth slower than on %s (%s)\n", earlier.Date, earlier.Commit)
	}
	return b.String()
}
