package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// Timing is how long a group took when its revision was deployed.
type Timing struct {
	Phase, Group string
	Status       event.Status
	Started      time.Time
	Took         time.Duration
}

// Group is a group with the live status of its objects.
type Group struct {
	ID      string       `json:"id"`
	Chart   string       `json:"chart"`
	Name    string       `json:"name"`
	Layer   int          `json:"layer"`
	After   []string     `json:"after"`
	Status  event.Status `json:"status"`
	Message string       `json:"message,omitempty"`
	Objects []LiveObject `json:"objects"`
	// Ran is how the group fared in the run that made the revision, where that
	// is known.
	Ran *Ran `json:"ran,omitempty"`
}

// Ran is how a group fared in a run.
type Ran struct {
	Status  event.Status `json:"status"`
	Started time.Time    `json:"started"`
	Seconds float64      `json:"seconds"`
}

// LiveObject is an object with its live status.
type LiveObject struct {
	plan.Object
	Status  event.Status `json:"status"`
	Message string       `json:"message,omitempty"`
}

// Groups are the groups of a state, with what is known of the run that has
// deployed them.
func Groups(s *event.State, timings []Timing) []Group {
	groups := []Group{}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			l := Group{ID: g.ID, Chart: g.Chart, Name: g.Name, Layer: g.Layer, After: g.After, Status: g.Status, Message: g.Message, Objects: []LiveObject{}}
			for _, t := range timings {
				if t.Phase == p.Name && t.Group == g.ID {
					l.Ran = &Ran{t.Status, t.Started, t.Took.Seconds()}
				}
			}
			for _, o := range g.Objects {
				l.Objects = append(l.Objects, LiveObject{o.Object, o.Status, o.Message})
			}
			groups = append(groups, l)
		}
	}
	return groups
}

// Status tells of a release what Helm has printed, and its groups: as JSON behind its own
// fields, as YAML behind its document.
func (d Display) Status(helms []byte, groups []Group) error {
	if d.people() {
		if _, err := d.Text().Write(helms); err != nil || groups == nil {
			return err
		}
		return write(d.lines, "\nGROUPS:\n"+groupsText(groups, d.out.Style))
	}
	end := bytes.LastIndexByte(helms, '}')
	switch {
	case groups == nil:
	case d.mode == ModeYAML:
		more, err := yaml.Marshal(map[string]any{"groups": groups})
		if err != nil {
			return err
		}
		helms = append(helms, more...)
	case end >= 0:
		var more bytes.Buffer
		if err := encodeLine(&more, groups); err != nil {
			return err
		}
		helms = fmt.Appendf(nil, "%s,\"groups\":%s}\n", helms[:end], bytes.TrimSpace(more.Bytes()))
	}
	_, err := d.out.Write(helms)
	return err
}

// Release is how a release is that was looked at. To programs the events have told it.
type Release struct {
	State   *event.State
	Timings []Timing
}

func (r Release) form() any { return nil }

func (r Release) text(to Stream) string {
	return viewed(r.State) + "\n" + groupsText(Groups(r.State, r.Timings), to.Style)
}

// viewed says what is looked at.
func viewed(s *event.State) string {
	op := s.Operation
	return clean(fmt.Sprintf("%s: chart %s, namespace %s, revision %d, %s", op.Release, op.Chart, op.Namespace, op.Revision, s.Message))
}

