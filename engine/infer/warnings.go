package infer

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"
)

// Check is the error about a release that cannot come up in order: objects need
// each other to be there first.
func (o *Order) Check() error {
	var errs plan.Errors
	for _, d := range o.Dropped {
		if d.Error {
			from := d.From
			errs = append(errs, &plan.Error{Rule: "R66", Object: &from, Message: fmt.Sprintf("%s in a cycle: %s: %s", "objects", d.circle(), d.Why)})
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// Warnings tell which edges order nothing, and why, in one warning for what waits
// for each other, and for each object that cannot wait.
func (o *Order) Warnings() []plan.Warning {
	circles := map[string]int{}
	var warnings []plan.Warning
	count := map[int]int{}
	for _, d := range o.Dropped {
		if d.Error {
			continue
		}
		at, known := -1, false
		for _, name := range append(d.Cycle, d.From.String()) {
			if n, ok := circles[d.Why+name]; ok {
				at, known = n, true
			}
		}
		if !known {
			at = len(warnings)
			from := d.From
			message := fmt.Sprintf("%s is not kept: %s", d.Edge, d.Why)
			if len(d.Cycle) > 0 {
				message = fmt.Sprintf("%s: %s; so none of them waits: %s", d.Why, d.circle(), d.Edge)
			}
			warnings = append(warnings, plan.Warning{Rule: "R66", Object: &from, Message: message})
		}
		for _, name := range append(d.Cycle, d.From.String()) {
			circles[d.Why+name] = at
		}
		count[at]++
	}
	for at, n := range count {
		if n > 1 {
			warnings[at].Message += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return warnings
}

// circle is the cycle with its beginning once more at the end.
func (d Dropped) circle() string {
	if len(d.Cycle) == 0 {
		return ""
	}
	return strings.Join(append(d.Cycle[:len(d.Cycle):len(d.Cycle)], d.Cycle[0]), " → ")
}
