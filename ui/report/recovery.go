package report

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/theme"
)

// Recovery is a release of which a run may have been cut off, and what is where.
type Recovery struct {
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"revision"`
	Status    string `json:"status"`
	// Marked are the revisions that were brought to a final state just now.
	Marked []Marked `json:"marked"`
	// Groups are those of the latest revision, Left what other ones have left in
	// the cluster. Both are empty where nothing has failed.
	Groups []RecoveredGroup  `json:"groups"`
	Left   []RecoveredObject `json:"left"`
	// Next are the commands that go on from here.
	Next []string `json:"next"`
}

// Marked is a revision that was brought to a final state.
type Marked struct {
	Revision int    `json:"revision"`
	From     string `json:"from"`
	To       string `json:"to"`
	By       string `json:"by,omitempty"` // the run that has left it so
}

// RecoveredGroup is a group and how far it has come.
type RecoveredGroup struct {
	ID      string            `json:"id"`
	After   []string          `json:"after"`
	Status  event.Status      `json:"status"`
	Objects []RecoveredObject `json:"objects"`
}

// RecoveredObject is an object and where it comes from.
type RecoveredObject struct {
	plan.Object
	Status  event.Status `json:"status,omitempty"`
	Message string       `json:"message,omitempty"`
	// Is says how the object compares with the manifests: applied, as in the
	// latest revision; earlier, as in Revision; changed, like neither; missing;
	// or left, by Revision.
	Is       string `json:"is"`
	Revision int    `json:"revision,omitempty"`
}

// origin says where the object comes from.
func (o RecoveredObject) origin() string {
	switch o.Is {
	case "earlier", "applied":
		return fmt.Sprintf("as in revision %d", o.Revision)
	case "left":
		return fmt.Sprintf("left by revision %d", o.Revision)
	case "changed":
		return "not as in any revision: changed since, or half"
	}
	return o.Is
}

func (r Recovery) text(to Stream) string {
	var b strings.Builder
	for _, m := range r.Marked {
		fmt.Fprintf(&b, "%s: revision %d was left %s%s; it is marked %s now\n", r.Release, m.Revision, m.From, prefixed(" by a run that was killed: ", m.By), m.To)
	}
	state := fmt.Sprintf("%s: revision %d is %s, namespace %s", r.Release, r.Revision, r.Status, r.Namespace)
	if len(r.Marked) == 0 {
		state += "; nothing was left half done"
	}
	fmt.Fprintln(&b, clean(state))
	wide := 0
	for _, g := range r.Groups {
		for _, o := range g.Objects {
			wide = max(wide, len(clean(o.String())))
		}
	}
	for _, g := range r.Groups {
		applied, ready := 0, 0
		for _, o := range g.Objects {
			if o.Is == "applied" {
				applied++
			}
			if o.Status == event.Ready {
				ready++
			}
		}
		fmt.Fprintf(&b, "%s %d of %d applied, %d ready\n", to.Style.render(theme.Strong, clean(g.ID)), applied, len(g.Objects), ready)
		for _, o := range g.Objects {
			line := fmt.Sprintf("  %-*s  %s  %s", wide, clean(o.String()), to.Style.mark(o.Status), o.origin())
			if o.Status != event.Ready {
				line = withReason(line, clean(o.Message))
			}
			fmt.Fprintln(&b, line)
		}
	}
	for _, o := range r.Left {
		fmt.Fprintf(&b, "%s %s\n", clean(o.String()), o.origin())
	}
	for _, l := range r.Next {
		fmt.Fprintln(&b, "next:", clean(l))
	}
	return b.String()
}

// prefixed is a text with what comes before it, or nothing.
func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
