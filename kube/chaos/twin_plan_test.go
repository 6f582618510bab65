package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/inspect"
	"lockstep/kube/manifest"
	"lockstep/kube/preview"
)

// plannedChanges are the planned changes by "PHASE KIND/NAME", as values of event.Change.
type plannedChanges map[string]string

// plannedDiffs are the planned diffs of applied objects by "KIND/NAME", "" for those that do not change.
type plannedDiffs map[string]string

// wrong lists the objects whose fields did not change as planned.
func (d plannedDiffs) wrong(before, after releaseState) (wrong []string) {
	for _, id := range slices.Sorted(maps.Keys(d)) {
		live, existed := before.objects[id]
		next, exists := after.objects[id]
		if !existed || !exists {
			continue
		}
		var c inspect.Change
		if err := preview.Compare(&c, &live, &next); err != nil {
			return append(wrong, err.Error())
		}
		if got, want := changedLines(c.Diff), changedLines(d[id]); got != want {
			wrong = append(wrong, fmt.Sprintf("%s changed by\n%s\n  the plan says\n%s", id, got, want))
		}
	}
	return wrong
}

// changedLines returns the added and removed lines of a diff, except what the Deployment controller counts.
func changedLines(diff string) string {
	var out []string
	for line := range strings.Lines(diff) {
		if (line[0] == '+' || line[0] == '-') && !strings.Contains(line, "deployment.kubernetes.io/revision") {
			out = append(out, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(out, "\n")
}

// plan returns the changes that lockstep plans for a command.
func (l *twinRelease) plan(args []string) (plannedChanges, plannedDiffs, error) {
	p := l.harness.command(lockstepProgram, sandbox.Kubeconfig, append(append([]string{"plan"}, args...), "-n", l.ours, "-o", "json")...)
	l.harness.check(p.run())
	if err := p.wait(time.Minute * slowdown); err != nil {
		return nil, nil, fmt.Errorf("  plan: %w\n%s", err, p.outputTail())
	}
	var plan struct {
		Changes []struct {
			Phase, Action, Diff string
			Object              struct{ Kind, Name string }
		}
	}
	text := p.text.String()
	if at := strings.Index(text, "\n{"); at >= 0 && !strings.HasPrefix(text, "{") {
		text = text[at+1:]
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&plan); err != nil {
		return nil, nil, fmt.Errorf("  plan: exit code %d, %w\n%s", p.exitCode, err, p.outputTail())
	}
	done := map[string]string{"create": "created", "change": "configured", "unchanged": "unchanged", "delete": "deleted", "keep": "kept", "absent": "absent"}
	f, diffs := plannedChanges{}, plannedDiffs{}
	for _, c := range plan.Changes {
		if c.Action == "change" || c.Action == "unchanged" {
			diffs[c.Object.Kind+"/"+c.Object.Name] = c.Diff
		}
		f[c.Phase+" "+c.Object.Kind+"/"+c.Object.Name] = done[c.Action]
	}
	return f, diffs, nil
}

// deviations lists the changes of a run that differ from the planned ones. What the API server only stores in another form, or what
// only gets its fields of client-side apply in server-side apply, is unchanged in the plan, and changed in the run (R50).
func (f plannedChanges) deviations(p *process, before, after releaseState) (wrong []string) {
	did := map[string]string{}
	for line := range strings.Lines(p.text.String()) {
		var e struct {
			Phase, Change string
			Object        struct{ Kind, Name string }
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Change != "" && !strings.HasPrefix(e.Phase, "rollback/") {
			did[e.Phase+" "+e.Object.Kind+"/"+e.Object.Name] = e.Change
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f)) {
		got, ok := did[id]
		if f[id] == "unchanged" && got == "configured" {
			_, object, _ := strings.Cut(id, " ")
			if old, now := before.objects[object], after.objects[object]; sameFields(old, now) || manifest.UpdatedByHelm(&old) && sameFields(withoutHelm(old), withoutHelm(now)) {
				continue
			}
		}
		if (ok || p.exitCode == 0) && got != f[id] {
			wrong = append(wrong, fmt.Sprintf("%s is %q, the plan says %q", id, got, f[id]))
		}
	}
	return wrong
}

// withoutHelm returns an object without the fields that Helm manages.
func withoutHelm(o unstructured.Unstructured) unstructured.Unstructured {
	c := o.DeepCopy()
	c.SetManagedFields(slices.DeleteFunc(c.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "helm" }))
	return *c
}
