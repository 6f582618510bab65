package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// KnownKind is an entry of the built-in table: how the objects of custom kinds show that they are ready, where kstatus
// judges them wrong at some step.
type KnownKind struct {
	Group string
	Kinds []string
	// Success and Failure are alternatives, each one or more expressions (R23) joined by &&. Without Success, kstatus decides.
	// Failure has only states from which the controller does not recover by itself.
	Success, Failure []string
	// Waits replaces Success where the status has an entry for each of several controllers or sets: it returns what the object
	// waits for, "" if it is ready. Ready says in words when that is.
	Waits func(u *unstructured.Unstructured) string
	Ready string
	// Halts are the fields that keep the controller from going on.
	Halts []Halt
	// MayBeSilent means that the controller may write no status at all, so the object counts as soon as it exists.
	MayBeSilent bool
	// Project and Version are where the facts come from: the types and the controller of this version.
	Project, Version string
}

// Halt is a field, such as spec.paused, that keeps a controller from going on if it has a certain value. Then the object
// counts, with a note.
type Halt struct {
	// Path is a path of fields, or metadata.annotations and a key in brackets.
	Path string
	// Is is the value as text; "" means that the field is not set.
	Is   string
	Note string
}

// known is a compiled entry of the table.
type known struct {
	success, failure []conjunction
	waits            func(u *unstructured.Unstructured) string
	halts            []Halt
	silent           bool
}

// conjunction holds if all its expressions do.
type conjunction []Expression

func (c conjunction) String() string {
	var texts []string
	for _, e := range c {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, " && ")
}

func (c conjunction) holds(status map[string]any) bool {
	return !slices.ContainsFunc(c, func(e Expression) bool { holds, _ := e.Holds(status); return !holds })
}

// actual describes the values of the expressions that do not hold, or of all if all do.
func (c conjunction) actual(status map[string]any) string {
	var all, unmet []string
	for _, e := range c {
		all = append(all, e.Actual(status))
		if holds, _ := e.Holds(status); !holds {
			unmet = append(unmet, e.Actual(status))
		}
	}
	if len(unmet) > 0 {
		return strings.Join(unmet, ", ")
	}
	return strings.Join(all, ", ")
}

// compiledKinds maps group/kind to the entry of the table.
var compiledKinds = sync.OnceValue(func() map[string]*known {
	compiled := map[string]*known{}
	for _, k := range knownKinds {
		entry := &known{success: mustCompile(k.Success), failure: mustCompile(k.Failure), waits: k.Waits, halts: k.Halts, silent: k.MayBeSilent}
		for _, kind := range k.Kinds {
			compiled[k.Group+"/"+kind] = entry
		}
	}
	return compiled
})

// mustCompile panics on an invalid expression: the table is part of the program, and a test compiles it.
func mustCompile(texts []string) (list []conjunction) {
	for _, text := range texts {
		var c conjunction
		for part := range strings.SplitSeq(text, "&&") {
			e, err := parseExpression(part)
			if err != nil {
				panic(fmt.Sprintf("built-in readiness expression %q: %v", part, err))
			}
			c = append(c, e)
		}
		list = append(list, c)
	}
	return list
}

