package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/kube/status"
)

// note records that something could not be read.
func (q *inquiry) note(what string, err error) {
	if err != nil {
		q.failed = append(q.failed, gapText(what, err))
	}
}

// gapText says that something could not be read, and where that is a lack of
// rights, which.
func gapText(what string, err error) string {
	text := err.Error()
	if m := noRight.FindStringSubmatch(text); m != nil && m[3] != "" && LacksRight(err) {
		text = fmt.Sprintf("user %s may not %s %s", m[1], m[2], m[3])
	}
	return status.CleanText(what + " cannot be read: " + text)
}

// admitGaps says in the evidence what could not be read and, where that may be why
// nothing better is known, in the cause, too.
func (q *inquiry) admitGaps() {
	gaps := slices.Compact(slices.Clone(q.failed))
	if len(gaps) == 0 {
		return
	}
	if q.Symptom {
		q.Cause = status.CleanText(q.Cause + " (more is not known: " + strings.Join(gaps, "; ") + ")")
	}
	room := max(event.MostEvidence-len(gaps), 1)
	q.Evidence = append(q.Evidence[:min(room, len(q.Evidence))], gaps[:min(len(gaps), event.MostEvidence-1)]...)
}
