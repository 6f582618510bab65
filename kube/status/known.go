package status

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/event"
)

// KnownKind is an entry of the built-in table: how the objects of custom kinds show that they are ready, where kstatus
// judges them wrong at some step.
type KnownKind struct {
	Group string
	Kinds []string
	// Success and Failure are alternatives, each one or more expressions (R23) joined by &&. Without Success, kstatus decides.
	// Failure has only states from which the controller does not recover by itself.
	Success, Failure []string
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
		entry := &known{success: mustCompile(k.Success), failure: mustCompile(k.Failure), halts: k.Halts, silent: k.MayBeSilent}
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
	if len(k.success) == 0 {
		return Result{}, false
	}
	if old {
		return result(event.InProgress, message).by(event.ByBuiltIn), true
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	return k.judge(status).by(event.ByBuiltIn), true
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
