package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/kube/documents"
)

// HooksOf returns the hooks of an event in the order in which Helm executes them: by weight, then
// by name.
func HooksOf(hooks []*release.Hook, event release.HookEvent) []*release.Hook {
	out := slices.DeleteFunc(slices.Clone(hooks), func(h *release.Hook) bool { return !slices.Contains(h.Events, event) })
	slices.SortStableFunc(out, func(a, b *release.Hook) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), strings.Compare(a.Name, b.Name))
	})
	return out
}

// HookGroup returns the group that consists of a hook, for one event. before are the groups of the
// event's earlier hooks; the new group waits for the last of them.
//
// Rule R5: a hook follows the hook before it; its ordering annotations are ignored. It may ask for an approval (R42a), and
// be a point of no return (R33a).
func HookGroup(rel *release.Release, h *release.Hook, event release.HookEvent, before []*plan.Group) *plan.Group {
	docs, _, err := ParseManifest(h.Manifest, rel.Chart.Name())
	name := h.Kind + "/" + h.Name
	if h.Name == "" && len(docs) > 0 {
		name = h.Kind + "/" + docs[0].Object.GetGenerateName()
	}
	g := &plan.Group{ID: string(event) + ":" + name, Name: name, Chart: rel.Chart.Name(), Layer: len(before), After: []string{}}
	taken := func() bool { return slices.ContainsFunc(before, func(b *plan.Group) bool { return b.ID == g.ID }) }
	for n := 2; taken(); n++ {
		if g.ID += "'"; h.Name == "" { // two objects, see Document.identity
			g.Name = fmt.Sprintf("%s#%d", name, n)
			g.ID = string(event) + ":" + g.Name
		}
	}
	if len(before) > 0 {
		g.After = append(g.After, before[len(before)-1].ID)
	}
	if err != nil { // Helm reports it when it builds the hook
		return g
	}
	for _, r := range Resources(docs, rel.Namespace, OfflineScope()) {
		g.Objects = append(g.Objects, r.Object)
		if reason, asked := plan.ReadApprove(r.Annotations); asked {
			g.AskApproval(reason)
		}
		g.NoReturn = plan.JoinReasons(g.NoReturn, plan.ReadNoReturn(r.Annotations))
	}
	g.Waves = []plan.Wave{{Count: len(g.Objects)}}
	return g
}

// AddTests adds the tests of a release to its plan: one after the other, after all groups (S11).
func AddTests(p *plan.Plan, rel *release.Release) {
	var tests []*plan.Group
	for _, h := range HooksOf(rel.Hooks, release.HookTest) {
		tests = append(tests, HookGroup(rel, h, release.HookTest, tests))
	}
	if len(tests) == 0 {
		return
	}
	awaited := p.Dependencies()
	for _, g := range p.Groups {
		if !awaited[g.ID] {
			tests[0].After = append(tests[0].After, g.ID)
		}
	}
	p.Groups = append(p.Groups, tests...)
	layers := plan.Layers(p.Groups)
	for _, g := range tests {
		g.Layer = layers[g.ID]
	}
}

// HookData returns the ConfigMaps and Secrets of a release that are hooks. Pods can refer to
// them (R62).
func HookData(rel *release.Release) []infer.Object {
	var out []infer.Object
	for _, h := range rel.Hooks {
		if h.Kind != "ConfigMap" && h.Kind != "Secret" {
			continue
		}
		docs, _, err := ParseManifest(h.Manifest, rel.Chart.Name())
		if err != nil {
			continue // Helm reports it when it builds the hook
		}
		for i, r := range Resources(docs, rel.Namespace, OfflineScope()) {
			out = append(out, infer.Object{Resource: r, Fields: docs[i].Object.Object, Hook: true})
		}
	}
	return out
}

// ScopedHook is a hook that runs before or after the groups of its subchart (lockstep/hook-scope).
type ScopedHook struct {
	plan.SubchartHook
	Hook *release.Hook
}

// ScopedHooks returns the hooks that run before or after the groups of their own subchart. before
// and after are the events around the release's objects, resources. Other hooks run as in Helm. If
// the annotation is invalid or ambiguous, ScopedHooks returns a warning.
func ScopedHooks(rel *release.Release, root string, resources []plan.Resource, before, after release.HookEvent) (hooks []ScopedHook, warnings []plan.Warning) {
	for _, e := range []release.HookEvent{before, after} {
		for _, h := range HooksOf(rel.Hooks, e) {
			chart, scope := hookScope(h, root)
			warn := func(format string, args ...any) {
				text := fmt.Sprintf("%s: hook %s/%s: ", chart, h.Kind, h.Name) + fmt.Sprintf(format, args...)
				warnings = append(warnings, plan.Warning{Rule: "R29", Chart: chart, Message: text})
			}
			ofChart := func(r plan.Resource) bool { return plan.Within(r.Chart, chart) }
			switch {
			case scope == "":
			case scope != plan.HookScopeSubchart:
				warn("%s: unknown value %q; use %s", plan.AnnotationHookScope, scope, plan.HookScopeSubchart)
			case chart == root || !slices.ContainsFunc(resources, ofChart):
				// Hooks of the root chart already run around all groups, and a
				// subchart without objects has no groups.
			case slices.Contains(h.Events, before) && slices.Contains(h.Events, after):
				warn("%s is ignored, because the hook runs both before and after the release's objects; use one hook for each", plan.AnnotationHookScope)
			default:
				g := HookGroup(rel, h, e, nil)
				g.Chart = chart
				hooks = append(hooks, ScopedHook{plan.SubchartHook{Chart: chart, Before: e == before, Group: g}, h})
			}
		}
	}
	return hooks, warnings
}

// hookScope returns the chart path of a hook and the value of its scope annotation. If its
// objects have different values, that is the first one other than HookScopeSubchart.
func hookScope(h *release.Hook, root string) (chart, scope string) {
	if !strings.Contains(h.Manifest, plan.AnnotationHookScope) {
		return "", ""
	}
	docs, _, err := ParseManifest("# Source: "+h.Path+"\n"+h.Manifest, root)
	if err != nil || len(docs) == 0 {
		return "", "" // Helm reports it
	}
	for _, d := range docs {
		chart, scope = d.Chart, annotations(d.Object)[plan.AnnotationHookScope]
		if scope != plan.HookScopeSubchart {
			break
		}
	}
	return chart, scope
}

// The values of hook annotations that Helm knows. Helm ignores their case.
var (
	hookEvents = []string{"pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback",
		"pre-delete", "post-delete", "test", "test-success"}
	deletePolicies    = []string{"before-hook-creation", "hook-succeeded", "hook-failed"}
	outputLogPolicies = []string{"hook-succeeded", "hook-failed"}
)

// IgnoredAnnotations returns a warning for each value of Helm's own annotations that Helm ignores, and for
// ordering annotations on a list instead of its items. It reads the outputs of templates, because Helm drops
// an object with an unknown hook from the release. root is the name of the root chart. docs are objects of the release, which
// it need not parse again.
func IgnoredAnnotations(outputs Outputs, root string, docs []Document) (warnings []plan.Warning) {
	parsed := map[string]map[string]any{}
	for _, d := range docs {
		parsed[d.Raw] = d.Object.Object
	}
	for _, o := range outputs {
		if isNotes(o.name) || !mayBeIgnored(o.text) {
			continue
		}
		chart, ok := chartPath(o.name, root)
		if !ok {
			chart = root
		}
		for _, text := range documents.Split(o.text) {
			if !mayBeIgnored(text) {
				continue
			}
			fields, known := parsed[text+"\n"] // as Helm writes it into a manifest
			if !known {
				value, _ := (*documents.Reader)(nil).Parse(text)
				fields, _ = value.(map[string]any) // Helm reports other documents
			}
			object := &unstructured.Unstructured{Object: fields}
			set := annotations(object)
			messages := ignoredValues(set)
			if object.IsList() {
				messages = append(messages, ignoredOnList(set)...)
			}
			for _, message := range messages {
				id := object.GetKind()
				if name := cmp.Or(object.GetName(), object.GetGenerateName()); name != "" {
					id += "/" + name
				}
				warnings = append(warnings, plan.Warning{Rule: "R2b", Chart: chart, Message: chart + ": " + id + ": " + message})
			}
		}
	}
	return warnings
}

