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
	// Because has at least one entry; Warnings are the other findings.
	Because, Warnings []plan.Warning
}

// Hidden returns a copy with secret values masked by hide.
func (r *Refusal) Hidden(hide func(string) string) error {
	hidden := *r
	hidden.Because, hidden.Warnings = slices.Clone(r.Because), slices.Clone(r.Warnings)
	for _, list := range [][]plan.Warning{hidden.Because, hidden.Warnings} {
		for i := range list {
			list[i].Message = hide(list[i].Message)
		}
	}
	return &hidden
}

// Error returns one line per conflict.
func (r *Refusal) Error() string {
	lines := []string{fmt.Sprintf("%s: %d conflicts, nothing was written:", r.Operation, len(r.Because))}
	for _, w := range r.Because {
		text := w.Message
		if w.Rule != "" {
			text += " (" + w.Rule + ")"
		}
		lines = append(lines, text)
	}
	if len(lines) == 2 {
		return lines[1]
	}
	return strings.Join(lines, "\n  ")
}
