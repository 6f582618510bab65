package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/theme"
	"lockstep/ui/report"
)

// liveGroup is a group with the live status of its objects, as status prints
// it.
type liveGroup struct {
	ID      string       `json:"id"`
	Chart   string       `json:"chart"`
	Name    string       `json:"name"`
	Layer   int          `json:"layer"`
	After   []string     `json:"after"`
	Status  event.Status `json:"status"`
	Message string       `json:"message,omitempty"`
	Objects []liveObject `json:"objects"`
	// Ran is how the group fared in the run that made the revision, where that
	// is known.
	Ran *ranGroup `json:"ran,omitempty"`
}

type ranGroup struct {
	Status  event.Status `json:"status"`
	Started time.Time    `json:"started"`
	Seconds float64      `json:"seconds"`
}

func (r *ranGroup) String() string {
	took := report.Seconds(time.Duration(r.Seconds * float64(time.Second)))
	switch r.Status {
	case event.Ready:
		return "took " + took
	case event.Applied: // its status was not waited for (R21)
		return "applied in " + took
	}
	return string(r.Status) + " after " + took
}

type liveObject struct {
	plan.Object
	Status  event.Status `json:"status"`
	Message string       `json:"message,omitempty"`
}

// liveGroups are the groups of a state, with what is known of the run that has
// deployed them.
func liveGroups(s *event.State, timings []kube.Timing) []liveGroup {
	groups := []liveGroup{}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			l := liveGroup{ID: g.ID, Chart: g.Chart, Name: g.Name, Layer: g.Layer, After: g.After, Status: g.Status, Message: g.Message, Objects: []liveObject{}}
			for _, t := range timings {
				if t.Phase == p.Name && t.Group == g.ID {
					l.Ran = &ranGroup{t.Status, t.Started, t.Took.Seconds()}
				}
			}
			for _, o := range g.Objects {
				l.Objects = append(l.Objects, liveObject{o.Object, o.Status, o.Message})
			}
			groups = append(groups, l)
		}
	}
	return groups
}

// mark is a status as a sign and a word.
func mark(style report.Style, st event.Status) string {
	m := style.Theme.Mark(string(st))
	return paint(style, m.Role, m.Glyph+" "+m.Word)
}

func paint(style report.Style, role theme.Role, text string) string {
	if !style.Codes {
		return text
	}
	return style.Theme.Render(role, text)
}

// ready counts the objects that are ready.
func (g *liveGroup) ready() int {
	n := 0
	for _, o := range g.Objects {
		if o.Status == event.Ready {
			n++
		}
	}
	return n
}

// printGroups prints groups and the objects in them, those that are well
// without a reason.
func printGroups(w io.Writer, groups []liveGroup, style report.Style) {
	wide := 0
	after := map[string][]string{}
	for _, g := range groups {
		after[g.ID] = g.After
		for _, o := range g.Objects {
			wide = max(wide, len(o.String()))
		}
	}
	for _, g := range groups {
		ran := ""
		if g.Ran != nil {
			ran = "  " + g.Ran.String()
		}
		fmt.Fprintf(w, "%s %d/%d%s%s\n", paint(style, theme.Strong, g.ID), g.ready(), len(g.Objects), ran, waitsFor(direct(g.After, after), style))
		for _, o := range g.Objects {
			line := fmt.Sprintf("  %-*s  %s", wide, o.String(), mark(style, o.Status))
			if o.Message != "" && o.Status != event.Ready {
				line += ": " + o.Message
			}
			fmt.Fprintln(w, line)
		}
	}
}

// direct leaves out of ids what follows from the others, by what each group
// waits for.
func direct(ids []string, after map[string][]string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(ids, func(other string) bool { return slices.Contains(after[other], id) })
	})
}

func waitsFor(after []string, style report.Style) string {
	if len(after) == 0 {
		return ""
	}
	return paint(style, theme.Quiet, "  after "+strings.Join(after, ", "))
}