// mayBeIgnored reports whether a template's output may have an annotation that IgnoredAnnotations reports. Ordering
// annotations outside lists are common, and parsing their objects again would be slow.
func mayBeIgnored(text string) bool {
	return hinted(text, []string{release.HookAnnotation, helmkube.ResourcePolicyAnno}) || strings.Contains(text, "items") && hinted(text, orderingHints)
}

// ignoredOnList describes the ordering annotations of a list, which order none of its items.
func ignoredOnList(annotations map[string]string) (messages []string) {
	for _, key := range OrderingKeys {
		if _, set := annotations[key]; set {
			messages = append(messages, fmt.Sprintf("annotation %s has no effect on a list; set it on its items", key))
		}
	}
	return messages
}

// Keeps reports whether the annotations of an object keep it in the cluster. Case and spaces do not matter, as in Helm's uninstall;
// Helm's upgrade deletes such an object.
func Keeps(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[helmkube.ResourcePolicyAnno]), helmkube.KeepPolicy)
}

// ignoredValues describes the values in the annotations of an object that Helm ignores.
func ignoredValues(annotations map[string]string) (messages []string) {
	switch policy := annotations[helmkube.ResourcePolicyAnno]; {
	case policy == "" || policy == helmkube.KeepPolicy:
	case Keeps(annotations):
		messages = append(messages, fmt.Sprintf("%s %q keeps the object, but Helm's upgrades delete it; use %s", helmkube.ResourcePolicyAnno, policy, helmkube.KeepPolicy))
	default:
		messages = append(messages, fmt.Sprintf("unknown %s %q has no effect; use %s", helmkube.ResourcePolicyAnno, policy, helmkube.KeepPolicy))
	}
	events, isHook := annotations[release.HookAnnotation]
	if !isHook {
		return messages
	}
	if event, unknown := findUnknown(events, hookEvents); unknown {
		hint := suggestion(event, hookEvents)
		if event == "crd-install" { // a hook of Helm 2
			hint = "move it to crds/"
		}
		return append(messages, fmt.Sprintf("unknown hook %q, so it is never applied; %s", event, hint))
	}
	if annotations[plan.AnnotationWaitFor] != "" {
		messages = append(messages, fmt.Sprintf("annotation %s has no effect on a hook; set it on an object of a group that comes before, or wait in the hook itself", plan.AnnotationWaitFor))
	}
	if _, others := findUnknown(events, []string{"pre-delete", "post-delete"}); !others && plan.ReadNoReturn(annotations) != "" {
		messages = append(messages, fmt.Sprintf("annotation %s has no effect on a hook that runs only when the release is uninstalled", plan.AnnotationNoReturn))
	}
	if weight := annotations[release.HookWeightAnnotation]; weight != "" {
		if _, err := strconv.Atoi(weight); err != nil {
			messages = append(messages, fmt.Sprintf("%s %q is not an integer, so Helm uses 0; write an integer", release.HookWeightAnnotation, weight))
		}
	}
	for _, list := range []struct {
		key   string
		known []string
	}{{release.HookDeleteAnnotation, deletePolicies}, {release.HookOutputLogAnnotation, outputLogPolicies}} {
		if policy, unknown := findUnknown(annotations[list.key], list.known); unknown && policy != "" {
			messages = append(messages, fmt.Sprintf("unknown %s %q has no effect; %s", list.key, policy, suggestion(policy, list.known)))
		}
	}
	return messages
}

// suggestion suggests the known value that is most similar to an unknown one, or lists all.
func suggestion(value string, known []string) string {
	if near := plan.NearestName(value, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(known, ", ")
}

// findUnknown returns the first unknown value in a list separated by commas.
func findUnknown(list string, known []string) (value string, unknown bool) {
	for value := range strings.SplitSeq(list, ",") {
		if value = strings.TrimSpace(value); !slices.Contains(known, strings.ToLower(value)) {
			return value, true
		}
	}
	return "", false
}
