package home

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/ui/board/canvas"
)

// Sort is the order of the releases.
type Sort int

const (
	ByName Sort = iota
	ByHealth
	ByChange
	sorts
)

// row is a line of the table: a run, a release, or a stack, whose releases follow it. run is also that of a part, stack also that of a
// release.
type row struct {
	run     *LiveRun
	part    *Part
	last    bool // the last part of its run, or release of its stack
	release *Release
	stack   *Stack
}

// isStack reports whether a row is that of a stack.
func (r row) isStack() bool { return r.stack != nil && r.release == nil }

// id identifies a row while the table changes.
func (r row) id() string {
	switch {
	case r.part != nil:
		return "part " + r.run.Namespace + "/" + r.run.Name + "/" + r.part.Name
	case r.run != nil:
		return "run " + r.run.Namespace + "/" + r.run.Name + "/" + r.run.Cluster
	case r.isStack():
		return "stack " + r.stack.Name
	}
	return "release " + r.release.Namespace + "/" + r.release.Name
}

// key returns the release of a row, or the stack.
func (r row) key() Key {
	switch {
	case r.run != nil:
		return r.run.Key
	case r.isStack():
		return Key{Name: r.stack.Name}
	}
	return r.release.Key
}

// liveRun returns the run of a row, nil if it is that of a release.
func (r *row) liveRun() *LiveRun {
	if r == nil {
		return nil
	}
	return r.run
}

// verb returns the operation of a run without its chart.
func (r *LiveRun) verb() string {
	verb, _, _ := strings.Cut(r.Operation, " ")
	return verb
}

// worksOn reports whether a run changes a release now.
func (r *LiveRun) worksOn(k Key) bool {
	return r.Key == k || slices.ContainsFunc(r.Parts, func(p Part) bool {
		return p.Name == k.Namespace+"/"+k.Name && slices.Contains([]event.Status{event.Running, event.InProgress, event.Degraded, event.Paused, event.Held}, p.Status)
	})
}

// withHealth returns runs with what is known of the health of their releases: a run is degraded as soon as its release is.
func withHealth(runs []LiveRun, releases []Release) []LiveRun {
	runs = slices.Clone(runs)
	for i := range runs {
		r := &runs[i]
		at := slices.IndexFunc(releases, func(rel Release) bool { return rel.Key == r.Key && rel.Health.Degraded })
		if at >= 0 && r.Status == event.Running {
			r.Status, r.Why = event.Degraded, text.Join("; ", releases[at].Health.Cause, r.Why)
		}
	}
	return runs
}

// table is the rows that match the filter, runs first.
type table struct {
	rows []row
	runs int // how many of the rows are runs and their parts
	widths
}

// widths are those of the widest texts in the columns.
type widths struct{ name, chart, status, health, by, operation, verb, why int }

// newTable filters and sorts the rows of a snapshot. name returns how a release is called.
func newTable(s *Snapshot, filter string, order Sort, name func(Key) string) table {
	words := wordsOf(filter)
	var t table
	for i := range s.Runs {
		r := &s.Runs[i]
		if !matches(words, r.Namespace+"/"+r.Name, r.Operation, string(r.Status), r.Why, r.By, r.Cluster) &&
			!slices.ContainsFunc(r.Parts, func(p Part) bool { return matches(words, p.Name, p.Why) }) {
			continue
		}
		t.rows = append(t.rows, row{run: r})
		t.name, t.operation = max(t.name, canvas.Width(name(r.Key))), max(t.operation, canvas.Width(r.Operation))
		t.verb = max(t.verb, canvas.Width(r.verb()))
		t.why = max(t.why, canvas.Width(string(r.Status)+": "+r.Why))
		for n := range r.Parts {
			t.rows = append(t.rows, row{run: r, part: &r.Parts[n], last: n == len(r.Parts)-1})
		}
	}
	t.runs = len(t.rows)
	for i := range s.Releases {
		r := &s.Releases[i]
		stack, stackName := s.stackOf(r.Key), ""
		if stack != nil {
			stackName = stack.Name
		}
		if matches(words, r.Namespace+"/"+r.Name, r.Chart, r.ready(), r.Status, r.Health.Cause, r.By, stackName) {
			if order != ByName { // then a tree would say nothing
				stack = nil
			}
			t.rows = append(t.rows, row{release: r, stack: stack})
			t.name, t.chart = max(t.name, canvas.Width(name(r.Key))), max(t.chart, canvas.Width(r.Chart))
			t.status, t.by = max(t.status, canvas.Width(r.Status)), max(t.by, canvas.Width(r.By))
			t.health = max(t.health, canvas.Width(r.ready()+" · "+r.Health.Cause))
		}
	}
	slices.SortStableFunc(t.rows[t.runs:], func(a, b row) int { return compare(a.release, b.release, order) })
	t.plantTrees(s, name)
	return t
}

