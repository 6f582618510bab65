package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// The types of notices, in CloudEvents' type.
const (
	Started  = "lockstep.run.started"
	Approval = "lockstep.run.waiting-for-approval"
	Held     = "lockstep.run.held"
	Failed   = "lockstep.run.failed" // or aborted
	Done     = "lockstep.run.done"
)

// Notice is what is posted: the data of a CloudEvent.
type Notice struct {
	ID   string    `json:"-"`
	Type string    `json:"-"`
	Time time.Time `json:"-"`

	Run
	Status event.Status `json:"status"`
	// Scope is the release of a stack that the notice is about, Group the group.
	Scope string `json:"scope,omitempty"`
	Group string `json:"group,omitempty"`
	// Message says all in one sentence.
	Message string `json:"message"`
	// End is set at the end of the run.
	*End
}

// Run is the run that a notice is about.
type Run struct {
	Operation string `json:"operation"`
	Release   string `json:"release"`
	Namespace string `json:"namespace,omitempty"`
	Context   string `json:"context,omitempty"`
	Chart     string `json:"chart,omitempty"`
	Revision  int    `json:"revision,omitempty"`
}

// End is how a run ended. Object, Cause and Evidence are those of the first failure.
type End struct {
	Exit     int          `json:"exit"`
	Seconds  float64      `json:"seconds"`
	Outcome  string       `json:"outcome,omitempty"`
	Object   *plan.Object `json:"object,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Evidence []string     `json:"evidence,omitempty"`
}

// noticeOf returns the notice of an event that is worth one. The state is that after the event.
func noticeOf(s *event.State, e event.Event) (n Notice, worth bool) {
	o := s.Operation
	n = Notice{
		Time: e.Time, Run: Run{o.Name, o.Release, o.Namespace, o.Context, o.Chart, o.Revision}, Status: s.Status, Scope: e.Scope, Group: e.Group,
	}
	title := o.Title()
	of := s
	if e.Scope != "" {
		of = s.Scopes[e.Scope]
		title += ": " + e.Scope
	}
	switch {
	case e.Kind == event.KindOperation && e.Scope == "" && e.Status == event.Running && s.Started.Equal(e.Time):
		n.Type, n.Message = Started, text.Join(", ", title+" started", named("namespace", o.Namespace), named("chart", o.Chart))
	case e.Kind == event.KindGroup && e.Status == event.AtBreakpoint && e.Code == event.Unapproved:
		g := of.Find(e.Phase, e.Group)
		if g == nil {
			return n, false
		}
		n.Type, n.Message = Approval, title+": "+phrase.ApprovalOf(g.ID, of.Unapproved(g))
	case e.Kind == event.KindRun && e.Status == event.Held:
		n.Type, n.Message = Held, text.Join(": ", title+" is held", e.Message)
	case e.Kind == event.KindOperation && e.Scope == "" && !s.Ended.IsZero():
		n.Type, n.End, n.Message = Done, ending(s), text.Join("; ", fmt.Sprintf("%s done in %s", title, s.Ended.Sub(s.Started).Round(100*time.Millisecond)), s.Outcome)
		if s.Status != event.Succeeded {
			n.Type, n.Message = Failed, text.Join(": ", title+" "+string(s.Status), phrase.Reason(s))
		}
	default:
		return n, false
	}
	return n, true
}

func named(what, name string) string {
	if name == "" {
		return ""
	}
	return what + " " + name
}

func ending(s *event.State) *End {
	end := &End{Exit: s.Exit, Seconds: s.Ended.Sub(s.Started).Seconds(), Outcome: s.Outcome}
	if s.Status == event.Succeeded {
		return end
	}
	root := s.FirstRoot()
	if end.Cause, end.Evidence = root.Cause, root.Evidence; root.Object != nil {
		end.Object = &root.Object.Object
	}
	return end
}

// cloudEvent returns the notice as a CloudEvent in structured mode.
func (n Notice) cloudEvent() ([]byte, error) {
	source := "lockstep"
	for _, part := range []string{n.Context, n.Namespace, n.Release} {
		if part != "" {
			source += "/" + url.PathEscape(part)
		}
	}
	return encode(struct {
		SpecVersion string    `json:"specversion"`
		ID          string    `json:"id"`
		Source      string    `json:"source"`
		Type        string    `json:"type"`
		Subject     string    `json:"subject,omitempty"`
		Time        time.Time `json:"time"`
		ContentType string    `json:"datacontenttype"`
		Data        Notice    `json:"data"`
	}{"1.0", n.ID, source, n.Type, n.Release, n.Time, "application/json", n})
}

// slackText escapes what Slack would read as a link or a mention.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack returns the notice as a message of Slack, with the evidence of a failure below it.
func (n Notice) slack() ([]byte, error) {
	message := slackText.Replace(text.Line(n.Message))
	if n.End != nil && len(n.Evidence) > 0 {
		var lines []string
		for _, l := range n.Evidence {
			lines = append(lines, strings.ReplaceAll(slackText.Replace(text.Line(l)), "```", "'''"))
		}
		message += "\n```\n" + strings.Join(lines, "\n") + "\n```"
	}
	return encode(map[string]string{"text": message})
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
