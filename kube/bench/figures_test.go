package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// figure is one measured quantity, with one or more samples of each tool.
type figure struct {
	Row     string               `json:"row"`
	Name    string               `json:"name"`
	Unit    string               `json:"unit,omitempty"`
	Samples map[string][]float64 `json:"samples"` // by tool, in the order of the rounds
	Against string               `json:"against,omitempty"`
	// Goal is the maximum for lockstep's value, or for its ratio to that of Against; 0 for none.
	Goal float64 `json:"goal,omitempty"`
}

// against makes the figure a comparison of lockstep with another tool.
func (f *figure) against(tool string) *figure {
	f.Against = tool
	return f
}

// value is the median of a tool's samples.
func (f *figure) value(tool string) float64 { return percentile(f.Samples[tool], 0.5) }

// judged returns the value to compare with the goal: the median of the ratios of all
// rounds, or the median if there is no comparison.
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

// known reports whether there is a value to compare with the goal. There is none if a tool
// failed.
func (f *figure) known() bool {
	return len(f.Samples[lockstep]) > 0 && (f.Against == "" || len(f.Samples[f.Against]) > 0)
}

func (f *figure) reached() bool { return f.Goal == 0 || f.known() && f.judged() <= f.Goal }

// results are the results of a benchmark run.
type results struct {
	about
	// Later are the rows that were measured in a later run.
	Later   map[string]about `json:"later,omitempty"`
	Figures []*figure        `json:"figures"`
}

// add adds the rows of a later run, replacing those of the same name.
func (r *results) add(later *results) {
	if r.Later == nil {
		r.Later = map[string]about{}
	}
	measured := map[string]bool{}
	for _, f := range later.Figures {
		measured[f.Row], r.Later[f.Row] = true, later.about
	}
	r.Figures = slices.DeleteFunc(r.Figures, func(f *figure) bool { return measured[f.Row] })
	r.Figures = append(r.Figures, later.Figures...)
	place := func(f *figure) int { return slices.IndexFunc(rows, func(row row) bool { return row.name == f.Row }) }
	slices.SortStableFunc(r.Figures, func(a, b *figure) int { return place(a) - place(b) })
}

// dates returns sentences about the wanted rows that were measured in a later run.
func (r *results) dates(wanted func(*figure) bool) (text string) {
	row := ""
	for _, f := range r.Figures {
		if !wanted(f) || f.Row == row {
			continue
		}
		row = f.Row
		if a, ok := r.Later[row]; ok {
			text += fmt.Sprintf(" The \"%s\" rows were measured on %s with lockstep %s", row, a.Date, a.Commit)
			if len(a.Load) == 2 {
				text += fmt.Sprintf(" at a load average of %s to %s", number(a.Load[0]), number(a.Load[1]))
			}
			text += "."
		}
	}
	return text
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

// write writes latest.json and latest.md to a folder.
func (r *results) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"latest.json": string(text) + "\n", "latest.md": r.markdown(everyFigure, r.rivals())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	return nil
}

// cell formats a tool's value for a table, "" if there is none.
func (f *figure) cell(tool string) string {
	if len(f.Samples[tool]) == 0 {
		return ""
	}
	return strings.TrimSpace(number(f.value(tool)) + " " + f.Unit)
}

// cells returns the cells of a figure in a table, including those of rivals.
func (f *figure) cells(rivals []string) []string {
	ratio, goal := "", ""
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
	cells := []string{f.Row, f.Name, f.cell(lockstep), f.cell(helm), ratio, goal}
	for _, name := range rivals {
		cells = append(cells, f.cell(name))
	}
	return cells
}

// number formats a number with three significant digits.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

func columns(rivals []string) []string {
	return append([]string{"", "", "lockstep", "helm", "ratio", "goal"}, rivals...)
}

