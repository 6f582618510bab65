package stack

import (
	"slices"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestReleaseWaitsForAnObjectOfAnother: two releases without needs run side by side, and a group of one starts after an object of
// the other is ready, by its annotation or by waitFor of the release (R22d).
func TestReleaseWaitsForAnObjectOfAnother(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"annotation", "waitFor"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			annotations := rig.Group("app")
			if by == "annotation" {
				annotations[plan.AnnotationWaitFor] = `["Deployment/api"]`
			}
			dir := func(name, doc string) string {
				return rig.MakeDir(t, rig.Files{"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n", "templates/all.yaml": doc})
			}
			s, err := b.prepare(false, func(o *kube.StackOptions) {
				if by == "waitFor" {
					o.File.Releases[0].WaitFor = []string{"Deployment/api"}
				}
			}, release{Name: "b", Dir: dir("b", rig.ConfigMap("b", annotations))}, release{Name: "a", Dir: dir("a", rig.Deployment("api", nil, "1s"))})
			if err != nil {
				t.Fatal(err)
			}
			state, events := b.run(s, err, nil)
			if state.Exit != 0 {
				t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
			}
			if !slices.ContainsFunc(events, func(e event.Event) bool { return e.Outside && e.Scope == b.id("b") && e.Status == event.InProgress }) {
				t.Error("no event says that release b waits")
			}
			tl := b.Timeline("lockstep")
			first, _ := tl.FirstWrite(t, []string{"ConfigMap/b"})
			if ready, _ := tl.Ready(t, []string{"Deployment/api"}); first.Before(ready) {
				t.Errorf("b was written at %s, before Deployment/api was ready at %s", first, ready)
			}
		})
	}
}
