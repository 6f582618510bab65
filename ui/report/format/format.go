// Package format puts the state of an operation into words: durations, names, failures, and what is wrong with a
// group. The log and tables of package report share it with the report files of package reportfile; it imports
// neither of them.
package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Timeout formats 5m0s as 5m and 1h0m0s as 1h.
func Timeout(d time.Duration) string {
	hours, minutes := d/time.Hour, d%time.Hour/time.Minute
	switch {
	case d == 0 || d%time.Minute != 0:
		return d.String()
	case hours == 0:
		return fmt.Sprintf("%dm", minutes)
	case minutes == 0:
		return fmt.Sprintf("%dh", hours)
	}
	return fmt.Sprintf("%dh%dm", hours, minutes)
}

// Duration formats a duration: 4.1s, 1m52s, 2h03m.
func Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d.Round(100*time.Millisecond) < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d.Round(time.Second) < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// Seconds formats a number of seconds like a Duration.
func Seconds(s float64) string { return Duration(time.Duration(s * float64(time.Second))) }

// WithPrefix returns prefix and text, or "" if text is empty.
func WithPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// NonEmpty returns the parts without empty ones.
func NonEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

// Number formats n, and 0 as "".
func Number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// WithReason returns "text: reason", or text if reason is empty.
func WithReason(text, reason string) string { return text + WithPrefix(": ", reason) }

// MaxNamed is the number of names that Abbreviate lists.
const MaxNamed = 5

// Abbreviate joins names: "a, b, c", or "a, b, c, d, e and 12 more".
func Abbreviate(names []string) string {
	if more := len(names) - MaxNamed; more > 0 {
		return strings.Join(names[:MaxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// maxPath is the maximum number of groups of a path that are shown.
const maxPath = 16

// Fold replaces the middle of a long path with the number of omitted groups. format contains a %s for that.
func Fold(path []string, format string) []string {
	omitted := len(path) - maxPath
	if omitted <= 0 {
		return path
	}
	return slices.Concat(path[:maxPath/2], []string{fmt.Sprintf(format, text.Count(omitted, "group"))}, path[len(path)-maxPath/2:])
}

// Target describes the source and destination of an operation: chart, namespace, context, revision.
func Target(op event.Operation) []string {
	source := "chart "
	if op.IsStack() {
		source = "helmfile "
	}
	return NonEmpty(WithPrefix(source, op.Chart), WithPrefix("namespace ", op.Namespace), WithPrefix("context ", op.Context),
		WithPrefix("revision ", Number(op.Revision)))
}

// Warning returns a warning on one line, with its object and rule if it has them.
func Warning(rule string, o *plan.Object, message string) string {
	if o != nil && !strings.Contains(message, o.Name) {
		message = o.String() + ": " + message
	}
	if rule != "" {
		message += " (" + rule + ")"
	}
	return message
}

// EscapeMermaid escapes text for a Mermaid graph, including "%%{", which starts a directive anywhere.
func EscapeMermaid(s string) string {
	return strings.NewReplacer("#", "#35;", "%", "#37;", "&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "\n", "<br/>").Replace(s)
}