// stackOf returns the stack that a release is below, nil for none. One that runs now has its tree among the runs.
func (s *Snapshot) stackOf(k Key) *Stack {
	i := slices.IndexFunc(s.Stacks, func(stack Stack) bool { return slices.Contains(stack.Members, k) && !s.runs(&stack) })
	if i < 0 {
		return nil
	}
	return &s.Stacks[i]
}

// plantTrees puts the releases of each stack below it, before all others.
func (t *table) plantTrees(s *Snapshot, name func(Key) string) {
	var trees []row
	for i := range s.Stacks {
		stack := &s.Stacks[i]
		found := len(trees)
		for _, k := range stack.Members {
			at := slices.IndexFunc(t.rows[t.runs:], func(r row) bool { return r.release.Key == k && r.stack == stack })
			if at < 0 {
				continue
			}
			if len(trees) == found {
				trees = append(trees, row{stack: stack})
				t.name = max(t.name, canvas.Width(stack.Name))
			}
			trees = append(trees, t.rows[t.runs+at])
			t.name = max(t.name, canvas.Width(name(k))+armWidth)
		}
		if len(trees) > found {
			trees[len(trees)-1].last = true
		}
	}
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.stack != nil })
	t.rows = slices.Insert(t.rows, t.runs, trees...)
}

// runs reports whether a stack has a live run.
func (s *Snapshot) runs(stack *Stack) bool {
	return slices.ContainsFunc(s.Runs, func(r LiveRun) bool { return r.Key == Key{Name: stack.Name} })
}

// releases counts the rows of releases.
func (t *table) releases() (n int) {
	for _, r := range t.rows[t.runs:] {
		if r.release != nil {
			n++
		}
	}
	return n
}

// wordsOf returns the words of a filter.
func wordsOf(filter string) []string { return strings.Fields(strings.ToLower(filter)) }

// matches reports whether each word is in one of the fields.
func matches(words []string, fields ...string) bool {
	for _, w := range words {
		if !slices.ContainsFunc(fields, func(f string) bool { return strings.Contains(strings.ToLower(f), w) }) {
			return false
		}
	}
	return true
}

func compare(a, b *Release, order Sort) int {
	byName := cmp.Or(text.CompareNatural(a.Namespace, b.Namespace), text.CompareNatural(a.Name, b.Name))
	switch order {
	case ByHealth:
		return cmp.Or(a.rank()-b.rank(), byName)
	case ByChange:
		return cmp.Or(b.Changed.Compare(a.Changed), byName)
	}
	return byName
}

// rank is lower for a release that needs somebody sooner.
func (r *Release) rank() int {
	return slices.Index([]string{"failed", "degraded", "in-progress", "", "ready", "removed"}, r.mark())
}

// mark returns the status whose glyph stands before a release.
func (r *Release) mark() string {
	switch {
	case r.Status == "failed", r.Health.Status == event.Failed && !r.Health.Degraded:
		return "failed"
	case r.Health.Degraded:
		return "degraded"
	case strings.HasPrefix(r.Status, "pending"), r.Status == "uninstalling", r.Health.Status == event.InProgress:
		return "in-progress"
	case r.Status == "uninstalled":
		return "removed"
	case r.Health.Status == event.Ready:
		return "ready"
	}
	return ""
}

// ready counts the objects that are ready: "3 of 4 ready".
func (r *Release) ready() string {
	h := r.Health
	switch {
	case r.Status == "uninstalled", h.Status == "":
		return ""
	case h.Of == 0 && h.Cause == "":
		return "no objects"
	case h.Of == 0:
		return ""
	}
	return fmt.Sprintf("%d of %d ready", h.Ready, h.Of)
}
