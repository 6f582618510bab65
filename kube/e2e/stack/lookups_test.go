package stack

import (
	"slices"
	"strings"
	"testing"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestLookups (S3, S4): the templates of a release look up what earlier releases of the same run create or change, directly or
// through another release, also objects of hooks, and also if the release was unchanged when the run was planned. It is deployed
// with what it would get if it were installed after them. What looks up only its own objects is not planned again.
func TestLookups(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	lookup := func(name string) string {
		return `{{ with lookup "v1" "ConfigMap" .Release.Namespace "` + name + `" }}{{ .data.v }}{{ else }}none{{ end }}`
	}
	config := func(name, v string) string { return rig.ConfigMap(name, nil, "v: '"+v+"'") }
	hook := rig.ConfigMap("hooked", map[string]string{"helm.sh/hook": "post-install,post-upgrade"}, "v: '{{ .Values.v }}'")
	a := rig.DirOf(t, config("source", "{{ .Values.v }}"), hook)
	reads := rig.DirOf(t, config("reads", lookup("source")+"-"+lookup("hooked")))
	reads2 := rig.DirOf(t, config("reads2", lookup("reads")))
	own := rig.DirOf(t, config("own", lookup("own")))
	stack := func(v string) []release {
		return []release{
			{Name: "a", Dir: a, Values: map[string]any{"v": v}},
			{Name: "b", Dir: reads, Needs: []string{"a"}},
			{Name: "c", Dir: reads2, Needs: []string{"b"}},
			{Name: "d", Dir: own, Needs: []string{"a"}},
		}
	}
	up := func(v string, history ...string) {
		t.Helper()
		s, err := b.prepare(false, nil, stack(v)...)
		if err == nil && len(history) > 0 {
			var warned []string
			for _, w := range s.OwnWarnings() {
				warned = append(warned, w.Message)
			}
			if all := strings.Join(warned, "\n"); (len(warned) > 0) != (s.Releases()[0].Unchanged == false) || len(warned) > 0 && !strings.Contains(all, "ConfigMap/source") {
				t.Errorf("warnings: %s", all)
			}
		}
		state, _ := b.run(s, err, nil)
		if state.Exit != 0 {
			t.Fatalf("exit %d: %s", state.Exit, state.Message)
		}
		want := v + "-" + v
		for _, name := range []string{"reads", "reads2"} {
			if got := b.ConfigMapData(name)["v"]; got != want {
				t.Errorf("v=%s: ConfigMap/%s has %q, want %q", v, name, got, want)
			}
		}
		var got []string
		for _, r := range []string{"a", "b", "c", "d"} {
			got = append(got, b.history(r)[0])
		}
		if !slices.Equal(got, history) {
			t.Errorf("v=%s: releases %v, want %v", v, got, history)
		}
		for _, r := range mustPrepare(t, b, stack(v)).Releases() {
			if !r.Unchanged && r.ID != b.id("d") {
				t.Errorf("v=%s: %s is not unchanged after the run", v, r.ID)
			}
		}
	}
	up("7", "a 1 deployed", "b 1 deployed", "c 1 deployed", "d 1 deployed")
	up("8", "a 2 deployed", "b 2 deployed", "c 2 deployed", "d 1 deployed")
	up("8", "a 2 deployed", "b 2 deployed", "c 2 deployed", "d 1 deployed")
}

func mustPrepare(t *testing.T, b stackRig, releases []release) *kube.Stack {
	t.Helper()
	s, err := b.prepare(false, nil, releases...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
