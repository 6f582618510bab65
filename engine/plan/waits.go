package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The annotations that say how a run waits for an object (R22b, R22c).
const (
	AnnotationWait             = "lockstep/wait"             // "false": the run does not wait for the object
	AnnotationReadinessTimeout = "helm.sh/readiness-timeout" // duration
	AnnotationStableFor        = "lockstep/stable-for"       // duration for which the object must have been ready
)

// Wait says how a run waits for an object. With the zero value it waits as usual.
type Wait struct {
	// Never means that the run does not wait for the object, whose failure then fails nothing.
	Never bool `json:"never,omitempty"`
	// Timeout is the time in which the object must become ready, 0 for the one of the operation. Source is the
	// annotation or the flag that sets it.
	Timeout time.Duration `json:"timeout,omitempty"`
	Source  string        `json:"source,omitempty"`
	// StableFor is how long the object must have been ready, without a restart, until it counts (R22c).
	StableFor time.Duration `json:"stableFor,omitempty"`
	// By is the rule by which the object is ready, if it is not the usual one: a value of event.Judge (R22b).
	By string `json:"by,omitempty"`
}

// ObjectWait is an object of a group with its own Wait.
type ObjectWait struct {
	Object Object `json:"object"`
	Wait
}

// ReadWait reads the annotations that say how a run waits for an object.
func ReadWait(annotations map[string]string) (w Wait, faults []Fault) {
	if value := strings.TrimSpace(annotations[AnnotationWait]); value != "" {
		if w.Never = value == "false"; value != "false" && value != "true" {
			faults = append(faults, Fault{"R22b", fmt.Sprintf("annotation %s must be true or false, but is %s", AnnotationWait, quote(value))})
		}
	}
	duration := func(key, rule string) (d time.Duration) {
		value := strings.TrimSpace(annotations[key])
		if value == "" {
			return 0
		}
		d, err := ParseWait(value)
		if err != nil {
			faults = append(faults, Fault{rule, fmt.Sprintf("annotation %s %v", key, err)})
		}
		return d
	}
	if w.Timeout = duration(AnnotationReadinessTimeout, "R22b"); w.Timeout > 0 {
		w.Source = AnnotationReadinessTimeout
	}
	w.StableFor = duration(AnnotationStableFor, "R22c")
	return w, faults
}

// ParseWait parses how long to wait. The error completes a sentence about what is parsed.
func ParseWait(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("must be a duration of more than 0, such as 10m, but is %s", quote(text))
	}
	return d, nil
}

// addWaits adds to a group what its members say about waiting, in the order of its objects.
func (g *Group) addWaits(members []*member) {
	for _, m := range members {
		if m.Wait != (Wait{}) {
			g.Waits = append(g.Waits, ObjectWait{m.Object, m.Wait})
		}
	}
	slices.SortStableFunc(g.Waits, func(a, b ObjectWait) int { return a.Object.Compare(b.Object) })
	g.Waits = slices.CompactFunc(g.Waits, func(a, b ObjectWait) bool { return a.Object == b.Object })
}

// WaitOf returns how the run waits for an object of the group.
func (g *Group) WaitOf(o Object) Wait {
	for _, w := range g.Waits {
		if w.Object == o {
			return w.Wait
		}
	}
	return Wait{}
}

// warnNotAwaited warns about groups that wait for a group, some object of which the run does not wait for.
func (p *planner) warnNotAwaited(plan *Plan) {
	byID := map[string]*Group{}
	for _, g := range plan.Groups {
		byID[g.ID] = g
	}
	for id, direct := range Reduce(plan.Groups) {
		for _, dependency := range direct {
			for _, w := range byID[dependency].Waits {
				if w.Never {
					g := byID[id]
					p.warn("R22b", g.Chart, &w.Object, "group %q waits for group %q, but nothing waits for %s of that group (%s: \"false\")",
						g.Name, byID[dependency].Name, w.Object, AnnotationWait)
				}
			}
		}
	}
}

