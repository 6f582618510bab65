package phrase

import (
	"cmp"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Origin says who or what paused or aborted a run: "by ctrl-c", "the stack is paused"; "" for a key of the run's screen.
func Origin(o event.Origin) string {
	if o.Why == "" && o.Via != "" {
		return By(o)
	}
	return o.Why
}

// By names who or what sent a command: "by ctrl-c", "by you".
func By(o event.Origin) string { return "by " + cmp.Or(o.Via, o.By, "you") }

// Ended says who or what ended something: "stopped by ctrl-c", "aborted: the stack is paused".
func Ended(ended string, o event.Origin) string {
	if o.Why != "" {
		return ended + ": " + o.Why
	}
	return ended + " " + By(o)
}

// Whence says who or what ended something, to those who were not there: the record of a release tells it. It follows a verb, as in
// "aborted by lockstep ctl (ann on box)".
func Whence(o event.Origin) string {
	switch {
	case o.Why != "":
		return ": " + o.Why
	case o.Via == "" && o.By == "":
		return " on its screen"
	case o.Via == "" || o.By == "":
		return " by " + o.Via + o.By
	}
	return " by " + o.Via + " (" + o.By + ")"
}

// Aborted says who or what aborted an operation, and how many requests that cancelled.
func Aborted(o event.Origin) string { return text.Join("; ", Ended("aborted", o), cancelled(o)) }

// AbortOutcome is the outcome of an aborted operation, after the number of cancelled requests.
func AbortOutcome(s *event.State) string { return text.Join("; ", cancelled(*s.Origin), s.Outcome) }

func cancelled(o event.Origin) string {
	if o.Cancelled == 0 {
		return ""
	}
	note := text.Count(o.Cancelled, "request") + " cancelled"
	if o.Command == event.Stop {
		note += " by stop"
	}
	return note
}
