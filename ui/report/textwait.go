package report

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/forecast"
	"lockstep/engine/phrase"
	"lockstep/ui/report/format"
)

// waiting writes a heartbeat, with the forecast of the run if there is one. It writes nothing if
// --readiness-timeout is about to expire, because the line about the failure says the same.
func (t *textLog) waiting(e event.Event) {
	if e.ReadyBy == event.BySettling {
		t.line(e, event.InProgress, e.Message+": "+objectIn(e.Object, e.Group)+" has a container without a readiness probe (--settle)")
		return
	}
	if g, o := t.find(e); o != nil {
		if left, limited := t.state.TimeLeft(g, o, e.Time); limited && left < time.Second {
			return
		}
	}
	text := t.about(e) + ": " + t.waitingFor(e)
	if !e.Outside {
		text = "waiting for " + text
	}
	if f, ok := forecast.Estimate(&t.state, e.Time); ok {
		switch left := f.String(); {
		case strings.HasSuffix(left, " left"):
			text += "; " + left + " in this run"
		default:
			text += format.WithPrefix("; the run ", left)
		}
	}
	t.line(e, event.InProgress, text)
}

// waitingFor returns the state of an object, after the cause if that is known.
func (t *textLog) waitingFor(e event.Event) string {
	g, o := t.find(e)
	switch {
	case e.Object == nil:
		return e.Message
	case o == nil || o.Cause == "":
		return waitText(e.Object.Kind, e.Message)
	}
	status := strings.Replace(e.Message, ": "+e.Cause, "", 1)
	if o.OnlyState { // the message is newer
		return waitText(e.Object.Kind, status)
	}
	if o.Message != "" {
		news := format.UnknownLines(strings.Split(o.Message, " · "), []string{o.Cause})
		news = slices.DeleteFunc(news, func(part string) bool { // the cause says the same in more detail
			i := strings.LastIndex(part, ": ")
			return i >= 0 && len(part)-i > shortestRepeat && event.Repeats(part[i+2:], o.Cause)
		})
		status = strings.Replace(status, ", "+o.Message, format.WithPrefix(", ", strings.Join(news, " · ")), 1)
	}
	return phrase.CauseAt(g, o, e.Time) + " (" + waitText(e.Object.Kind, status) + ")"
}

// shortestRepeat is the length from which the end of a message counts as said by the cause.
const shortestRepeat = 12

var replicasPattern = regexp.MustCompile(`^(\d+ of \d+) (available|ready|updated)\b`)

// waitText completes the message of a heartbeat: "0 of 1 replicas available; 10s so far".
func waitText(kind, text string) string {
	if rest, ok := strings.CutPrefix(text, string(event.InProgress)); ok && rest != "" {
		text = strings.TrimLeft(rest, ",; ")
	}
	switch kind {
	case "Deployment", "StatefulSet", "ReplicaSet":
		text = replicasPattern.ReplaceAllString(text, "$1 replicas $2")
	}
	return text
}
