package reportfile

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// The elements of JUnit XML that Jenkins, GitLab and GitHub Actions read.
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		junitHead
		Suites []junitSuite `xml:"testsuite"`
		junitCounts
	}
	junitSuite struct {
		junitHead
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
		junitCounts
	}
	junitHead struct {
		Name  string `xml:"name,attr"`
		Time  string `xml:"time,attr"`
		Stamp string `xml:"timestamp,attr,omitempty"`
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

// junit returns the outcome as JUnit XML: a suite per group, a case per object. A root failure is a failure, an object
// that an abort interrupted is an error. An object is skipped if it was never started, not checked, its controller said nothing (R22a), not waited for (R22b), not ready when its
// group failed, or no longer ready at the end. If the operation did not succeed although no group failed, it is a suite
// with an error.
func (o *Outcome) junit() []byte {
	all := junitSuites{junitHead: newJunitHead(o.Operation.Title(), o.Started, o.Seconds)}
	if len(o.Failures) == 0 && o.Status != event.Succeeded {
		failed := junitCase{
			Class: text.Line(o.Operation.Name), Name: all.Name, Time: all.Time,
			Error: newJunitProblem(string(o.Status), o.Message),
		}
		all.Suites = append(all.Suites, junitSuite{junitHead: all.junitHead, Cases: []junitCase{failed}})
	}
	for _, g := range o.Groups {
		all.Suites = append(all.Suites, o.junitGroup(g))
	}
	return all.write()
}

// write counts the cases and returns the XML.
func (all junitSuites) write() []byte {
	for i := range all.Suites {
		s := &all.Suites[i]
		for _, c := range s.Cases {
			s.count(c)
			all.count(c)
		}
	}
	out, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		panic(err) // cannot fail with these types
	}
	return []byte(xml.Header + string(out) + "\n")
}

func newJunitHead(name string, started time.Time, seconds float64) junitHead {
	stamp := ""
	if !started.IsZero() {
		stamp = started.UTC().Format(time.RFC3339)
	}
	return junitHead{text.Line(name), junitTime(seconds), stamp}
}

func (n *junitCounts) count(c junitCase) {
	n.Tests++
	switch {
	case c.Failure != nil:
		n.Failures++
	case c.Error != nil:
		n.Errors++
	case c.Skipped != nil:
		n.Skipped++
	}
}

func (o *Outcome) junitGroup(g GroupOutcome) junitSuite {
	s := junitSuite{
		junitHead:  newJunitHead(g.name, g.Started, g.Seconds),
		Properties: []junitProperty{{"phase", text.Line(g.Phase)}},
	}
	for _, f := range o.Fixed {
		if f.Phase == g.Phase && f.Group == g.ID {
			s.Properties = append(s.Properties, junitProperty{f.Fix, text.Line(text.Join("; reason: ", f.Text, f.Reason))})
		}
	}
	failures := 0
	for _, obj := range g.Objects {
		c := junitCase{Class: s.Name, Name: text.Line(obj.Object.String()), Time: junitTime(obj.Seconds)}
		f := o.findFailure(g, &obj.Object)
		status := format.WithReason(string(obj.Status), obj.Message)
		switch {
		case f != nil:
			c.Failure = junitFailure(f)
			failures++
		case obj.Status == event.Ready && obj.ReadyBy == event.ByNoStatus:
			c.Skipped = &junitSkipped{text.Line("applied: " + obj.Message)}
		case obj.Status == event.Ready || obj.Status == event.Gone:
		case g.Status == event.Skipped:
			c.Skipped = &junitSkipped{text.Line(cmp.Or(g.Message, "not started"))}
		case obj.Status == event.Waiting:
			c.Skipped = &junitSkipped{"not started"}
		case obj.ReadyBy == event.NotAwaited:
			c.Skipped = &junitSkipped{text.Line("not waited for: " + format.WithReason(string(obj.Status), cmp.Or(obj.Cause, obj.Message)))}
		case g.Status == event.Applied: // not checked (R21)
			c.Skipped = &junitSkipped{text.Line("not checked: " + status)}
		case g.Status == event.Failed: // because of another object
			c.Skipped = &junitSkipped{text.Line("not ready when its group failed: " + cmp.Or(obj.Cause, status))}
		case g.Status == event.Ready: // the operation does not fail if an object regresses
			c.Skipped = &junitSkipped{text.Line("no longer ready: " + cmp.Or(obj.Cause, status))}
		default:
			c.Error = newJunitProblem(string(g.Status), "interrupted: "+cmp.Or(obj.Cause, status), obj.Evidence...)
		}
		s.Cases = append(s.Cases, c)
	}
	if f := o.findFailure(g, nil); f != nil && failures == 0 {
		s.Cases = append(s.Cases, junitCase{Class: s.Name, Name: s.Name, Time: s.Time, Failure: junitFailure(f)})
	}
	return s
}

// findFailure returns the failure of an object, or of the group as a whole if obj is nil. It returns nil if there is none.
func (o *Outcome) findFailure(g GroupOutcome, obj *plan.Object) *format.Failure {
	for i, f := range o.Failures {
		if f.Phase == g.Phase && f.Group == g.ID && (f.Object == obj || f.Object != nil && obj != nil && *f.Object == *obj) {
			return &o.Failures[i]
		}
	}
	return nil
}

func junitFailure(f *format.Failure) *junitProblem {
	kind := "failed"
	if f.Object != nil {
		kind = f.Object.Kind
	}
	diagnosis := f.UnknownDetails(append([]string{f.Text}, f.Evidence...))
	return newJunitProblem(kind, f.Text, slices.Concat(f.Evidence, diagnosis)...)
}

func newJunitProblem(kind, message string, details ...string) *junitProblem {
	return &junitProblem{Message: text.Line(message), Type: text.Line(kind), Text: cleanLines(append([]string{message}, details...))}
}

func junitTime(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }
