package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
)

// HooksOf returns the hooks of an event in the order in which Helm executes
// them: by weight, then by name.
func HooksOf(hooks []*release.Hook, event release.HookEvent) []*release.Hook {
	var out []*release.Hook
	for _, h := range hooks {
		if slices.Contains(h.Events, event) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b *release.Hook) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), strings.Compare(a.Name, b.Name))
	})
	return out
}

// HookGroup returns the unit that a hook is for one event (R40), after those that
// were made of the event's hooks before it.
//
// Rule R5: a hook follows the hook before it, whatever its annotations ask for.
func HookGroup(rel *release.Release, h *release.Hook, event release.HookEvent, before []*plan.Group) *plan.Group {
	name := h.Kind + "/" + h.Name
	g := &plan.Group{ID: string(event) + ":" + name, Name: name, Chart: rel.Chart.Name(), Layer: len(before), After: []string{}}
	for slices.ContainsFunc(before, func(b *plan.Group) bool { return b.ID == g.ID }) {
		g.ID += "'"
	}
	if len(before) > 0 {
		g.After = append(g.After, before[len(before)-1].ID)
	}
	docs, _, err := Parse(h.Manifest, g.Chart)
	if err != nil { // Helm will say so when it builds the hook
		return g
	}
	for _, r := range Resources(docs, rel.Namespace, OfflineScope()) {
		g.Objects = append(g.Objects, r.Object)
	}
	g.Waves = []plan.Wave{{Count: len(g.Objects)}}
	return g
}

// HookTexts returns the ConfigMaps and Secrets of a release that are hooks: pods read
// them as they do others (R62).
func HookTexts(rel *release.Release) []infer.Object {
	var out []infer.Object
	for _, h := range rel.Hooks {
		if h.Kind != "ConfigMap" && h.Kind != "Secret" {
			continue
		}
		docs, _, err := Parse(h.Manifest, rel.Chart.Name())
		if err != nil {
			continue // Helm will say so when it builds the hook
		}
		for i, r := range Resources(docs, rel.Namespace, OfflineScope()) {
			out = append(out, infer.Object{Resource: r, Fields: docs[i].Object.Object, Hook: true})
		}
	}
	return out
}

// HookTurn is a hook that runs around the turn of its subchart.
type HookTurn struct {
	plan.Turn
	Hook *release.Hook
}

// HookTurns finds the hooks of two events, those before and after the release's
// objects, that run around the turn of the subchart that they come from
// (lockstep/hook-scope). resources are those of the release. What the
// annotation cannot do for a hook is a warning: that one runs as Helm has it.
func HookTurns(rel *release.Release, root string, resources []plan.Resource, before, after release.HookEvent) (turns []HookTurn, warnings []plan.Warning) {
	for _, e := range []release.HookEvent{before, after} {
		for _, h := range HooksOf(rel.Hooks, e) {
			chart, said := hookScope(h, root)
			warn := func(format string, args ...any) {
				text := fmt.Sprintf("%s: hook %s/%s: ", chart, h.Kind, h.Name) + fmt.Sprintf(format, args...)
				warnings = append(warnings, plan.Warning{Rule: "R29", Chart: chart, Message: text})
			}
			ofChart := func(r plan.Resource) bool { return plan.Within(r.Chart, chart) }
			switch {
			case said == "":
			case said != plan.HookScopeSubchart:
				warn("%s: unknown value %q; use %s", plan.AnnotationHookScope, said, plan.HookScopeSubchart)
			case chart == root || !slices.ContainsFunc(resources, ofChart):
				// The root chart's turn is the whole operation; a subchart
				// without objects has none.
			case slices.Contains(h.Events, before) && slices.Contains(h.Events, after):
				warn("it runs before and after, so %s does not apply to it", plan.AnnotationHookScope)
			default:
				g := HookGroup(rel, h, e, nil)
				g.Chart = chart
				turns = append(turns, HookTurn{plan.Turn{Chart: chart, Before: e == before, Group: g}, h})
			}
		}
	}
	return turns, warnings
}

// hookScope returns the chart path of a hook and what it says of its scope, "" for
// one that says nothing or not in all of its objects.
func hookScope(h *release.Hook, root string) (chart, scope string) {
	if !strings.Contains(h.Manifest, plan.AnnotationHookScope) {
		return "", ""
	}
	docs, _, err := Parse("# Source: "+h.Path+"\n"+h.Manifest, root)
	if err != nil || len(docs) == 0 {
		return "", "" // Helm will say so
	}
	for _, d := range docs {
		chart, scope = d.Chart, annotations(d.Object)[plan.AnnotationHookScope]
		if scope == "" || scope != plan.HookScopeSubchart {
			break
		}
	}
	return chart, scope
}
