package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/theme"
	"lockstep/ui/report/format"
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
	ID string `json:"id"`
	// Phase is set if the group is part of a run, which may have the same id in several phases.
	Phase   string       `json:"phase,omitempty"`
	Chart   string       `json:"chart"`
	Name    string       `json:"name"`
	Layer   int          `json:"layer"`
	After   []string     `json:"after"`
	Status  event.Status `json:"status"`
	Message string       `json:"message,omitempty"`
	Objects []LiveObject `json:"objects"`
	// LastRun is the group's result in the run that deployed the revision, if known.
	LastRun *GroupRun `json:"ran,omitempty"`

	title  string   // of format.GroupTitle
	direct []string // After without indirect dependencies
}

// GroupRun is the result of a group in a run.
type GroupRun struct {
	Status  event.Status `json:"status"`
	Started time.Time    `json:"started"`
	Seconds float64      `json:"seconds"`
}

// LiveObject is an object with its live status.
type LiveObject struct {
	plan.Object
	Status  event.Status `json:"status"`
	Message string       `json:"message,omitempty"`
	// ReadyBy is the rule by which it is ready, and Note is event.Event.Note.
	ReadyBy event.Judge `json:"readyBy,omitempty"`
	Note    string      `json:"note,omitempty"`
	// Degraded means that waiting alone will not make it ready, Cause is why it is not ready, if known.
	Degraded bool   `json:"degraded,omitempty"`
	Cause    string `json:"cause,omitempty"`
	// Drift has the fields that others have changed since it was applied.
	Drift []event.Drift `json:"drift,omitempty"`
	// run is event.State.ReleaseRun of a stack's release, progress is why the object is not ready.
	run      event.Status
	progress string
}

// Groups returns the groups of a state, with the timings of the run that deployed them.
func Groups(s *event.State, timings []Timing) []Group {
	groups := []Group{}
	for _, p := range s.Phases {
		var planned []*plan.Group
		for _, g := range p.Groups {
			planned = append(planned, g.Group)
		}
		after := plan.Reduce(planned)
		for _, g := range p.Groups {
			group := newLiveGroup(s, g)
			group.direct = after[g.ID]
			for _, t := range timings {
				if t.Phase == g.Phase && t.Group == g.ID {
					group.LastRun = &GroupRun{t.Status, t.Started, t.Took.Seconds()}
				}
			}
			groups = append(groups, group)
		}
	}
	return groups
}

func newLiveGroup(s *event.State, g *event.GroupState) Group {
	group := Group{
		ID: g.ID, Chart: g.Chart, Name: g.Name, Layer: g.Layer, After: g.After,
		Status: g.Status, Message: g.Message, Objects: []LiveObject{}, title: format.GroupTitle(s, g),
	}
	if !s.Operation.IsWatch() {
		group.Phase = g.Phase
	}
	for _, o := range g.Objects {
		progress := o.Message
		switch {
		case o.InTrouble() && (g.Status == event.Failed || o.Degraded):
			progress = cmp.Or(o.Cause, progress)
		case o.Status == event.Waiting && format.Removes(s, g.Phase):
			progress = cmp.Or(progress, "to be deleted")
		}
		live := LiveObject{Object: o.Object, Status: o.Status, Message: o.Message, ReadyBy: o.ReadyBy, Note: o.Note, Drift: o.Drift, run: s.ReleaseRun(g), progress: progress}
		if !o.Done() {
			live.Degraded, live.Cause = o.Degraded, o.Cause
		}
		group.Objects = append(group.Objects, live)
	}
	return group
}

// LiveStatus is what lockstep adds to Helm's status of a release.
type LiveStatus struct {
	// Groups is nil if the release was not deployed in order.
	Groups    []Group          `json:"groups,omitempty"`
	Approvals []event.Approval `json:"approvals,omitempty"`
}

// Status writes Helm's status of a release with its groups and approvals: below Helm's text or YAML, or as fields of Helm's
// JSON object.
func (d Display) Status(helmOutput []byte, live LiveStatus) error {
	if d.isText() {
		text := ""
		if live.Groups != nil {
			text += "\nGROUPS:\n" + formatGroups(live.Groups, d.out.Style)
		}
		if live.Approvals != nil {
			text += "\nAPPROVED:\n" + joinLines(cleaned(phrase.Given(live.Approvals)...))
		}
		if _, err := d.Text().Write(helmOutput); err != nil {
			return err
		}
		return write(d.lines, text)
	}
	end := bytes.LastIndexByte(helmOutput, '}')
	switch {
	case live.Groups == nil && live.Approvals == nil:
	case d.mode == ModeYAML:
		more, err := yaml.Marshal(live)
		if err != nil {
			return err
		}
		helmOutput = append(helmOutput, more...)
	case end >= 0:
		var more bytes.Buffer
		if err := encodeLine(&more, live); err != nil {
			return err
		}
		helmOutput = fmt.Appendf(nil, "%s,%s\n", helmOutput[:end], bytes.TrimPrefix(bytes.TrimSpace(more.Bytes()), []byte("{")))
	}
	_, err := d.out.Write(helmOutput)
	return err
}

// Release is the live state of a release. It has no JSON form: the events have the same content.
type Release struct {
	State   *event.State
	Timings []Timing
}

func (r Release) jsonForm() any { return nil }

func (r Release) text(to Stream) string {
	return viewTitle(r.State) + "\n" + formatGroups(Groups(r.State, r.Timings), to.Style)
}

func viewTitle(s *event.State) string {
	op := s.Operation
	return clean(fmt.Sprintf("%s: chart %s, namespace %s, revision %d, %s", op.Release, op.Chart, op.Namespace, op.Revision, s.Message))
}

