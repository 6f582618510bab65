package inspector

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/ui/board/canvas"
)

// Reverts is the change in the cluster that a retry of the failed object would revert.
type Reverts struct {
	asked drifted // the last query
	text  string
}

// drifted is a failed object at a moment.
type drifted struct {
	item   Item
	status event.Status
	since  time.Time
	begun  time.Time
}

// revertsMsg is the answer to QueryReverts.
type revertsMsg struct {
	of   drifted
	text string
}

// QueryReverts queries what a retry of the failed object would revert.
func (r *Region) QueryReverts() tea.Cmd {
	answers := r.answers
	if answers == nil || !r.Held() {
		r.Reverts.asked, r.Reverts.text = drifted{}, ""
		return nil
	}
	nodes := r.Failing()
	if len(nodes) == 0 {
		return nil
	}
	root := r.RootOf(nodes[0])
	if root.Object == nil {
		return nil
	}
	about := Subject{Picture: &r.Picture, Node: nodes[0]}
	of := drifted{about.ItemOf(root.Object), root.Object.Status, root.Object.Since, nodes[0].Started}
	if of == r.Reverts.asked {
		return nil
	}
	r.Reverts.asked, r.Reverts.text = of, ""
	ctx := r.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, revertsTimeout)
		defer cancel()
		c, err := answers.Change(ctx, of.item)
		if err != nil || c.Action != Alter {
			return revertsMsg{of, ""}
		}
		return revertsMsg{of, revertedValues(c.Fields)}
	}
}

// revertsTimeout limits the query.
const revertsTimeout = 10 * time.Second

// storeReverts stores the answer, unless it is about another moment.
func (r *Region) storeReverts(msg revertsMsg) {
	if msg.of == r.Reverts.asked {
		r.Reverts.text = msg.text
	}
}

// revertedValues names the values in the cluster that a change replaces: "image: example/api:2",
// "replicas: 3 and 2 more".
func revertedValues(fields []Field) string {
	var gone []string
	for _, f := range fields {
		for _, l := range f.Lines {
			if live, ok := strings.CutPrefix(l, "-"); ok {
				gone = append(gone, strings.TrimSpace(live))
				break
			}
		}
	}
	switch len(gone) {
	case 0:
		return ""
	case 1:
		return gone[0]
	}
	return fmt.Sprintf("%s and %d more", gone[0], len(gone)-1)
}

// RetryHint returns the footer's word for R, with the change in the cluster that a retry would
// revert, as far as it fits.
func (r *Region) RetryHint() string {
	switch {
	case !r.Held():
		return ""
	case r.Reverts.text == "":
		return "retry"
	case r.W < 100:
		return "retry, reverts"
	}
	return "retry, which reverts " + canvas.FitMiddle(r.Reverts.text, r.W-80, r.Theme.Lines.Ellipsis)
}
