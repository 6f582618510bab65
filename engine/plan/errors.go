package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is a mistake in a chart that prevents a plan.
type Error struct {
	// Rule is the number of the violated rule, "R13".
	Rule string
	// Chart is the path of the chart, Object the object that it is about, if there is one.
	Chart   string
	Object  *Object
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%s)", e.Chart, e.Message, e.Rule) }

// Hidden returns the error with its message passed through hide, which removes secrets.
func (e *Error) Hidden(hide func(string) string) error { return e.hidden(hide) }

func (e *Error) hidden(hide func(string) string) *Error {
	hidden := *e
	hidden.Message = hide(e.Message)
	return &hidden
}

// Errors are all mistakes that prevent a plan, sorted by chart and rule.
type Errors []*Error

// Error has a line for each error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find an *Error.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

// Hidden returns the errors with their messages passed through hide.
func (es Errors) Hidden(hide func(string) string) error {
	all := make(Errors, len(es))
	for i, e := range es {
		all[i] = e.hidden(hide)
	}
	return all
}

func (es Errors) sort() {
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.Chart, b.Chart), compareRules(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
}

// Fault is a mistake in a chart or an object that the caller of Build found. Build fails because of it.
type Fault struct {
	// Rule is the number of the violated rule, "R24".
	Rule string
	// Message names neither chart nor object.
	Message string
}
