package preflight

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
)

// Refusal is the error with all reasons why an operation cannot run. Nothing was written.
type Refusal struct {
	Operation string
	// Because has at least one entry; Warnings are the other findings.
	Because, Warnings []plan.Warning
}

// Hidden returns the refusal with secret values hidden.
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

// Error has a line for each reason.
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
