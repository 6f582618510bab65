package report

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"
	"lockstep/theme"
)

// StackPlan is what an operation on a stack would do.
type StackPlan struct {
	Stack    string        `json:"stack"`
	Releases []ReleasePlan `json:"releases"`
}

// ReleasePlan is what would be done to a release of a stack.
type ReleasePlan struct {
	// Release is [context/]namespace/name, Needs are those that it waits for.
	Release string   `json:"release"`
	Needs   []string `json:"needs"`
	// Unchanged releases have no Plan.
	Unchanged bool  `json:"unchanged"`
	Plan      *Plan `json:"plan,omitempty"`
}

// Count counts the refused changes and the releases that change.
func (p StackPlan) Count() (refused, changed int) {
	for _, r := range p.Releases {
		if r.Plan == nil {
			continue
		}
		changed++
		refused += len(r.Plan.Errors)
		for _, c := range r.Plan.Changes {
			if c.Action == "refuse" {
				refused++
			}
		}
	}
	return refused, changed
}

// warnings are those of all releases.
func (p StackPlan) warnings() (all []plan.Warning) {
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

func (p StackPlan) form() any {
	out := StackPlan{Stack: p.Stack, Releases: []ReleasePlan{}}
	for _, r := range p.Releases {
		r.Needs = append([]string{}, r.Needs...)
		if r.Plan != nil {
			plan := r.Plan.form().(Plan) // its own form
			r.Plan = &plan
		}
		out.Releases = append(out.Releases, r)
	}
	return out
}

func (p StackPlan) text(to Stream) string {
	var b strings.Builder
	unchanged := 0
	for _, r := range p.Releases {
		if r.Plan == nil {
			unchanged++
			fmt.Fprintf(&b, "%s unchanged%s\n\n", to.Style.render(theme.Strong, clean(r.Release)), needs(r))
			continue
		}
		fmt.Fprintf(&b, "%s%s\n", to.Style.render(theme.Strong, clean(r.Release)), needs(r))
		b.WriteString(r.Plan.text(to) + "\n")
	}
	_, changed := p.Count()
	fmt.Fprintf(&b, "%s: %d to change, %d unchanged\n", Count(len(p.Releases), "release"), changed, unchanged)
	return b.String()
}

func needs(r ReleasePlan) string {
	return clean(prefixed(", after ", strings.Join(r.Needs, ", ")))
}

// StackStatus is how the releases of a stack are now.
type StackStatus []ReleaseStatus

// ReleaseStatus is how a release of a stack is: its record, and how many of its groups are
// ready. Problem is the first that is not.
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
		row := []string{clean(r.Release), r.Status, "", "", "", ""}
		if r.Revision > 0 {
			row = []string{clean(r.Release), r.Status, fmt.Sprint(r.Revision), clean(r.Chart), fmt.Sprintf("%d/%d", r.Ready, r.Groups), clean(r.Problem)}
		}
		rows = append(rows, row)
	}
	return strings.Join(table(rows), "\n") + "\n"
}
