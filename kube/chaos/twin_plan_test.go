package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// plannedChanges are the planned changes by "PHASE KIND/NAME", as values of event.Change.
type plannedChanges map[string]string

// plan returns the changes that lockstep plans for a command.
func (l *twinRelease) plan(args []string) (plannedChanges, error) {
	p := l.harness.command(lockstepProgram, sandbox.Kubeconfig, append(append([]string{"plan"}, args...), "-n", l.ours, "-o", "json")...)
	l.harness.check(p.run())
	if err := p.wait(time.Minute * slowdown); err != nil {
		return nil, fmt.Errorf("  plan: %w\n%s", err, p.outputTail())
	}
	var plan struct {
		Changes []struct {
			Phase, Action string
			Object        struct{ Kind, Name string }
		}
	}
	text := p.text.String()
	if at := strings.Index(text, "\n{"); at >= 0 && !strings.HasPrefix(text, "{") {
		text = text[at+1:]
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&plan); err != nil {
		return nil, fmt.Errorf("  plan: exit code %d, %w\n%s", p.exitCode, err, p.outputTail())
	}
	done := map[string]string{"create": "created", "change": "configured", "unchanged": "unchanged", "delete": "deleted", "keep": "kept", "absent": "absent"}
	f := plannedChanges{}
	for _, c := range plan.Changes {
		f[c.Phase+" "+c.Object.Kind+"/"+c.Object.Name] = done[c.Action]
	}
	return f, nil
}

// deviations lists the changes of a run that differ from the planned ones.
func (f plannedChanges) deviations(p *process) (wrong []string) {
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
		if got, ok := did[id]; (ok || p.exitCode == 0) && got != f[id] {
			wrong = append(wrong, fmt.Sprintf("%s is %q, the plan says %q", id, got, f[id]))
		}
	}
	return wrong
}