// rivals returns the names of the rivals that have figures.
func (r *results) rivals() (names []string) {
	for _, t := range rivals {
		if slices.ContainsFunc(r.Figures, func(f *figure) bool { return len(f.Samples[t.name]) > 0 }) {
			names = append(names, t.name)
		}
	}
	return names
}

// headline names the versions of lockstep, helm and the given rivals, and the machine.
func (r *results) headline(rivals []string) string {
	others := "helm " + r.Helm
	for _, name := range rivals {
		others += ", " + name + " " + r.Rivals[name]
	}
	return fmt.Sprintf("%s, lockstep %s, %s, %s", r.Date, r.Commit, others, r.Machine)
}

func everyFigure(*figure) bool { return true }

// lines returns the cells of the wanted figures. The row's name is only in its first line.
func (r *results) lines(wanted func(*figure) bool, rivals []string) (lines [][]string) {
	row := ""
	for _, f := range r.Figures {
		if !wanted(f) {
			continue
		}
		cells := f.cells(rivals)
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
	fmt.Fprintln(&b, r.headline(r.rivals()))
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns(r.rivals()), "\t"))
	for _, line := range r.lines(everyFigure, r.rivals()) {
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	_ = w.Flush() // a strings.Builder never fails
	for _, name := range r.rivals() {
		fmt.Fprintf(&b, "%s %s\n", name, toolNamed(name).note)
	}
	return b.String()
}

// markdown returns a table of the wanted figures, with columns for rivals.
func (r *results) markdown(wanted func(*figure) bool, rivals []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. Medians; each ratio is the median over pairs of consecutive runs.", r.headline(rivals))
	for _, name := range rivals {
		fmt.Fprintf(&b, " %s %s.", name, toolNamed(name).note)
	}
	b.WriteString(r.dates(wanted))
	b.WriteString(markdownTable(columns(rivals), r.lines(wanted, rivals)))
	return b.String()
}

// markdownTable returns a table in Markdown, after an empty line.
func markdownTable(head []string, lines [][]string) string {
	text := fmt.Sprintf("\n\n| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, line := range lines {
		text += fmt.Sprintf("| %s |\n", strings.Join(line, " | "))
	}
	return text
}

// readmeFigures are the figures of one row that the README names, pageFigures those of the page "benchmarks".
var (
	readmeFigures = []string{"install", "upgrade", "rollback", "uninstall"}
	pageRows      = []string{"chain of 20 × 5 ConfigMaps", "1,000 ConfigMaps", "5,000 ConfigMaps"}
)

const readmeRow = "1,000 ConfigMaps"

// readme returns the line of the README.
func (r *results) readme() string {
	var parts []string
	for _, f := range r.Figures {
		if f.Row == readmeRow && slices.Contains(readmeFigures, f.Name) {
			parts = append(parts, fmt.Sprintf("%s %.1f %s, Helm %.1f %s", f.Name, f.value(lockstep), f.Unit, f.value(helm), f.Unit))
		}
	}
	return "With " + readmeRow + ": " + strings.Join(parts, "; ") + ". The page [benchmarks](ui/cli/help/benchmarks.md) has more.\n"
}

// page returns the table of the page "benchmarks": what users wait for and need memory for, without goals.
func (r *results) page() string {
	wanted := func(f *figure) bool { return slices.Contains(pageRows, f.Row) && f.known() && f.Against != "" }
	lines := r.lines(wanted, nil)
	for i, line := range lines {
		lines[i] = line[:len(line)-1]
	}
	head := columns(nil)
	return r.headline(nil) + ". Medians; each ratio is the median over pairs of consecutive runs." + r.dates(wanted) + markdownTable(head[:len(head)-1], lines)
}

// slowerThan lists the figures that are more than 10 % worse than in an earlier run. It
// compares ratios if there are any, because machines differ.
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
		return fmt.Sprintf("nothing is more than 10 %% slower than on %s (%s)\n", earlier.Date, earlier.Commit)
	}
	return b.String()
}
