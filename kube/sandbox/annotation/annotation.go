// Package annotation names the annotations that the sandbox reads, and parses their values (Values). README.md
// documents them; a test checks that.
package annotation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prefix is the prefix of all annotation keys.
const Prefix = "sandbox/"

// Names of the annotations, without Prefix.
const (
	StartDelay   = "start-delay"
	ReadyDelay   = "ready-delay"
	RunDuration  = "run-duration"
	ExitCode     = "exit-code"
	FailTimes    = "fail-times"
	Fail         = "fail"
	Message      = "message"
	Container    = "container"
	UnreadyAfter = "unready-after"
	StopDuration = "stop-duration"
	Log          = "log"
	ReadyAfter   = "ready-after"
	Status       = "status"

	ObservedGeneration = "observed-generation"
)

// Values parses the annotations of an object and collects the problems with invalid values.
type Values struct {
	from     map[string]string
	problems []string
}

// Of returns the annotations of one object.
func Of(annotations map[string]string) *Values { return &Values{from: annotations} }

// Problems describes the invalid values, one sentence each. Such annotations are ignored.
func (v *Values) Problems() []string { return v.problems }

// Has reports whether the annotation is set.
func (v *Values) Has(name string) bool {
	_, ok := v.from[Prefix+name]
	return ok
}

// Text returns the value, or "".
func (v *Values) Text(name string) string { return v.from[Prefix+name] }

// OneOf returns the value if it is one of the allowed ones, else "".
func (v *Values) OneOf(name string, allowed ...string) string {
	s := v.Text(name)
	if s == "" || slices.Contains(allowed, s) {
		return s
	}
	v.problem(name, s, "must be one of "+strings.Join(allowed, ", "))
	return ""
}

// Duration returns a value like "1.5s", or def if there is none.
func (v *Values) Duration(name string, def time.Duration) time.Duration {
	s, ok := v.from[Prefix+name]
	if !ok {
		return def
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		v.problem(name, s, "must be a duration such as 2s")
		return def
	}
	return d
}

// Int returns a whole number from 0 to max, or def if there is none.
func (v *Values) Int(name string, def, max int) int {
	s, ok := v.from[Prefix+name]
	if !ok {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > max {
		v.problem(name, s, fmt.Sprintf("must be a whole number from 0 to %d", max))
		return def
	}
	return n
}

func (v *Values) problem(name, value, why string) {
	v.problems = append(v.problems, fmt.Sprintf("annotation %s%s: %q is ignored: it %s", Prefix, name, value, why))
}
