package planfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
)

// NotAsPlanned is the error about an operation, or a group of one that has started, that would not do what was approved.
type NotAsPlanned struct {
	Title string // of the operation, "" for a group
	Group string
	Late  bool // the run that the operation is a part of had begun, and may have written
	Moved []inspect.Moved
}

func (e *NotAsPlanned) Error() string {
	lines := make([]string, len(e.Moved))
	for n, m := range e.Moved {
		lines[n] = phrase.Moved(m)
	}
	if e.Group != "" {
		return "not as approved: " + strings.Join(lines, "; ")
	}
	if e.Late {
		return fmt.Sprintf("%s is not as approved; save a new plan and have it approved: %s", e.Title, strings.Join(lines, "; "))
	}
	return fmt.Sprintf("%s is not as approved; nothing was written; save a new plan and have it approved:\n  %s", e.Title, strings.Join(lines, "\n  "))
}

// Compare returns how an operation differs from the approved one. started means that the run which the plan is for has begun, so
// the cluster already has a part of what was approved.
//
// Rule R55: a run with a saved plan does what was approved, or nothing
func (a *Saved) Compare(now Release, started bool) (moved []inspect.Moved) {
	add := func(what inspect.MovedWhat, field, was, is string) {
		if was != is {
			moved = append(moved, inspect.Moved{What: what, Field: field, Was: was, Is: is})
		}
	}
	if !a.Cluster.Same(now.Cluster) {
		moved = append(moved, inspect.Moved{What: inspect.MovedCluster})
	}
	add(inspect.MovedNamespace, "", a.Operation.Namespace, now.Operation.Namespace)
	if len(moved) == 0 && a.Operation.Release == now.Operation.Release {
		add(inspect.MovedRevision, a.Operation.Release, Revision(a.Last), Revision(now.Last))
	}
	if len(moved) > 0 { // everything else differs because of that
		return moved
	}
	if add(inspect.MovedOperation, "", a.Operation.Title(), now.Operation.Title()); len(moved) > 0 {
		return moved
	}
	add(inspect.MovedTarget, "", strconv.Itoa(a.Operation.ToRevision), strconv.Itoa(now.Operation.ToRevision))
	if add(inspect.MovedChart, "", a.Operation.Chart, now.Operation.Chart); a.Operation.Chart == now.Operation.Chart {
		add(inspect.MovedFiles, a.Operation.Chart, a.Chart, now.Chart)
	}
	add(inspect.MovedValues, "", a.Values, now.Values)
	a = a.withoutNamespace(now.Phases)
	moved = append(moved, Differences(inspect.MovedOption, a.Options, now.Options)...)
	for _, order := range Differences(inspect.MovedOrder, groups(a.Phases), groups(now.Phases)) {
		_, group, _ := strings.Cut(order.Field, " ")
		moved = append(moved, inspect.Moved{What: inspect.MovedOrder, Field: group})
	}
	is := Saved{Release: now}
	for _, was := range a.Objects {
		if o := is.Object(was.Change); o != nil {
			moved = append(moved, was.Compare(*o, started)...)
		} else {
			moved = append(moved, inspect.Moved{What: inspect.MovedGone, Object: &was.Object})
		}
	}
	for _, o := range now.Objects {
		if a.Object(o.Change) == nil {
			moved = append(moved, inspect.Moved{What: inspect.MovedNew, Object: &o.Object})
		}
	}
	return moved
}

// withoutNamespace returns the plan without the phase that creates the namespace if nothing is left to create: a run in the cluster
// needs the namespace first.
func (a *Saved) withoutNamespace(now []event.Phase) *Saved {
	isNamespace := func(p event.Phase) bool { return p.Kind == event.PhaseNamespace }
	i := slices.IndexFunc(a.Phases, isNamespace)
	if i < 0 || slices.ContainsFunc(now, isNamespace) {
		return a
	}
	rest := *a
	rest.Phases = slices.Delete(slices.Clone(a.Phases), i, i+1)
	rest.Objects = slices.DeleteFunc(slices.Clone(a.Objects), func(o Object) bool { return o.Phase == a.Phases[i].Name })
	return &rest
}

// Compare returns how the change to an object differs from the approved one. Once the run has started, an object that is as
// it is sent needs no change any more.
func (o Object) Compare(now Object, started bool) (moved []inspect.Moved) {
	named := map[string]bool{}
	add := func(what inspect.MovedWhat, was, is map[string]string, secretWas, secretIs string) {
		for _, d := range append(Differences(what, was, is), Differences(what, map[string]string{"": secretWas}, map[string]string{"": secretIs})...) {
			if !named[d.Field] {
				moved = append(moved, inspect.Moved{What: what, Object: &o.Object, Field: d.Field, Secret: d.Field == ""})
			}
			named[d.Field] = true
		}
	}
	add(inspect.MovedSent, o.Sent, now.Sent, o.SecretSent, now.SecretSent)
	if started && (now.Again || now.Action == inspect.Unchanged || now.Action == inspect.Absent || now.Action == inspect.Keep) {
		return moved
	}
	if o.Action != now.Action {
		return append(moved, inspect.Moved{What: inspect.MovedAction, Object: &o.Object, Field: now.Message, Was: string(o.Action), Is: string(now.Action)})
	}
	add(inspect.MovedLive, o.Changed, now.Changed, o.SecretChanged, now.SecretChanged)
	return moved
}

// Revision returns the number of a release's latest revision, "" for none.
func Revision(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// groups returns the groups as text, by phase and id.
func groups(phases []event.Phase) map[string]string {
	out := map[string]string{}
	for _, p := range phases {
		for _, g := range p.Groups {
			text, err := json.Marshal(g)
			if err != nil {
				panic(err) // it is in an event, too
			}
			out[p.Name+" "+g.ID] = string(text)
		}
	}
	return out
}

// Differences returns what two maps have otherwise, by key.
func Differences(what inspect.MovedWhat, was, is map[string]string) (moved []inspect.Moved) {
	for _, key := range Keys(was, is) {
		if was[key] != is[key] {
			moved = append(moved, inspect.Moved{What: what, Field: key, Was: was[key], Is: is[key]})
		}
	}
	return moved
}

// Keys returns the keys of both maps, sorted.
func Keys[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
