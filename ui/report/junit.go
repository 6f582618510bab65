package report

import (
	"encoding/xml"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// The elements of JUnit XML that Jenkins, GitLab and GitHub Actions read.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Name    string       `xml:"name,attr"`
		Time    string       `xml:"time,attr"`
		Stamp   string       `xml:"timestamp,attr,omitempty"`
		Suites  []junitSuite `xml:"testsuite"`
		junitCounts
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Time       string          `xml:"time,attr"`
		Stamp      string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
		junitCounts
	}
	junitCounts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitSkipped `xml:"skipped"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",cdata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// junit returns the outcome as JUnit XML: a suite per group, a case per object. Root failures
// are failures; objects that an abort interrupted are errors; objects that were not
// started, or not ready when their group failed, are skipped. If the operation failed
// but no group did, it gets its own suite.
func (o *Outcome) junit() []byte {
	all := junitSuites{Name: clean(o.title()), Time: junitTime(o.Seconds), Stamp: junitStamp(o.Started)}
	if len(o.Failures) == 0 && o.Status != event.Succeeded {
		all.Suites = append(all.Suites, o.junitOperation())
	}
	for _, g := range o.Groups {
		all.Suites = append(all.Suites, o.junitGroup(g))
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		s.count()
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.junitCounts.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		panic(err) // cannot happen with these types
	}
	return []byte(xml.Header + string(text) + "\n")
}

func (s *junitSuite) count() {
	for _, c := range s.Cases {
		s.Tests++
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
}

// junitOperation returns the suite of an operation that failed although no group did.
func (o *Outcome) junitOperation() junitSuite {
	message := clean(o.Message)
	return junitSuite{Name: clean(o.title()), Time: junitTime(o.Seconds), Stamp: junitStamp(o.Started), Cases: []junitCase{{
		Class: clean(o.Operation.Name), Name: clean(o.title()), Time: junitTime(o.Seconds),
		Error: &junitProblem{Message: message, Type: clean(string(o.Status)), Text: message},
	}}}
}

func (o *Outcome) junitGroup(g GroupOutcome) junitSuite {
	s := junitSuite{Name: clean(g.name), Time: junitTime(g.Seconds), Stamp: junitStamp(g.Started), Properties: []junitProperty{{"phase", clean(g.Phase)}}}
	for _, m := range o.Fixed {
		if m.Phase == g.Phase && m.Group == g.ID {
			s.Properties = append(s.Properties, junitProperty{"fixed by " + m.How, clean(m.Text)})
		}
	}
	failures := 0
	for _, obj := range g.Objects {
		c := junitCase{Class: clean(g.name), Name: clean(obj.Object.String()), Time: junitTime(obj.Seconds)}
		f := o.findFailure(g, &obj.Object)
		switch {
		case f != nil:
			c.Failure = junitFailure(f)
			failures++
		case obj.Status == event.Ready || obj.Status == event.Gone:
		case g.Status == event.Skipped || obj.Status == event.Waiting:
			c.Skipped = &junitSkipped{clean(skipReason(g))}
		case g.Status == event.Applied: // not checked (R21)
			c.Skipped = &junitSkipped{clean("not checked: " + withReason(string(obj.Status), obj.Message))}
		case g.Status == event.Failed: // another object failed
			c.Skipped = &junitSkipped{clean(withCause("not ready when its group failed", obj))}
		default:
			text := clean(withCause("interrupted", obj))
			c.Error = &junitProblem{Message: text, Type: clean(string(g.Status)), Text: cleanLines(append([]string{text}, obj.Evidence...))}
		}
		s.Cases = append(s.Cases, c)
	}
	if f := o.findFailure(g, nil); f != nil && failures == 0 {
		s.Cases = append(s.Cases, junitCase{Class: clean(g.name), Name: clean(g.name), Time: s.Time, Failure: junitFailure(f)})
	}
	return s
}

// findFailure returns the failure of an object, or of the group if obj is nil, or nil.
func (o *Outcome) findFailure(g GroupOutcome, obj *plan.Object) *Failure {
	i := slices.IndexFunc(o.Failures, func(f Failure) bool {
		return f.Phase == g.Phase && f.Group == g.ID && (obj == nil && f.Object == nil || obj != nil && f.Object != nil && *f.Object == *obj)
	})
	if i < 0 {
		return nil
	}
	return &o.Failures[i]
}

func junitFailure(f *Failure) *junitProblem {
	kind := "failed"
	if f.Object != nil {
		kind = f.Object.Kind
	}
	lines := append([]string{f.Text}, f.Evidence...)
	lines = append(lines, newDiagnosis(f.Details, lines)...)
	return &junitProblem{Message: clean(f.Text), Type: clean(kind), Text: cleanLines(lines)}
}

// withCause adds the cause or the status of an object that was not done.
func withCause(how string, obj ObjectOutcome) string {
	if obj.Cause != "" {
		return withReason(how, obj.Cause)
	}
	return withReason(how, withReason(string(obj.Status), obj.Message))
}

// skipReason returns why a group, or an object in it, was not started.
func skipReason(g GroupOutcome) string {
	if g.Status == event.Skipped && g.Message != "" {
		return g.Message
	}
	return "not started"
}

func junitTime(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }

func junitStamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
