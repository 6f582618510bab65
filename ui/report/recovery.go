package report

import (
	"fmt"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/theme"
	"lockstep/ui/report/format"
)

// Recovery is a release whose last run may have been killed, and the state of its objects.
type Recovery struct {
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"revision"`
	Status    string `json:"status"`
	// Marked are the revisions that "recover" has given a final status.
	Marked []MarkedRevision `json:"marked"`
	// Groups are the groups of the latest revision, Leftovers the remaining objects of other
	// revisions. Both are empty unless a run was interrupted.
	Groups    []RecoveredGroup  `json:"groups"`
	Leftovers []RecoveredObject `json:"left"`
	// Next are commands to run next.
	Next []string `json:"next"`
}

// MarkedRevision is a revision whose status was changed from a pending to a final one.
type MarkedRevision struct {
	Revision int    `json:"revision"`
	From     string `json:"from"`
	To       string `json:"to"`
	By       string `json:"by,omitempty"` // the run that was killed
}

// RecoveredGroup is a group and the state of its objects.
type RecoveredGroup struct {
	ID      string            `json:"id"`
	After   []string          `json:"after"`
	Status  event.Status      `json:"status"`
	Objects []RecoveredObject `json:"objects"`
}

// RecoveredObject is an object and the revision that it matches.
type RecoveredObject struct {
	plan.Object
	Status  event.Status `json:"status,omitempty"`
	Message string       `json:"message,omitempty"`
	// Match compares the object with the manifests: applied (matches the latest revision), earlier
	// (matches Revision), changed (matches none), missing, or left (belongs to Revision only).
	Match    string `json:"is"`
	Revision int    `json:"revision,omitempty"`
}

// origin describes which revision the object is from.
func (o RecoveredObject) origin() string {
	switch o.Match {
	case "earlier", "applied":
		return fmt.Sprintf("matches revision %d", o.Revision)
	case "left":
		return fmt.Sprintf("left over from revision %d", o.Revision)
	case "changed":
		return "matches no revision: changed or partly applied"
	}
	return o.Match
}

// count counts the objects that match the latest revision, and those that are ready.
func (g RecoveredGroup) count() (applied, ready int) {
	for _, o := range g.Objects {
		if o.Match == "applied" {
			applied++
		}
		if o.Status == event.Ready {
			ready++
		}
	}
	return applied, ready
}

func (r Recovery) text(to Stream) string {
	var b strings.Builder
	b.WriteString(joinLines(r.marks()))
	var rows [][]string
	for _, g := range r.Groups {
		for _, o := range g.Objects {
			status := withMessage(to.Style.mark(o.Status), o.Status, o.Message) + " (" + o.origin() + ")"
			if o.Match == "missing" {
				status = to.Style.glyph(event.Skipped) + " missing"
			}
			rows = append(rows, []string{clean(o.String()), status})
		}
	}
	objects := table(rows)
	for _, g := range r.Groups {
		applied, ready := g.count()
		fmt.Fprintf(&b, "%s %d of %d applied, %d ready\n", to.Style.render(theme.Strong, g.ID), applied, len(g.Objects), ready)
		b.WriteString(joinLines(objects[:len(g.Objects)]))
		objects = objects[len(g.Objects):]
	}
	for _, o := range r.Leftovers {
		fmt.Fprintf(&b, "%s (%s)\n", clean(o.String()), o.origin())
	}
	for _, l := range r.Next {
		fmt.Fprintln(&b, "next:", clean(l))
	}
	return b.String()
}

// marks returns a line for each marked revision, and one for the latest revision if it was not marked.
func (r Recovery) marks() (lines []string) {
	name := "release " + r.Release + format.WithPrefix(" in namespace ", r.Namespace)
	latestMarked := false
	for _, m := range r.Marked {
		by := ""
		if m.By != "" {
			by = " by a killed run (" + m.By + ")"
		}
		lines = append(lines, fmt.Sprintf("%s: revision %d was left %s%s; now marked %s", name, m.Revision, m.From, by, m.To))
		latestMarked = latestMarked || m.Revision == r.Revision
	}
	if !latestMarked {
		state := fmt.Sprintf("%s: revision %d has status %s", name, r.Revision, r.Status)
		if len(r.Marked) == 0 {
			state += "; nothing to recover"
		}
		lines = append(lines, state)
	}
	return cleaned(lines...)
}

// Drift is how the cluster differs from the records of releases (S18).
type Drift struct {
	Releases []inspect.Drift `json:"releases"`
	Next     string          `json:"next,omitempty"` // the command that repairs it
}

// Count returns how many releases differ, and how many could not be compared completely.
func (d Drift) Count() (drifted, incomplete int) {
	for _, r := range d.Releases {
		differ, unread := r.Drifted()
		if r.Error != "" || unread > 0 {
			incomplete++
		}
		if differ > 0 {
			drifted++
		}
	}
	return drifted, incomplete
}

func (d Drift) jsonForm() any { return Drift{append([]inspect.Drift{}, d.Releases...), d.Next} } // never null

func (d Drift) text(to Stream) string {
	var b strings.Builder
	for _, r := range d.Releases {
		if len(d.Releases) == 1 || len(r.Objects) > 0 || r.Error != "" { // else the last line counts it
			b.WriteString(joinLines(driftOf(r, to.Style)))
		}
	}
	if n := len(d.Releases); n != 1 {
		drifted, failed := d.Count()
		counts := []string{fmt.Sprintf("%d without drift", n-drifted-failed), fmt.Sprintf("%d with drift", drifted)}
		if failed > 0 {
			counts = append(counts, fmt.Sprintf("%d not compared completely", failed))
		}
		fmt.Fprintf(&b, "%s: %s\n", text.Count(n, "release"), strings.Join(counts, ", "))
	}
	if d.Next != "" {
		fmt.Fprintln(&b, "next:", clean(d.Next))
	}
	return b.String()
}

// driftOf returns a line about a release, and lines about the objects that differ.
func driftOf(r inspect.Drift, style Style) (lines []string) {
	head := style.render(theme.Strong, r.Release) + clean(" in namespace "+r.Namespace+format.WithPrefix(", context ", r.Context))
	if r.Error != "" {
		return []string{head + ": " + clean(r.Error)}
	}
	head += fmt.Sprintf(", revision %d:", r.Revision)
	switch differ, unread := r.Drifted(); {
	case differ == 1:
		head += " 1 of " + text.Count(len(r.Compared), "object") + " differs"
	case differ > 1:
		head += fmt.Sprintf(" %d of %s differ", differ, text.Count(len(r.Compared), "object"))
	case unread == 0:
		head += " no drift"
	}
	lines = append(lines, head)
	for _, o := range r.Objects {
		line := "  " + style.render(theme.Strong, o.Object.String())
		switch {
		case o.Unread != "":
			line += " not compared: " + clean(o.Unread)
		case o.Gone:
			line += " " + style.render(theme.Bad, format.WithReason("gone", o.Message))
		case o.Owner != "":
			line += " belongs to " + clean(o.Owner) + " now"
		}
		lines = append(lines, line)
		for _, f := range o.Fields {
			lines = append(lines, "    "+clean(f.Field)+": "+style.render(theme.Busy, format.DriftValues(f))+style.render(theme.Quiet, format.DriftAuthor(f)))
		}
	}
	return lines
}
