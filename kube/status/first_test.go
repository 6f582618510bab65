package status

import (
	"strings"
	"testing"

	"lockstep/engine/event"
)

// writtenAt is an entry of managed fields for the status.
func writtenAt(time string) string {
	return `{manager: widgets, operation: Update, subresource: status, apiVersion: example.org/v1, time: "2026-01-01T` + time + `Z", fieldsType: FieldsV1, fieldsV1: {"f:status": {}}}`
}

// applied is an entry of managed fields for the spec.
const applied = `{manager: helm, operation: Apply, apiVersion: example.org/v1, time: "2026-01-01T11:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}`

// cr is a custom resource in generation 2 with managed fields and a status.
func cr(fields, status string) string {
	return `{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, generation: 2, managedFields: [` + fields + `]}` + status + `}`
}

// TestFirstStatus expects that the status of a custom resource says whether it is about this generation, and if it does not,
// identifies the last write (R22a).
func TestFirstStatus(t *testing.T) {
	custom := Rule{Success: expressions(t, `{.phase} == Done`), Failure: expressions(t, `{.phase} == Broken`), FirstStatus: true}
	first := Rule{FirstStatus: true}
	written := applied + ", " + writtenAt("11:30:00")
	ready := `conditions: [{type: Ready, status: "True"}]`
	for _, c := range []struct {
		name, object    string
		rule            Rule
		status          event.Status
		by              event.Judge
		awaits, written bool
	}{
		{"no status", cr(applied, ``), first, event.Ready, event.ByNoStatus, true, false},
		{"empty status", cr(applied, `, status: {}`), first, event.Ready, event.ByNoStatus, true, false},
		{"defaults of the CRD", cr(applied, `, status: {phase: Pending}`), first, event.Ready, event.ByNoStatus, true, false},
		{"a default generation", cr(applied, `, status: {observedGeneration: -1}`), first, event.Ready, event.ByNoStatus, true, false},
		{"a default condition", cr(applied, `, status: {conditions: [{type: Ready, status: Unknown}]}`), first, event.Ready, event.ByNoStatus, true, false},
		{"without managed fields", cr(``, `, status: {phase: Done}`), first, event.Ready, event.ByFirstStatus, true, true},
		{"phase only", cr(written, `, status: {phase: Done}`), first, event.Ready, event.ByFirstStatus, true, true},
		{"conditions", cr(written, `, status: {`+ready+`}`), first, event.Ready, event.ByKstatus, true, true},
		{"not ready", cr(written, `, status: {conditions: [{type: Ready, status: "False"}]}`), first, event.InProgress, event.ByKstatus, true, true},
		{"this generation", cr(written, `, status: {observedGeneration: 2, `+ready+`}`), first, event.Ready, event.ByKstatus, false, false},
		{"this generation, nothing else", cr(written, `, status: {observedGeneration: 2}`), first, event.Ready, event.ByFirstStatus, false, false},
		{"an old generation", cr(written, `, status: {observedGeneration: 1, `+ready+`}`), first, event.InProgress, event.ByKstatus, false, false},
		{"this generation as text", cr(written, `, status: {observedGeneration: "2", `+ready+`}`), first, event.Ready, event.ByKstatus, false, false},
		{"an old generation as text", cr(written, `, status: {observedGeneration: "1", `+ready+`}`), first, event.InProgress, event.ByKstatus, false, false},
		{"a hash", cr(written, `, status: {observedGeneration: 5f8c4d, `+ready+`}`), first, event.Ready, event.ByKstatus, true, true},
		{"a hash, not ready", cr(written, `, status: {observedGeneration: 5f8c4d, conditions: [{type: Ready, status: "False"}]}`), first, event.InProgress, event.ByKstatus, true, true},
		{"malformed conditions", cr(written, `, status: {conditions: {Ready: true}}`), first, event.Ready, event.ByFirstStatus, true, true},
		{"the generation of a condition", cr(written, `, status: {conditions: [{type: Accepted, status: "True", observedGeneration: 2}]}`), first, event.Ready, event.ByFirstStatus, false, false},
		{"an old Ready condition", cr(written, `, status: {conditions: [{type: Synced, status: "True", observedGeneration: 2}, {type: Ready, status: "True", observedGeneration: 1}]}`), first, event.Ready, event.ByKstatus, true, false},
		{"expressions", cr(written, `, status: {phase: Done}`), custom, event.Ready, event.ByChart, true, true},
		{"expressions, no status", cr(applied, ``), custom, event.InProgress, event.ByChart, true, false},
		{"expressions, this generation", cr(written, `, status: {phase: Done, observedGeneration: "2"}`), custom, event.Ready, event.ByChart, false, false},
		{"no status subresource", cr(applied, ``), Rule{}, event.Ready, event.ByExistence, false, false},
		{"hook", cr(applied, ``), Rule{FirstStatus: true, Hook: true}, event.Ready, event.ByExistence, false, false},
	} {
		for _, u := range []string{"whole", "trimmed"} {
			o := object(t, c.object)
			if u == "trimmed" {
				o = trim(o)
			}
			r := Compute(o, c.rule, noon)
			if r.Status != c.status || r.ReadyBy != c.by || r.AwaitsStatus != c.awaits || (r.StatusWrite != "") != c.written {
				t.Errorf("%s (%s): %s by %s, awaits %t, write %q", c.name, u, r.Status, r.ReadyBy, r.AwaitsStatus, r.StatusWrite)
			}
			if unreadable := strings.Contains(c.name, "hash") || strings.Contains(c.name, "malformed"); unreadable != (r.Unreadable != "") {
				t.Errorf("%s (%s): unreadable: %q", c.name, u, r.Unreadable)
			}
		}
	}
}

// TestStatusWrite expects that a write of the status changes its mark, and that nothing else does (R22a).
func TestStatusWrite(t *testing.T) {
	mark := func(text string) string { return StatusWrite(trim(object(t, text))) }
	written := applied + ", " + writtenAt("11:30:00")
	before := mark(cr(written, `, status: {phase: Done, size: 3}`))
	for name, same := range map[string]string{
		"the same":  cr(written, `, status: {size: 3, phase: Done}`),
		"a label":   strings.Replace(cr(written, `, status: {phase: Done, size: 3}`), "name: w", "name: w, labels: {a: b}", 1),
		"finalizer": strings.Replace(cr(written, `, status: {phase: Done, size: 3}`), "name: w", "name: w, resourceVersion: '9', finalizers: [a/b]", 1),
	} {
		if mark(same) != before {
			t.Errorf("%s counts as a write of the status", name)
		}
	}
	for name, changed := range map[string]string{
		"content": cr(written, `, status: {phase: Done, size: 4}`),
		"time":    cr(applied+", "+writtenAt("11:30:01"), `, status: {phase: Done, size: 3}`),
		"writer":  cr(written+", "+writtenAt("11:30:00"), `, status: {phase: Done, size: 3}`),
	} {
		if mark(changed) == before {
			t.Errorf("%s: no write of the status", name)
		}
	}
}