// formatGroups lists groups and their objects, without messages of ready objects.
func formatGroups(groups []Group, style Style) string {
	var rows [][]string
	for _, g := range groups {
		for _, o := range g.Objects {
			status := withMessage(o.mark(style), o.Status, o.progress)
			if o.Status == event.Waiting && strings.HasPrefix(o.Message, event.NotCreated) { // no run is going to create it
				status = style.glyph(event.Skipped) + " " + o.Message
			}
			if !o.ReadyBy.IsUsual() {
				status += style.render(theme.Quiet, ", "+o.ReadyBy.Text())
			}
			if len(o.Drift) > 0 {
				status += ", " + style.render(theme.Stopped, clean(phrase.Drift(o.Drift)))
			}
			rows = append(rows, []string{clean(o.String()), status})
		}
	}
	objects := table(rows)
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%s %d/%d%s", style.render(theme.Strong, clean(g.title)), g.ready(), len(g.Objects), g.LastRun)
		if g.Status == event.Failed && g.LastRun == nil { // its objects may still be in progress
			b.WriteString("  " + style.word(g.Status))
		}
		b.WriteString(style.render(theme.Quiet, format.WithPrefix("  after ", strings.Join(g.direct, ", "))))
		b.WriteString("\n" + joinLines(objects[:len(g.Objects)]))
		objects = objects[len(g.Objects):]
	}
	return b.String()
}

// mark returns the glyph and the word of an object's status, or of the run of its release.
func (o LiveObject) mark(style Style) string {
	switch o.run {
	case event.Held:
		held := style.Theme.HeldFailure()
		return style.render(held.Role, held.Glyph+" "+held.Word)
	case event.Paused:
		return style.mark(o.run)
	}
	if o.Degraded && o.Status == event.InProgress {
		return style.mark(event.Degraded)
	}
	if o.ReadyBy == event.ByNoStatus {
		return style.mark(event.Applied)
	}
	return style.mark(o.Status)
}

// withMessage adds the message of an object that is not ready.
func withMessage(text string, status event.Status, message string) string {
	if status == event.Ready {
		return text
	}
	return format.WithReason(text, clean(message))
}

// ready counts the objects that are ready, or gone in a removal.
func (g *Group) ready() int {
	n := 0
	for _, o := range g.Objects {
		if o.Status == event.Ready || o.Status == event.Gone {
			n++
		}
	}
	return n
}

// String says how long the group took, after two spaces. It returns "" if r is nil.
func (r *GroupRun) String() string {
	if r == nil {
		return ""
	}
	took := format.Seconds(r.Seconds)
	switch r.Status {
	case event.Ready:
		return "  took " + took
	case event.Applied: // not checked (R21)
		return "  applied in " + took
	}
	return fmt.Sprintf("  %s (%s)", r.Status, took)
}

// changeLog writes a watched release: all groups as soon as every object has been read, then a line
// for each change.
type changeLog struct {
	Notices
	out     io.Writer
	style   Style
	state   event.State
	written bool                    // whether the groups have been written
	last    map[string]event.Status // the last written status of each group
}

// Consume takes the next event of a view.
func (c *changeLog) Consume(e event.Event) {
	c.state.Apply(e)
	switch {
	case e.Kind == event.KindWarning:
		c.Warn(e.Message)
	case !c.written:
		if c.complete() {
			c.writeAll()
		}
	case e.Kind == event.KindOperation && e.Status == event.Running:
		c.line(e, viewTitle(&c.state))
	case e.Kind == event.KindOperation:
		c.line(e, clean(e.Message))
	case e.Kind == event.KindDrift && len(e.Drift) > 0:
		c.line(e, c.style.glyph(event.Degraded), clean(objectIn(&c.state, e, e.Object)+" "+phrase.Drift(e.Drift)))
	case e.Kind == event.KindObject:
		o := event.ObjectState{Status: e.Status, ReadyBy: e.ReadyBy}
		text := objectIn(&c.state, e, e.Object)
		if e.Status != event.InProgress || e.Message == "" { // a message is news enough, as in the log of a run
			text += " " + c.style.word(o.Shown())
		}
		if o.NotAwaited() {
			text += ", " + o.ReadyBy.Text()
		}
		c.line(e, c.style.glyph(o.Shown()), clean(format.WithReason(text, e.Message)))
	case e.Kind == event.KindGroup && c.last[e.Group] != e.Status:
		c.last[e.Group] = e.Status
		shown := c.state.Find(e.Phase, e.Group).Shown()
		c.line(e, c.style.glyph(shown), clean(e.Group+" "+c.style.word(shown)))
	}
}

func (c *changeLog) line(e event.Event, words ...string) {
	at := c.style.render(theme.Quiet, e.Time.Local().Format("15:04:05"))
	fmt.Fprintln(c.out, at, strings.Join(words, " "))
}

// writeAll derives the status of the groups from their objects, because the event about
// the last group may not have arrived.
func (c *changeLog) writeAll() {
	c.written, c.last = true, map[string]event.Status{}
	groups := Groups(&c.state, nil)
	fmt.Fprint(c.out, viewTitle(&c.state)+"\n"+formatGroups(groups, c.style))
	for _, g := range groups {
		c.last[g.ID] = g.Status
		if g.ready() == len(g.Objects) {
			c.last[g.ID] = event.Ready
		}
	}
}

// complete reports whether every object has been read.
func (c *changeLog) complete() bool {
	for g := range c.state.GroupStates() {
		if slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return o.Sent.IsZero() }) {
			return false
		}
	}
	return len(c.state.Phases) > 0
}
