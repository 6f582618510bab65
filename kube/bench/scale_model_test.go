package bench

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// model adds a table with each quantity at three sizes, a model base + slope·nᵖ (p: power) through the first two, its
// prediction for the third, and the error of the prediction.
func (s *scaling) model(name, of string, sizes []int, found []step, power int, quantities ...quantity) {
	t := table{name: name, columns: []string{of}}
	for _, n := range sizes {
		t.columns = append(t.columns, strconv.Itoa(n))
	}
	t.columns = append(t.columns, "model from the first two", "model for "+strconv.Itoa(sizes[len(sizes)-1]), "error")
	x := func(i int) float64 { return math.Pow(float64(sizes[i]), float64(power)) }
	variable := "n"
	if power == 2 {
		variable = "n²"
	}
	for _, q := range quantities {
		line := []string{q.name}
		for _, f := range found {
			line = append(line, number(q.of(f)))
		}
		slope := (q.of(found[1]) - q.of(found[0])) / (x(1) - x(0))
		base := q.of(found[0]) - slope*x(0)
		predicted, actual := base+slope*x(2), q.of(found[2])
		sign := "+"
		if slope < 0 {
			sign = "−"
		}
		deviation := "0 %"
		if actual != 0 && math.Abs(predicted-actual)/actual >= 0.005 {
			deviation = fmt.Sprintf("%+.0f %%", 100*(predicted-actual)/actual)
		}
		t.lines = append(t.lines, append(line, fmt.Sprintf("%s %s %s %s", number(base), sign, number(math.Abs(slope)), variable), number(predicted), deviation))
	}
	s.tables = append(s.tables, t)
}

// markdown returns the table, after a line about the run.
func (t table) markdown(about about) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, lockstep %s, %s.\n\n", about.Date, about.Commit, about.Machine)
	row := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	row(t.columns)
	row(strings.Split(strings.Repeat("---,", len(t.columns)-1)+"---", ","))
	for _, l := range t.lines {
		row(l)
	}
	return out.String()
}

// write replaces the measured tables in the page.
func (s *scaling) write(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page for the tables: %w", err)
	}
	about, out := s.describe(), string(text)
	for _, t := range s.tables {
		begin, end := "<!-- "+t.name+" -->\n", "<!-- /"+t.name+" -->"
		before, rest, found := strings.Cut(out, begin)
		_, after, ended := strings.Cut(rest, end)
		fmt.Printf("%s\n%s\n", t.name, t.markdown(about))
		if !found || !ended {
			return fmt.Errorf("%s lacks the lines %q and %q around the table", page, strings.TrimSpace(begin), end)
		}
		out = before + begin + t.markdown(about) + end + after
	}
	return os.WriteFile(page, []byte(out), 0o644)
}
