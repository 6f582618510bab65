package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"lockstep/engine/inspect"
	"lockstep/engine/text"
)

// maxValue is how many characters of a value are shown.
const maxValue = 60

// DriftedValues returns what a field is in the record and in the cluster: "3" and "5".
func DriftedValues(f inspect.DriftedField) (from, to string) {
	to = "gone"
	if !f.Gone {
		to = shortValue(f.To)
	}
	return shortValue(f.From), to
}

// DriftValues says what a field is in the record and in the cluster: "3 → 5".
func DriftValues(f inspect.DriftedField) string {
	from, to := DriftedValues(f)
	return from + " → " + to
}

// DriftRelease names a release among those of several namespaces and contexts (S6): CONTEXT/NAMESPACE/NAME, without an unknown context.
func DriftRelease(d inspect.Drift) string { return text.Join("/", d.Context, d.Namespace, d.Release) }

// DriftAuthor says who has a field now, and when that manager last wrote: " (kubectl scale, 2026-03-01 12:00:00)"; "" if that is
// unknown.
func DriftAuthor(f inspect.DriftedField) string {
	at := ""
	if !f.At.IsZero() {
		at = f.At.Local().Format(time.DateTime)
	}
	if f.Manager == "" {
		return ""
	}
	return " (" + text.Join(", ", text.Join(" ", f.Manager, f.Subresource), at) + ")"
}

// DriftedField describes a field: "spec.replicas: 3 → 5 (kubectl scale, 2026-03-01 12:00:00)".
func DriftedField(f inspect.DriftedField) string {
	return f.Field + ": " + DriftValues(f) + DriftAuthor(f)
}

// DriftedObject says how an object differs, a line for each field.
func DriftedObject(o inspect.DriftedObject) (lines []string) {
	switch {
	case o.Unread != "":
		return []string{WithReason("not compared", o.Unread)}
	case o.Gone:
		return []string{WithReason("gone", o.Message)}
	}
	if o.Owner != "" {
		lines = append(lines, "belongs to "+o.Owner+" now")
	}
	for _, f := range o.Fields {
		lines = append(lines, DriftedField(f))
	}
	return lines
}

// shortValue returns a value on one line: a text as it is, others as JSON.
func shortValue(value any) string {
	s, isText := value.(string)
	s = strings.TrimRight(s, "\n")
	switch lines := strings.Count(s, "\n") + 1; {
	case isText && s == "":
		return `""`
	case lines > 1:
		return fmt.Sprintf("(%d lines)", lines)
	case !isText:
		data, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		s = string(data)
	}
	if utf8.RuneCountInString(s) > maxValue {
		s = string([]rune(s)[:maxValue-1]) + "…"
	}
	return s
}
