package stack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// testedChart writes a chart with a ConfigMap and a test, which does not end with the value hang, and fails with code 3.
func testedChart(t *testing.T) string {
	return rig.MakeDir(t, rig.Files{
		"values.yaml": "v: one\nannotation: sandbox/run-duration\nvalue: 10ms\n",
		"templates/all.yaml": rig.ConfigMap("{{ .Release.Name }}", nil, "v: {{ .Values.v }}") + "\n---\n" +
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-test\n  annotations: {helm.sh/hook: test, \"{{ .Values.annotation }}\": {{ .Values.value | quote }}}\n" +
			"spec: {restartPolicy: Never, containers: [{name: test, image: example/test:1.0}]}",
	})
}

var (
	hangingTest = map[string]any{"annotation": "sandbox/fail", "value": "pending"}
	failingTest = map[string]any{"annotation": "sandbox/exit-code", "value": "3", "v": "two"}
)

// TestReleasesWaitForTests (S11, S2, S4, S7): a release that needs another waits for the tests of that. A run that was killed
// during the tests goes on with them, and a release whose tests have passed is unchanged.
func TestReleasesWaitForTests(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	dir := testedChart(t)
	stack := func(values map[string]any) []release {
		return []release{{Name: "a", Dir: dir, Test: true, Values: values}, {Name: "b", Dir: dir, Needs: []string{"a"}}}
	}
	b.kill(childStack{layout: b.layout, Kubeconfig: rig.Sandbox.Kubeconfig, Locks: rig.LockDir(), Releases: stack(hangingTest)}, func(e event.Event) bool {
		return e.Kind == event.KindObject && e.Object.Name == "a-test" && e.Change != ""
	})
	since := time.Now()
	b.mustUp(stack(nil)...)
	order, written := []string{}, []string{"a-test", "b"}
	for _, e := range b.Audit() {
		if writes := e.Verb == "create" || e.Verb == "patch"; writes && e.Received.After(since) && slices.Contains(written, e.Object.Name) && e.Object.Namespace == b.namespaceOf(e.Object.Name[:1]) {
			order = append(order, e.Object.Name)
		}
	}
	if first := slices.Index(order, "b"); first < 0 || slices.Index(order, "a-test") > first || !slices.Contains(order, "a-test") {
		t.Errorf("order of the writes: %v", order)
	}
	if got := b.history("a", "b"); !slices.Equal(got, []string{"a 2 deployed", "b 1 deployed"}) {
		t.Errorf("history %v", got)
	}
	b.mustUp(stack(nil)...)
	if got := b.history("a", "b"); !slices.Equal(got, []string{"a 2 deployed", "b 1 deployed"}) {
		t.Errorf("history after a run without changes: %v", got)
	}
}

// TestFailedTestOfAStack (S11, S5, R33): a failed test of a release stops what needs it, and the stack goes back.
func TestFailedTestOfAStack(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	dir := testedChart(t)
	stack := func(values map[string]any) []release {
		v := map[string]any{"v": values["v"]}
		return []release{{Name: "a", Dir: dir, Values: v}, {Name: "b", Dir: dir, Values: values, Needs: []string{"a"}}, {Name: "c", Dir: dir, Values: v, Needs: []string{"b"}}}
	}
	up := func(rollback bool, releases []release) *event.State {
		s, err := b.prepare(false, func(o *kube.StackOptions) { o.Common.Test, o.Common.RollbackOnFailure = true, rollback }, releases...)
		state, _ := b.run(s, err, nil)
		return state
	}
	if state := up(false, stack(map[string]any{"v": "one"})); state.Exit != 0 {
		t.Fatal(phrase.Reason(state))
	}
	state := up(false, stack(failingTest))
	if got := b.history("a", "b", "c"); state.Exit != 1 || !strings.Contains(phrase.Reason(state), "b-test") || !slices.Equal(got, []string{"a 2 deployed", "b 2 failed", "c 1 deployed"}) {
		t.Errorf("exit %d, history %v: %s", state.Exit, got, phrase.Reason(state))
	}
	failingAgain := map[string]any{"annotation": "sandbox/exit-code", "value": "3", "v": "three"}
	state = up(true, stack(failingAgain))
	if got := b.history("a", "b", "c"); state.Exit != 1 || !slices.Equal(got, []string{"a 4 deployed", "b 4 deployed", "c 1 deployed"}) {
		t.Errorf("with --rollback-on-failure: exit %d, history %v: %s", state.Exit, got, phrase.Reason(state))
	}
	if got := b.in("b").ConfigMapData("b")["v"]; got != "one" {
		t.Errorf("b has v %q after the rollback, want one", got)
	}
}
