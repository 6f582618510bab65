package mask

import (
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// valueQuotes match error messages of the API server, of parsers and of Helm that quote values or parts
// of them.
var valueQuotes = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`(expected string, got )&value\.valueUnstructured\{Value:.*`), "${1}another type; quote numbers and booleans"},
	{regexp.MustCompile(`(got )&(?:value\.valueUnstructured)?\{(?:Value:)?.*`), "${1}another type"},
	{regexp.MustCompile(`(?s)(error found in #\d+ byte of )\.\.\.\|.*`), "${1}the request"},
	{regexp.MustCompile(`(?s)(failed parsing --set-json data) .*`), "${1}: invalid JSON"},
	{regexp.MustCompile(`(cannot overwrite table with non table for \S+) \(.*\)`), "${1}"},
	{regexp.MustCompile(`(is a table\. Ignoring non-table value) \(.*\)`), "${1}"},
	{regexp.MustCompile("(cannot (?:decode|unmarshal) !!\\w+) `[^`]*`"), "${1} " + Hidden},
	{regexp.MustCompile(`(unknown anchor) '[^']*'`), "${1} " + Hidden},
	{urlPassword, "${1}" + Hidden + "@"},
	{urlParameter, "${1}" + Hidden},
}

// urlParameter matches a credential in the query of a URL, such as the signature of a presigned one.
var urlParameter = regexp.MustCompile(`(?i)([?&][\w.-]*(?:token|secret|password|passwd|pwd|api[-_.]?key|access[-_.]?key|credential|auth|sig|signature)=)[^&#\s"'()]*[^&#\s"'():,;.]`)

// Text hides the secret values in a message, except where they are names, and credentials in URLs.
func (m *Mask) Text(s string) string { return m.hide(s, false) }

// Diff is Text for the lines of a diff. A line that would then equal the line that it replaces says that its value changes.
func (m *Mask) Diff(s string) string {
	before, after := strings.Split(s, "\n"), strings.Split(m.Text(s), "\n")
	if len(before) != len(after) { // a value of several lines
		return strings.Join(after, "\n")
	}
	removed := map[string]string{} // the lines before the added ones, by what is left of them
	for i, line := range after {
		switch {
		case strings.HasPrefix(line, "-"):
			removed[line[1:]] = before[i][1:]
		case !strings.HasPrefix(line, "+"):
			clear(removed)
		default:
			if was, replaced := removed[line[1:]]; replaced && was != before[i][1:] {
				after[i] = strings.ReplaceAll(line, Hidden, Changed)
			}
		}
	}
	return strings.Join(after, "\n")
}

// Output is like Text for the output of a workload, such as a line of its log. A value that is also
// a name is hidden in it, unless it is a part of a longer name.
func (m *Mask) Output(s string) string { return m.hide(s, true) }

func (m *Mask) hide(s string, ofWorkload bool) string {
	if m == nil || s == "" {
		return s
	}
	for _, q := range valueQuotes {
		s = q.pattern.ReplaceAllString(s, q.replacement)
	}
	c := m.compile()
	s = c.hideValues(strings.ReplaceAll(s, mark, ""), ofWorkload)
	if strings.Contains(s, cut) {
		s = c.hideCutValues(s)
	}
	return s
}

// hideValues hides the values in a text without marks, as they are and in each of its unescaped forms.
func (c *compiled) hideValues(s string, ofWorkload bool) string {
	found := c.find(s, ofWorkload)
	for _, form := range unescaped(s) {
		for _, in := range c.find(form.text, ofWorkload) {
			found = append(found, form.source(in))
		}
	}
	if len(found) == 0 {
		return s
	}
	slices.SortFunc(found, func(a, b span) int { return a.start - b.start })
	var out strings.Builder
	end := 0
	for _, in := range found {
		if in.start >= end {
			out.WriteString(s[end:in.start])
			out.WriteString(Hidden)
		}
		end = max(end, in.end)
	}
	out.WriteString(s[end:])
	return out.String()
}

// span is a part of a text.
type span struct{ start, end int }

// find returns where a text without marks has values that are hidden there.
func (c *compiled) find(s string, ofWorkload bool) (found []span) {
	marked := c.replace.Replace(s)
	if !strings.Contains(marked, mark) {
		return nil
	}
	var of []*value
	at := 0
	for i, part := range strings.Split(marked, mark) {
		if i%2 == 0 {
			at += len(part)
			continue
		}
		n, _ := strconv.Atoi(part) // written by replace
		v := &c.values[n]
		of, found = append(of, v), append(found, span{at, at + len(v.text)})
		at += len(v.text)
	}
	hidden := found[:0]
	for i, in := range found {
		if v := of[i]; v.short && !isBoundary(s, in.start, in.end) || v.isName(s, in.start, in.end, ofWorkload) {
			continue
		}
		hidden = append(hidden, in)
	}
	return hidden
}

