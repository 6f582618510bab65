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
	"lockstep/engine/plan"
)

// NotAsPlanned is the error about an operation, or a group of one that has started, that would not do what was approved.
type NotAsPlanned struct {
	Title string // of the operation, "" for a group
	Group string
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
		add(inspect.MovedRevision, a.Operation.Release, strconv.Itoa(a.Last), strconv.Itoa(now.Last))
	}
	if len(moved) > 0 { // everything else differs because of that
		return moved
	}
	if add(inspect.MovedOperation, "", a.Operation.Title(), now.Operation.Title()); len(moved) > 0 {
		return moved
	}
	add(inspect.MovedRevision, "to", strconv.Itoa(a.Operation.ToRevision), strconv.Itoa(now.Operation.ToRevision))
	add(inspect.MovedChart, "", a.Operation.Chart, now.Operation.Chart)
	if a.Operation.Chart == now.Operation.Chart && a.Chart != now.Chart {
		moved = append(moved, inspect.Moved{What: inspect.MovedChart, Is: now.Operation.Chart, Was: now.Operation.Chart})
	}
	if a.Values != now.Values {
		moved = append(moved, inspect.Moved{What: inspect.MovedValues})
	}
	for _, name := range Keys(a.Options, now.Options) {
		add(inspect.MovedOption, name, a.Options[name], now.Options[name])
	}
	return append(append(moved, a.compareOrder(now)...), a.compareObjects(now, started)...)
}

// compareObjects compares the objects by phase and group.
func (a *Saved) compareObjects(now Release, started bool) (moved []inspect.Moved) {
	type key struct {
		phase, group string
		object       plan.Object
	}
	is := map[key]Object{}
	for _, o := range now.Objects {
		is[key{o.Phase, o.Group, o.Object}] = o
	}
	created := withoutNamespace(a.Phases, now.Phases)
	for _, was := range a.Objects {
		k := key{was.Phase, was.Group, was.Object}
		o, found := is[k]
		delete(is, k)
		switch {
		case found:
			moved = append(moved, was.Compare(o, started)...)
		case created == nil || was.Phase != created.Name:
			moved = append(moved, inspect.Moved{What: inspect.MovedGone, Object: &was.Object})
		}
	}
	for _, o := range now.Objects {
		if _, left := is[key{o.Phase, o.Group, o.Object}]; left {
			moved = append(moved, inspect.Moved{What: inspect.MovedNew, Object: &o.Object})
		}
	}
	return moved
}

// withoutNamespace returns the phase that creates the namespace if it was approved and nothing is left to create: a run in the
// cluster needs the namespace first.
func withoutNamespace(approved, now []event.Phase) *event.Phase {
	isNamespace := func(p event.Phase) bool { return p.Kind == event.PhaseNamespace }
	i := slices.IndexFunc(approved, isNamespace)
	if i < 0 || slices.ContainsFunc(now, isNamespace) {
		return nil
	}
	return &approved[i]
}

// Compare returns how the change to an object differs from the approved one. Once the run has started, an object that is as
// it is sent needs no change any more.
func (o Object) Compare(now Object, started bool) (moved []inspect.Moved) {
	add := func(what inspect.MovedWhat, field, was, is string) {
		if was != is {
			moved = append(moved, inspect.Moved{What: what, Object: &o.Object, Field: field, Was: was, Is: is})
		}
	}
	for _, path := range Keys(o.Sent, now.Sent) {
		if o.Sent[path] != now.Sent[path] {
			moved = append(moved, inspect.Moved{What: inspect.MovedSent, Object: &o.Object, Field: path})
		}
	}
	if o.SecretSent != now.SecretSent {
		moved = append(moved, inspect.Moved{What: inspect.MovedSent, Object: &o.Object, Secret: true})
	}
	if started && (now.Again || now.Action == inspect.Unchanged || now.Action == inspect.Absent || now.Action == inspect.Keep) {
		return moved
	}
	add(inspect.MovedAction, now.Message, string(o.Action), string(now.Action))
	if o.Action != now.Action {
		return moved
	}
	for _, path := range Keys(o.Changed, now.Changed) {
		if o.Changed[path] != now.Changed[path] && o.Sent[path] == now.Sent[path] { // else it is named already
			moved = append(moved, inspect.Moved{What: inspect.MovedLive, Object: &o.Object, Field: path})
		}
	}
	if o.SecretChanged != now.SecretChanged && o.SecretSent == now.SecretSent {
		moved = append(moved, inspect.Moved{What: inspect.MovedLive, Object: &o.Object, Secret: true})
	}
	return moved
}

// compareOrder compares what each group has and waits for.
func (a *Saved) compareOrder(now Release) (moved []inspect.Moved) {
	created := withoutNamespace(a.Phases, now.Phases)
	was, is := groups(a.Phases), groups(now.Phases)
	for _, unit := range Keys(was, is) {
		if was[unit] != is[unit] && (created == nil || !strings.HasPrefix(unit, created.Name+" ")) {
			_, group, _ := strings.Cut(unit, " ")
			moved = append(moved, inspect.Moved{What: inspect.MovedOrder, Field: group})
		}
	}
	return moved
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

// Keys returns the keys of both maps, sorted.
func Keys[V any](a, b map[string]V) []string {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return slices.Sorted(maps.Keys(all))
}
