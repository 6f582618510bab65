package report

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"
)

// SeverityInfo is the severity of a finding that needs no mending; plan has the
// others.
const SeverityInfo = "info"

// Lint is what lint has to say about charts.
type Lint struct {
	Charts []LintedChart `json:"charts"`
	// Quiet leaves out of the text what needs no mending.
	Quiet bool `json:"-"`
}

// LintedChart is what lint says about one argument.
type LintedChart struct {
	Chart    string    `json:"chart"`
	Failed   bool      `json:"failed"`
	Findings []Finding `json:"findings"`
}

// Finding is one thing that lint says about a chart. Rule is empty for what Helm
// says.
type Finding struct {
	Severity string       `json:"severity"` // error, warning or info
	Rule     string       `json:"rule,omitempty"`
	Chart    string       `json:"chart,omitempty"`
	Object   *plan.Object `json:"object,omitempty"`
	Path     string       `json:"path,omitempty"`
	Message  string       `json:"message"`
}

// Failed counts the charts with an error.
func (l Lint) Failed() int {
	n := 0
	for _, c := range l.Charts {
		if c.Failed {
			n++
		}
	}
	return n
}

func (m machine) Lint(l Lint) error { return encode(m.out, l) }

func (h human) Lint(l Lint) error {
	var b strings.Builder
	for _, c := range l.Charts {
		lines := []string{}
		for _, f := range c.Findings {
			if !l.Quiet || f.Severity != SeverityInfo {
				lines = append(lines, f.String())
			}
		}
		if !l.Quiet || len(lines) > 0 {
			fmt.Fprintf(&b, "==> Linting %s\n%s\n", clean(c.Chart), strings.Join(append(lines, ""), "\n"))
		}
	}
	if b.Len() > 0 {
		fmt.Fprintf(&b, "%d chart(s) linted, %d chart(s) failed\n", len(l.Charts), l.Failed())
	}
	return write(h.text, b.String())
}

// String is a finding in the way that Helm writes it.
func (f Finding) String() string {
	text := "[" + strings.ToUpper(f.Severity) + "] "
	if f.Path != "" {
		text += f.Path + ": "
	}
	text += f.Message
	if f.Rule != "" {
		text += " (" + f.Rule + ")"
	}
	return text
}