// compile returns the prepared mask.
func (m *Mask) compile() *compiled {
	if m.load != nil {
		m.load()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.compiled != nil {
		return m.compiled
	}
	values := slices.SortedFunc(maps.Keys(m.values), func(a, b string) int { // longest first, deterministic
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	c, index := &compiled{names: maps.Clone(m.names)}, newNameIndex(m.names)
	var pairs []string
	for n, v := range values {
		core := strings.TrimFunc(v, punctuation)
		places := index.find(core)
		pairs, c.values = append(pairs, v, mark+strconv.Itoa(n)+mark), append(c.values, value{v, core, m.values[v], places})
		if len(places) == 0 && !m.values[v] {
			c.hidden = append(c.hidden, v)
		}
	}
	c.replace = strings.NewReplacer(pairs...)
	m.compiled = c
	return c
}

// Event hides the secret values in the text of an event, but not in names.
func (m *Mask) Event(e event.Event) event.Event {
	e.Message, e.Cause = m.Text(e.Message), m.Text(e.Cause)
	e.Evidence = m.Lines(e.Evidence)
	if e.Kind == event.KindLog {
		e.Lines = lines(e.Lines, m.Output)
	} else {
		e.Lines = m.Lines(e.Lines)
	}
	e.Phases = m.reasons(e.Phases)
	if e.Details != nil {
		d := m.details(*e.Details)
		e.Details = &d
	}
	e.Drift = slices.Clone(e.Drift)
	for i := range e.Drift {
		e.Drift[i].Field, e.Drift[i].Manager = m.Text(e.Drift[i].Field), m.Text(e.Drift[i].Manager)
	}
	return e
}

// details hides the secret values in the facts of a diagnosis.
func (m *Mask) details(d event.Details) event.Details {
	d.Log, d.Conditions, d.Notes = m.Lines(d.Log), m.Lines(d.Conditions), m.Lines(d.Notes)
	d.Pods, d.Events = slices.Clone(d.Pods), slices.Clone(d.Events)
	for i := range d.Pods {
		d.Pods[i].Why = m.Text(d.Pods[i].Why)
	}
	for i := range d.Events {
		d.Events[i].Reason, d.Events[i].Message = m.Text(d.Events[i].Reason), m.Text(d.Events[i].Message)
	}
	return d
}

// Step hides the secret values in the command line of a step.
func (m *Mask) Step(s plan.Step) plan.Step {
	s.Command, s.Args, s.Image = m.Text(s.Command), m.Lines(s.Args), m.Text(s.Image)
	if s.Pod != nil {
		s.Pod = &plan.StepPod{Env: m.Lines(s.Pod.Env), Secrets: m.Lines(s.Pod.Secrets), ServiceAccount: m.Text(s.Pod.ServiceAccount)}
	}
	return s
}

// reasons hides the secret values in the reasons why groups wait, and in the command lines of steps.
func (m *Mask) reasons(phases []event.Phase) []event.Phase {
	if !slices.ContainsFunc(phases, func(p event.Phase) bool {
		return slices.ContainsFunc(p.Groups, func(g *plan.Group) bool { return len(g.Why) > 0 || g.Step != nil })
	}) {
		return phases
	}
	phases = slices.Clone(phases)
	for i := range phases {
		phases[i].Groups = slices.Clone(phases[i].Groups)
		for n, g := range phases[i].Groups {
			hidden := *g
			if g.Step != nil {
				step := m.Step(*g.Step)
				hidden.Step = &step
			}
			hidden.Why = maps.Clone(g.Why)
			for dependency, reason := range g.Why {
				hidden.Why[dependency] = m.Text(reason)
			}
			phases[i].Groups[n] = &hidden
		}
	}
	return phases
}

// Lines hides the secret values in each line.
func (m *Mask) Lines(text []string) []string { return lines(text, m.Text) }

func lines(text []string, hide func(string) string) []string {
	out := slices.Clone(text)
	for i, l := range text {
		out[i] = hide(l)
	}
	return out
}

// Warnings hides the secret values in warnings.
func (m *Mask) Warnings(warnings []plan.Warning) []plan.Warning {
	out := slices.Clone(warnings)
	for i := range out {
		out[i].Message = m.Text(out[i].Message)
	}
	return out
}

// Groups hides the secret values in the reasons why groups wait.
func (m *Mask) Groups(groups []*plan.Group) []*plan.Group {
	return m.reasons([]event.Phase{{Groups: groups}})[0].Groups
}

// Hider is an error that can return a copy of itself with its texts passed through hide.
type Hider interface {
	error
	Hidden(hide func(string) string) error
}

// Error hides the secret values in the text of an error. errors.Is and errors.As see the original or, if it wraps a
// Hider with secret values, that Hider's masked copy.
func (m *Mask) Error(err error) error {
	if err == nil {
		return nil
	}
	var h Hider
	if errors.As(err, &h) {
		if hidden := h.Hidden(m.Text); hidden.Error() != h.Error() {
			return &maskedError{m.Text(err.Error()), hidden}
		}
	}
	if text := m.Text(err.Error()); text != err.Error() {
		return &maskedError{text, err}
	}
	return err
}

// maskedError is an error with its secret values hidden.
type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string        { return e.text }
func (e *maskedError) Unwrap() error        { return errors.Unwrap(e.err) }
func (e *maskedError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *maskedError) As(target any) bool   { return errors.As(e.err, target) }
