package preflight

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// Refusal is an error with all conflicts that prevent an operation. Nothing was written.
type Refusal struct {
	Operation string
	// Conflicts has at least one entry; Warnings are the other findings.
	Conflicts, Warnings []plan.Warning
}

// Hidden returns a copy with secret values masked by hide.
func (r *Refusal) Hidden(hide func(string) string) error {
	hidden := *r
	hidden.Conflicts, hidden.Warnings = slices.Clone(r.Conflicts), slices.Clone(r.Warnings)
	for _, list := range [][]plan.Warning{hidden.Conflicts, hidden.Warnings} {
		for i := range list {
			list[i].Message = hide(list[i].Message)
		}
	}
	return &hidden
}

// Error returns one line per conflict.
func (r *Refusal) Error() string {
	lines := []string{fmt.Sprintf("%s: %d conflicts, nothing was written:", r.Operation, len(r.Conflicts))}
	for _, w := range r.Conflicts {
		if w.Rule != "" {
			w.Message += " (" + w.Rule + ")"
		}
		lines = append(lines, w.Message)
	}
	if len(lines) == 2 {
		return lines[1]
	}
	return strings.Join(lines, "\n  ")
}
