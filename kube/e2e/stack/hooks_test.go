package stack

import (
	"strings"
	"testing"
	"time"

	"lockstep/kube/e2e/rig"
)

// TestSharedHooks: two releases that may run at the same time cannot have a hook with one object, because one would replace it
// while the other's runs: an error before anything is written. If one needs the other, each hook runs (R31a, S10).
func TestSharedHooks(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	withJob := func(name, job string) string {
		return rig.MakeDir(t, rig.Files{
			"Chart.yaml":         "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
			"templates/all.yaml": rig.ConfigMap(name, nil) + "\n---\n" + job,
		})
	}
	hook := rig.Job("migrate", map[string]string{"helm.sh/hook": "pre-install,pre-delete"}, "10ms")
	x, y := release{Name: "x", Dir: withJob("x", hook)}, release{Name: "z", Dir: withJob("z", hook)}
	between := release{Name: "m", Dir: chart(t, "m"), Needs: []string{"x"}}
	object := release{Name: "o", Dir: withJob("o", rig.Job("migrate", nil, "10ms"))}

	start := time.Now()
	for name, releases := range map[string][]release{"two hooks": {x, y, between}, "a hook and an object": {x, object}} {
		for _, down := range []bool{false, true} {
			if down && name != "two hooks" {
				continue
			}
			s, err := b.prepare(down, nil, releases...)
			switch {
			case down && err == nil: // nothing is installed
				s.Close()
			case down:
				t.Errorf("down: %v", err)
			case err == nil:
				s.Close()
				t.Errorf("%s: no error", name)
			case !strings.Contains(err.Error(), "both have Job/migrate, which is a hook's"):
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	generated := map[string]string{"helm.sh/hook": "pre-install"}
	job := strings.Replace(rig.Job("migrate", generated, "10ms"), "name: migrate", "generateName: migrate-", 1)
	s, err := b.prepare(false, nil, release{Name: "x", Dir: withJob("x", job)}, release{Name: "z", Dir: withJob("z", job)})
	if err != nil {
		t.Fatalf("generated names: %v", err)
	}
	s.Close()
	if got := b.WrittenSince(start); len(got) > 0 {
		t.Errorf("written: %v", got)
	}

	y.Needs = []string{"m"}
	b.mustUp(x, between, y)
	created := 0
	for _, e := range b.Audit() {
		if e.Received.After(start) && e.Object.Namespace == b.Namespace && e.Object.Resource == "jobs" && e.Code == 201 {
			created++
		}
	}
	if created != 2 {
		t.Errorf("%d Jobs were created, want 2", created)
	}
	if _, err := b.prepare(true, nil, x, release{Name: "z", Dir: y.Dir}); err == nil || !strings.Contains(err.Error(), "both have Job/migrate, which is a hook's") {
		t.Errorf("down without the need: %v", err)
	}
	s, err = b.prepare(true, nil, x, between, y)
	if state, _ := b.run(s, err, nil); state.Exit != 0 {
		t.Errorf("down: exit %d: %s", state.Exit, state.Reason())
	}
}