// byTable judges an object of a known kind; ok is false if the table does not decide.
func byTable(u *unstructured.Unstructured) (r Result, ok bool) {
	k := compiledKinds()[groupKind(u)]
	if k == nil {
		return Result{}, false
	}
	message, old := stale(u)
	for _, h := range k.halts {
		if h.holds(u) && !(old && h.inStatus()) {
			r := result(event.Ready, "").noted(h.Note)
			r.unawaited = true
			return r, true
		}
	}
	if k.silent {
		r := result(event.Ready, "").by(event.ByBuiltIn)
		r.unawaited = true
		return r, true
	}
	if !k.decides() {
		return Result{}, false
	}
	if old {
		return result(event.InProgress, message).by(event.ByBuiltIn), true
	}
	if k.waits != nil {
		if why := k.waits(u); why != "" {
			return result(event.InProgress, "not ready: "+why).by(event.ByBuiltIn), true
		}
		return result(event.Ready, "").by(event.ByBuiltIn), true
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	return k.judge(status).by(event.ByBuiltIn), true
}

// decides reports whether the entry says when an object is ready, unless it is halted or silent.
func (k *known) decides() bool { return len(k.success) > 0 || k.waits != nil }

// routeWaits returns what a route waits for: each of its parents accepts it by itself, and knows its backends.
func routeWaits(u *unstructured.Unstructured) string {
	refs, _, _ := unstructured.NestedSlice(u.Object, "spec", "parentRefs")
	if refs == nil {
		refs = []any{nil} // any parent
	}
	parents, _, _ := unstructured.NestedSlice(u.Object, "status", "parents")
	for _, ref := range refs {
		found := false
		for _, p := range parents {
			parent, _ := p.(map[string]any)
			if ref != nil && parentOf(u, ref) != parentOf(u, parent["parentRef"]) {
				continue
			}
			found = true
			if why := parentWaits(u, parent); why != "" {
				return why
			}
		}
		if !found {
			return text.Join(" ", "parent", parentOf(u, ref)) + " has not answered"
		}
	}
	return ""
}

// parentOf returns the namespace and name of a parent of a route, "" if it has none. Its kind and listener are left out.
func parentOf(u *unstructured.Unstructured, ref any) string {
	m, _ := ref.(map[string]any)
	name, _ := m["name"].(string)
	namespace, _ := m["namespace"].(string)
	if namespace = cmp.Or(namespace, u.GetNamespace()); name == "" || namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// parentWaits returns what an entry of a route's status.parents waits for.
func parentWaits(u *unstructured.Unstructured, parent map[string]any) string {
	name := text.Join(" ", "parent", parentOf(u, parent["parentRef"]))
	entry := &unstructured.Unstructured{Object: map[string]any{"status": parent}}
	if observed, known := observedByConditions(entry); known && observed < u.GetGeneration() {
		return name + " has not observed the change yet"
	}
	if c, _ := findCondition(entry, "Accepted"); c.status != "True" {
		return joinText(name+" has not accepted it", c.text())
	}
	if c, _ := findCondition(entry, "ResolvedRefs"); c.status == "False" {
		return joinText(name+" cannot resolve its references", c.text())
	}
	return ""
}

// instancesWait returns what a PostgresCluster waits for: the pods of all its instance sets.
func instancesWait(u *unstructured.Unstructured) string {
	want, found := 0, map[string]int{}
	specs, _, _ := unstructured.NestedSlice(u.Object, "spec", "instances")
	for _, s := range specs {
		set, _ := s.(map[string]any)
		want += kstatus.GetIntField(set, ".replicas", 1)
	}
	sets, _, _ := unstructured.NestedSlice(u.Object, "status", "instances")
	for _, s := range sets {
		set, _ := s.(map[string]any)
		for _, field := range []string{"replicas", "readyReplicas", "updatedReplicas"} {
			found[field] += kstatus.GetIntField(set, "."+field, 0)
		}
	}
	p := event.Progress{Done: found["readyReplicas"], Wanted: max(want, found["replicas"], 1), Word: "pods ready"}
	if p.Outdated = p.Wanted - found["updatedReplicas"]; p.Done < p.Wanted || p.Outdated > 0 {
		return p.String()
	}
	return ""
}

// judge evaluates the expressions on a status, failure first.
func (k *known) judge(status map[string]any) Result {
	for _, c := range k.failure {
		if c.holds(status) {
			r := result(event.Failed, fmt.Sprintf("%s (%s)", c, c.actual(status)))
			r.FailureDeclared = true
			return r
		}
	}
	for _, c := range k.success {
		if c.holds(status) {
			return result(event.Ready, c.String())
		}
	}
	if len(status) == 0 {
		return result(event.InProgress, "its controller has written no status")
	}
	var unmet []string
	for _, c := range k.success {
		unmet = append(unmet, fmt.Sprintf("%s (%s)", c, c.actual(status)))
	}
	return result(event.InProgress, "not ready: waiting for "+strings.Join(unmet, " or "))
}

// holds reports whether a field of the object has the value that keeps its controller from going on.
func (h Halt) holds(u *unstructured.Unstructured) bool {
	if key := h.annotation(); key != "" {
		return u.GetAnnotations()[key] == h.Is
	}
	v, found, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(h.Path, ".")...)
	if h.Is == "" {
		return !found || v == nil || v == ""
	}
	return found && fmt.Sprint(v) == h.Is
}

// annotation returns the key of the annotation that h reads, "" if it reads another field.
func (h Halt) annotation() string {
	if key, ok := strings.CutPrefix(h.Path, "metadata.annotations["); ok {
		return key[:len(key)-len("]")]
	}
	return ""
}

// inStatus reports whether the controller writes the field, not the chart.
func (h Halt) inStatus() bool { return strings.HasPrefix(h.Path, "status.") }

// haltAnnotations are the annotations that the halts of the table read.
var haltAnnotations = sync.OnceValue(func() (keys []string) {
	for _, k := range knownKinds {
		for _, h := range k.Halts {
			if key := h.annotation(); key != "" {
				keys = append(keys, key)
			}
		}
	}
	return keys
})