// AnnotationApprove makes the run wait for an approval before the group of the annotated object starts or, in Chart.yaml,
// before anything of the chart does. Its value is the reason (R42a).
const AnnotationApprove = "lockstep/approve"

// Approval is what must be approved before a group starts (R42a).
type Approval struct {
	// Of is the id of the group, or the path of its chart if Chart.yaml asks for the approval.
	Of string `json:"of"`
	// Reason is why, "" if nobody said.
	Reason string `json:"reason,omitempty"`
}

// ReadApprove reads the annotation. A blank value and "false" ask for nothing, "true" gives no reason.
func ReadApprove(annotations map[string]string) (reason string, asked bool) {
	if reason = readReason(annotations, AnnotationApprove); reason == "true" {
		return "", true
	}
	return reason, reason != ""
}

// readReason returns the reason that an annotation gives, "" for none. A blank value and "false" are none.
func readReason(annotations map[string]string, key string) string {
	reason := strings.Join(strings.Fields(annotations[key]), " ")
	if reason == "false" {
		return ""
	}
	return reason
}

// AskApproval makes a group wait for its own approval, in addition to others. Reasons that differ are joined.
func (g *Group) AskApproval(reason string) {
	i := slices.IndexFunc(g.Approve, func(a Approval) bool { return a.Of == g.ID })
	if i < 0 {
		g.Approve = append(g.Approve, Approval{g.ID, reason})
		return
	}
	g.Approve[i].Reason = JoinReasons(append(strings.Split(g.Approve[i].Reason, "; "), reason)...)
}

// addApprovals makes a group wait for the approvals that its members, its charts and the parents of these ask for.
func (g *Group) addApprovals(members []*member, charts ...*chartNode) {
	for _, c := range charts {
		for ; c != nil; c = c.parent {
			if c.approval != nil && !slices.Contains(g.Approve, *c.approval) {
				g.Approve = append(g.Approve, *c.approval)
			}
		}
	}
	for _, m := range members {
		if reason, asked := ReadApprove(m.Annotations); asked {
			g.AskApproval(reason)
		}
	}
}

// AnnotationNoReturn says why nothing may go back once the group of the annotated object has succeeded or, in Chart.yaml, a
// group of the chart for which no other group of it waits (R33a).
const AnnotationNoReturn = "lockstep/no-return"

// ReadNoReturn reads the annotation. A blank value and "false" are no reason.
func ReadNoReturn(annotations map[string]string) string {
	return readReason(annotations, AnnotationNoReturn)
}

// JoinReasons returns the reasons that differ, as one text.
func JoinReasons(reasons ...string) string {
	var all []string
	for _, r := range reasons {
		if r != "" && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return strings.Join(all, "; ")
}

// warnNeverPassed warns about points of no return that no run passes, because it waits for no object of their groups.
func (p *planner) warnNeverPassed(plan *Plan) {
	for _, g := range plan.Groups {
		never := 0
		for _, w := range g.Waits {
			if w.Never {
				never++
			}
		}
		if g.NoReturn != "" && never == len(g.Objects) {
			p.warn("R33a", g.Chart, nil, "group %q is a point of no return, but nothing waits for its objects (%s: \"false\"), so no run passes it", g.Name, AnnotationWait)
		}
	}
}

// markNoReturn makes the last groups of charts points of no return, as Chart.yaml says.
func (p *planner) markNoReturn(groups []*Group) {
	byID, awaited := map[string]*Group{}, map[string]bool{}
	for _, g := range groups {
		byID[g.ID] = g
	}
	for _, g := range groups {
		for _, id := range g.After {
			if byID[id].Chart == g.Chart {
				awaited[id] = true
			}
		}
	}
	for _, g := range groups {
		if c := p.charts[g.Chart]; c != nil && !awaited[g.ID] {
			g.NoReturn = JoinReasons(g.NoReturn, c.noReturn)
		}
	}
}
