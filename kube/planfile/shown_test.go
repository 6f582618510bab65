package planfile

import (
	"testing"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
)

// TestShownChanges (R42a): an approval counts for what was shown, or for the rest of it after a run has applied a part.
func TestShownChanges(t *testing.T) {
	object := func(name string, action inspect.Action, changed map[string]string) Object {
		return Object{Change: inspect.Change{Phase: "apply", Group: "t:" + name, Object: plan.Object{Kind: "ConfigMap", Name: name}, Action: action}, Changed: changed}
	}
	shown := func(objects ...Object) *Shown { return &Shown{Salt: []byte("s"), Objects: objects} }
	secret, other := object("s", inspect.Modify, nil), object("s", inspect.Modify, nil)
	secret.SecretChanged, other.SecretChanged = "x", "y"
	again := object("job", inspect.Replace, nil)
	again.Again = true
	before := shown(object("a", inspect.Modify, map[string]string{"x": "1→2", "y": "1→2"}), object("new", inspect.Create, nil), object("gone", inspect.Delete, nil), secret)
	all := func(string) bool { return true }
	for _, test := range []struct {
		name string
		now  *Shown
		of   func(string) bool
		want bool
	}{
		{"the same", before, all, true},
		{"a part of it", shown(object("a", inspect.Modify, map[string]string{"y": "1→2"})), all, true},
		{"nothing", shown(), all, true},
		{"unknown", nil, all, false},
		{"another value before", shown(object("a", inspect.Modify, map[string]string{"x": "hotfix→2"})), all, false},
		{"another field", shown(object("a", inspect.Modify, map[string]string{"z": "1→2"})), all, false},
		{"of another group", shown(object("a", inspect.Modify, map[string]string{"z": "1→2"})), func(g string) bool { return g != "t:a" }, true},
		{"another action", shown(object("a", inspect.Replace, nil)), all, false},
		{"an object that was unchanged", shown(object("b", inspect.Modify, map[string]string{"x": "1→2"})), all, false},
		{"an object that the run has created", shown(object("new", inspect.Modify, map[string]string{"x": "hotfix→2"})), all, false},
		{"an object that is gone", shown(object("a", inspect.Create, nil)), all, true},
		{"another secret value", shown(other), all, false},
		{"a Job of the run that failed", shown(again), all, true},
	} {
		if got := before.Covers(test.now, test.of); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
	if (*Shown)(nil).Covers(before, all) {
		t.Error("nobody was shown anything")
	}
}
