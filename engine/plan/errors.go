package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one reason why a chart has no plan. Nothing has been written then.
type Error struct {
	// Rule is the number of the rule that is broken, "R13".
	Rule string
	// Chart is the path of the chart that breaks it, Object the resource, where
	// there is one.
	Chart   string
	Object  *Object
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%s)", e.Chart, e.Message, e.Rule) }

// Hidden returns the error without what hide hides.
func (e *Error) Hidden(hide func(string) string) error { return e.hidden(hide) }

func (e *Error) hidden(hide func(string) string) *Error {
	hidden := *e
	hidden.Message = hide(e.Message)
	return &hidden
}

// Errors are all the reasons why a chart has no plan, by chart and rule: whoever
// mends a chart wants to know of all of them at once.
type Errors []*Error

// Error has a line for each.
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

// Hidden returns the errors without what hide hides.
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

// Fault is something wrong with a chart or a resource that is found where it is
// read, outside of this package. Build refuses what has one.
type Fault struct {
	// Rule is the number of the rule that is broken, "R24".
	Rule string
	// Message names neither chart nor resource.
	Message string
}
