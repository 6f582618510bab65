package stack

import (
	"strings"
	"testing"
	"time"

	"lockstep/engine/phrase"
	"lockstep/kube"
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
		t.Errorf("down: exit %d: %s", state.Exit, phrase.Reason(state))
	}
}

// TestSharedHooksOfARollback: a rollback would run hooks with one object in two releases at the same time. That is an error if the
// run rolls back on failure, a warning otherwise, and neither if one release needs the other (S10).
func TestSharedHooksOfARollback(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	dir := func(name, events string) string {
		return rig.MakeDir(t, rig.Files{
			"Chart.yaml":         "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
			"templates/all.yaml": rig.ConfigMap(name, nil, "v: {{ .Values.data }}") + "\n---\n" + rig.Job("undo", map[string]string{"helm.sh/hook": events}, "10ms"),
		})
	}
	stack := func(events string, needs ...string) []release {
		return []release{{Name: "x", Dir: dir("x", events), Values: map[string]any{"data": "one"}}, {Name: "z", Dir: dir("z", events), Needs: needs, Values: map[string]any{"data": "one"}}}
	}
	check := func(what string, rollback bool, want string, releases ...release) {
		t.Helper()
		s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.RollbackOnFailure = rollback }, releases...)
		got := ""
		if err != nil {
			got = "error " + err.Error()
		} else {
			for _, w := range s.OwnWarnings() {
				got += "warning " + w.Message
			}
			s.Close()
		}
		if (want == "") != (got == "") || !strings.HasPrefix(got, want) || want != "" && !strings.Contains(got, "both have Job/undo, which is a hook's") {
			t.Errorf("%s: %q", what, got)
		}
	}
	for what, events := range map[string]string{"first install": "pre-delete", "post-delete": "post-delete"} {
		check(what, true, "error ", stack(events)...)
		check(what, false, "warning ", stack(events)...)
		check(what+" in order", true, "", stack(events, "x")...)
	}
	b.mustUp(stack("pre-rollback,post-rollback")...)
	upgrade := stack("pre-install") // the hooks of the old revision run
	check("unchanged", true, "", stack("pre-rollback,post-rollback")...)
	for i := range upgrade {
		upgrade[i].Dir, upgrade[i].Values = chart(t, upgrade[i].Name), nil
	}
	check("upgrade", true, "error ", upgrade...)
	check("upgrade", false, "warning ", upgrade...)
	upgrade[1].Needs = []string{"x"}
	check("upgrade in order", true, "", upgrade...)
}

// TestSharedHookOfANewPlan: two releases have a hook with one object only once another one has brought a kind, so they are planned
// again. The one that starts second is refused, because the first may still run its hook (S10).
func TestSharedHookOfANewPlan(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	api := b.Namespace + ".example.com"
	kind := rig.LateKinds(api)[0]
	hook := rig.Job("migrate", map[string]string{"helm.sh/hook": "pre-install"}, "10ms")
	late := func(name string) release {
		return release{Name: name, Needs: []string{"kinds"}, Dir: rig.MakeDir(t, rig.Files{
			"Chart.yaml":         "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
			"templates/all.yaml": rig.ConfigMap(name, nil) + "\n{{ if lookup \"apiextensions.k8s.io/v1\" \"CustomResourceDefinition\" \"\" \"" + kind.Plural + "." + api + "\" }}\n---\n" + hook + "\n{{ end }}",
		})}
	}
	kinds := release{Name: "kinds", Dir: rig.MakeDir(t, rig.Files{"templates/crd.yaml": kind.CRD(nil)})}
	s, err := b.prepare(false, nil, kinds, late("x"), late("z"))
	state, _ := b.run(s, err, nil)
	if state.Exit != 1 || !strings.Contains(phrase.Reason(state), "both have Job/migrate, which is a hook's") {
		t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
}

// TestUnchangedDespiteALeftHook: a Job that a hook has left refuses an upgrade, which would run that hook again (R22), but not a run
// of a stack in which the release is unchanged: its hooks do not run (S4).
func TestUnchangedDespiteALeftHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	hook := map[string]string{"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": "hook-failed"}
	stack := []release{{Name: "a", Dir: rig.MakeDir(t, rig.Files{"templates/all.yaml": rig.ConfigMap("a", nil, "v: v{{ .Values.v }}") + "\n---\n" + rig.Job("migrate", hook, "10ms")})}}
	b.mustUp(stack...)
	s, err := b.prepare(false, nil, stack...)
	if state, _ := b.run(s, err, nil); state.Exit != 0 || !s.Releases()[0].Unchanged {
		t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	stack[0].Values = map[string]any{"v": 2}
	if _, err := b.prepare(false, nil, stack...); err == nil || !strings.Contains(err.Error(), "Job/migrate already exists") {
		t.Errorf("not refused: %v", err)
	}
}