// groupsText is groups and the objects in them, those that are well without a
// reason.
func groupsText(groups []Group, style Style) string {
	wide := 0
	after := map[string][]string{}
	for _, g := range groups {
		after[g.ID] = g.After
		for _, o := range g.Objects {
			wide = max(wide, len(clean(o.String())))
		}
	}
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%s %d/%d%s%s\n", style.render(theme.Strong, g.ID), g.ready(), len(g.Objects), g.Ran, waitsFor(direct(g.After, after), style))
		for _, o := range g.Objects {
			line := fmt.Sprintf("  %-*s  %s", wide, clean(o.String()), style.mark(o.Status))
			if o.Status != event.Ready {
				line = withReason(line, clean(o.Message))
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// ready counts the objects that are ready.
func (g *Group) ready() int {
	n := 0
	for _, o := range g.Objects {
		if o.Status == event.Ready {
			n++
		}
	}
	return n
}

// String is empty where nothing is known.
func (r *Ran) String() string {
	if r == nil {
		return ""
	}
	took := Seconds(time.Duration(r.Seconds * float64(time.Second)))
	switch r.Status {
	case event.Ready:
		return "  took " + took
	case event.Applied: // its status was not waited for (R21)
		return "  applied in " + took
	}
	return "  " + string(r.Status) + " after " + took
}

// direct leaves out of ids what follows from the others, by what each group
// waits for.
func direct(ids []string, after map[string][]string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(ids, func(other string) bool { return slices.Contains(after[other], id) })
	})
}

func waitsFor(after []string, style Style) string {
	if len(after) == 0 {
		return ""
	}
	return style.render(theme.Quiet, "  after "+strings.Join(after, ", "))
}

// changes prints a release that is watched: all groups as soon as each object
// has been seen, then a line for each change.
type changes struct {
	notices
	out     io.Writer
	style   Style
	state   event.State
	printed bool
	last    map[string]event.Status // what was printed of each group
}

// Consume takes the next event of a view.
func (c *changes) Consume(e event.Event) {
	c.state.Apply(e)
	switch {
	case e.Kind == event.KindWarning:
		c.Warn(e.Message)
	case !c.printed:
		if c.complete() {
			c.all()
		}
	case e.Kind == event.KindOperation && e.Status == event.Running:
		c.line(e, viewed(&c.state))
	case e.Kind == event.KindOperation:
		c.line(e, clean(e.Message))
	case e.Kind == event.KindObject:
		c.line(e, c.style.mark(e.Status), clean(withReason(e.Object.String()+" of "+e.Group, e.Message)))
	case e.Kind == event.KindGroup && c.last[e.Group] != e.Status:
		c.last[e.Group] = e.Status
		c.line(e, c.style.mark(e.Status), clean(e.Group))
	}
}

func (c *changes) line(e event.Event, words ...string) {
	at := c.style.render(theme.Quiet, e.Time.Local().Format("15:04:05"))
	fmt.Fprintln(c.out, at, strings.Join(words, " "))
}

// all prints all groups. The event about the last one may still be on its way,
// so what a group is comes from its objects.
func (c *changes) all() {
	c.printed, c.last = true, map[string]event.Status{}
	groups := Groups(&c.state, nil)
	fmt.Fprint(c.out, viewed(&c.state)+"\n"+groupsText(groups, c.style))
	for _, g := range groups {
		c.last[g.ID] = g.Status
		if g.ready() == len(g.Objects) {
			c.last[g.ID] = event.Ready
		}
	}
}

// complete reports whether each object has been seen.
func (c *changes) complete() bool {
	if len(c.state.Phases) == 0 {
		return false
	}
	for _, p := range c.state.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if o.Applied.IsZero() {
					return false
				}
			}
		}
	}
	return true
}

// RunStatus is how a run stands.
type RunStatus struct {
	Operation event.Operation `json:"operation"`
	Status    event.Status    `json:"status"`
	Run       event.Status    `json:"run"`
	Message   string          `json:"message,omitempty"`
	Seq       uint64          `json:"seq"`
	Ready     int             `json:"ready"`
	Total     int             `json:"total"`
	Groups    []Group         `json:"groups"`
	over      bool
}

// NewRunStatus is how the run stands whose picture that is.
func NewRunStatus(s *event.State) RunStatus {
	n := s.Count()
	out := RunStatus{Operation: s.Operation, Status: s.Status, Run: s.Run, Message: s.RunMessage, Seq: s.Seq, Ready: n.Done, Total: n.Total, Groups: Groups(s, nil)}
	if !s.Ended.IsZero() {
		out.Message, out.over = s.Message, true
	}
	return out
}

func (at RunStatus) text(to Stream) string {
	is := string(at.Run)
	switch {
	case at.over:
		is = string(at.Status)
	case at.Status == event.RollingBack && at.Run == event.Running:
		is = string(at.Status)
	case at.Status == event.RollingBack:
		is += " while rolling back"
	}
	op := at.Operation
	head := fmt.Sprintf("%s %s: %s, %d of %d objects ready (namespace %s)", op.Name, op.Release, withReason(is, at.Message), at.Ready, at.Total, op.Namespace)
	return clean(head) + "\n\n" + groupsText(at.Groups, to.Style)
}

// Answer tells what has become of a command.
type Answer event.Event

func (a Answer) form() any { return compact{event.Event(a)} }

func (a Answer) text(Stream) string { return clean(answered(event.Event(a))) + "\n" }

// answered is the answer to a command, in words.
func answered(e event.Event) string {
	text := string(e.Command)
	if e.Group != "" {
		text += " " + e.Group
	}
	return withReason(text+" "+string(e.Status), e.Message)
}
