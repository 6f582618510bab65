package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

const noWayBack = "schema 37 cannot be read by 36"

// TestStackPastNoReturn (R33a, S5): db passes a point of no return, and app, which needs it, fails. Nothing is rolled back: not app by
// itself, not db by the stack, also not in the next run, which finds db unchanged. With the reason, both are.
func TestStackPastNoReturn(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	annotations := rig.Group("schema")
	annotations[plan.AnnotationNoReturn] = noWayBack
	dir := rig.MakeDir(t, rig.Files{
		"values.yaml":        "v: one\ndelay: 0s\nmarked: false\n",
		"templates/cm.yaml":  "{{ if .Values.marked }}\n" + rig.ConfigMap("{{ .Release.Name }}", annotations, `v: "{{ .Values.v }}"`) + "\n{{ else }}\n" + rig.ConfigMap("{{ .Release.Name }}", rig.Group("schema"), `v: "{{ .Values.v }}"`) + "\n{{ end }}\n",
		"templates/app.yaml": rig.Deployment("{{ .Release.Name }}", rig.Group("app", "schema"), "{{ .Values.delay }}"),
	})
	stack := func(db, app map[string]any) []release {
		return []release{{Name: "db", Dir: dir, Values: db}, {Name: "app", Dir: dir, Values: app, Needs: []string{"db"}}}
	}
	up := func(reason string, releases []release) (string, int) {
		s, err := b.prepare(false, func(o *kube.StackOptions) {
			o.Common.RollbackOnFailure, o.Common.PastNoReturn = true, reason
			o.Common.ReadinessTimeout = 8 * time.Second
		}, releases...)
		state, _ := b.run(s, err, nil)
		return phrase.Reason(state) + "; " + state.Outcome, state.Exit
	}
	b.mustUp(stack(nil, nil)...)
	for _, c := range []struct {
		name, reason string
		db, app      map[string]any
		want         []string
		says         string
	}{
		{"before the line", "", map[string]any{"v": "two", "marked": false}, map[string]any{"v": "two", "delay": "1h"}, []string{"db 3 deployed", "app 3 deployed"}, ""},
		{"past the line", "", map[string]any{"v": "37", "marked": true}, map[string]any{"v": "three", "delay": "1h"}, []string{"db 4 deployed", "app 4 failed"}, "not rolled back"},
		{"again", "", map[string]any{"v": "37", "marked": true}, map[string]any{"v": "three", "delay": "1h"}, []string{"db 4 deployed", "app 5 failed"}, "not rolled back"},
		{"with the reason", noWayBack, map[string]any{"v": "38", "marked": true}, map[string]any{"v": "four", "delay": "1h"}, []string{"db 6 deployed", "app 7 deployed"}, ""},
	} {
		got, exit := up(c.reason, stack(c.db, c.app))
		if history := b.history("db", "app"); exit != 1 || !slices.Equal(history, c.want) || !strings.Contains(got, c.says) {
			t.Errorf("%s: exit %d, history %v, want %v: %s", c.name, exit, history, c.want, got)
		}
	}
}

// TestStackKilledPastNoReturn (R33a, S7): a run is killed once db has passed a point of no return, before app begins, or while both run.
// The next run, on a machine that knows nothing of it, finds db unchanged, and does not roll app back when it fails. Once app has been
// deployed, a rollback of it does not go back past the point any more.
func TestStackKilledPastNoReturn(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint("together ", together), func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			annotations := rig.Group("schema")
			annotations[plan.AnnotationNoReturn] = noWayBack
			dir := rig.MakeDir(t, rig.Files{
				"values.yaml": "v: one\ndelay: 0s\nmarked: false\n",
				"templates/all.yaml": "{{ if .Values.marked }}\n" + rig.ConfigMap("{{ .Release.Name }}", annotations, `v: "{{ .Values.v }}"`) + "\n{{ else }}\n" +
					rig.ConfigMap("{{ .Release.Name }}", rig.Group("schema"), `v: "{{ .Values.v }}"`) + "\n{{ end }}\n---\n" +
					rig.Deployment("{{ .Release.Name }}", rig.Group("app", "schema"), "{{ .Values.delay }}"),
			})
			slow := `{name: slow, events: [presync], command: sh, args: ["-c", "echo started; until test -e go; do sleep 0.1; done"]}`
			needs := []string{"db"}
			if together {
				needs = nil
			}
			stack := func(db, app map[string]any, hook string) hooked {
				hooks := map[string]string{}
				if hook != "" {
					hooks["app"] = hook
				}
				return newHooked(b, hooks, release{Name: "db", Dir: dir, Values: db}, release{Name: "app", Dir: dir, Values: app, Needs: needs})
			}
			up := func(h hooked) *event.State {
				s, err := h.prepare(false, func(o *kube.StackOptions) {
					fromAnywhere(o)
					o.Common.RollbackOnFailure, o.Common.ReadinessTimeout = true, 10*time.Second
				})
				state, _ := b.run(s, err, nil)
				return state
			}
			one, marked, broken := map[string]any{"v": "one"}, map[string]any{"v": "37", "marked": true}, map[string]any{"v": "two", "delay": "1h"}
			if state := up(stack(one, one, "")); state.Exit != 0 {
				t.Fatal(phrase.Reason(state))
			}
			deployed, began := false, false
			hook := map[bool]string{false: slow}[together]
			killed := stack(marked, broken, hook)
			killed.kill(func(e event.Event) bool {
				deployed = deployed || e.Scope == "" && e.Kind == event.KindGroup && e.Group == b.id("db") && e.Status == event.Ready
				began = began || e.Kind == event.KindLog && e.Scope == "" || e.Scope == b.id("app") && e.Kind == event.KindObject && e.Change != ""
				return deployed && began
			})
			if err := os.WriteFile(filepath.Join(killed.dir, "go"), nil, 0o600); err != nil { // ends the hook
				t.Fatal(err)
			}
			rollBackToFirst := func() (time.Time, error) {
				since := time.Now()
				_, err := b.Client.PrepareRollback(t.Context(), kube.Rollback{Common: kube.Common{Release: "app", Namespace: b.Namespace}, Revision: 1})
				return since, err
			}
			since, err := rollBackToFirst()
			b.MustRefuse(since, err, "which its stack has passed in release "+b.Namespace+"/db", fmt.Sprintf("--past-no-return %q", noWayBack))
			op := b.Must(b.Client.PrepareUpgrade(t.Context(), kube.Deploy{
				Common:       kube.Common{Release: "app", Namespace: b.Namespace, RollbackOnFailure: true, PlanOnly: true},
				ChartOptions: kube.ChartOptions{Chart: rig.ChartOf(t, rig.ConfigMap("app", nil))},
			}))
			if got := op.NoReturn(); !slices.Equal(got, []string{noWayBack}) {
				t.Errorf("an upgrade by hand knows %q", got)
			}
			failed := map[bool]string{false: "app 2 failed", true: "app 3 failed"}[together]
			state := up(stack(marked, broken, ""))
			if got := b.history("db", "app"); state.Exit != 1 || !strings.Contains(state.Outcome, noWayBack) || !slices.Equal(got, []string{"db 2 deployed", failed}) {
				t.Errorf("exit %d, %v: %s", state.Exit, got, state.Outcome)
			}
			if state := up(stack(marked, map[string]any{"v": "three"}, "")); state.Exit != 0 {
				t.Error(phrase.Reason(state))
			}
			state = up(stack(marked, broken, ""))
			if got := b.history("db", "app"); state.Exit != 1 || got[0] != "db 2 deployed" || !strings.HasSuffix(got[1], " deployed") {
				t.Errorf("after app was deployed: exit %d, %v: %s", state.Exit, got, state.Outcome)
			}
			b.MustHelm("uninstall", "app", "--wait") // its next revision 1 is another one
			if state := up(stack(marked, map[string]any{"v": "three"}, "")); state.Exit != 0 {
				t.Error(phrase.Reason(state))
			}
			if _, err := rollBackToFirst(); err != nil {
				t.Errorf("after app was installed again: %v", err)
			}
			state = up(stack(marked, broken, ""))
			if got := b.history("app"); state.Exit != 1 || strings.Contains(state.Outcome, noWayBack) || !slices.Equal(got, []string{"app 3 deployed"}) {
				t.Errorf("after app was installed again: exit %d, %v: %s", state.Exit, got, state.Outcome)
			}
		})
	}
}

// TestRollbackPastNoReturnOfAnother (R33a): a release in another namespace of the stack has passed a point of no return. A rollback by
// hand to the revision before needs the reason, one to the revision of that run does not.
func TestRollbackPastNoReturnOfAnother(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.OtherNamespace = b.Namespace + "-extra"
	marked := rig.Group("schema")
	marked[plan.AnnotationNoReturn] = noWayBack
	up := func(v string, annotations map[string]string) {
		dir := func(annotations map[string]string) string {
			return rig.MakeDir(t, rig.Files{"templates/all.yaml": rig.ConfigMap("{{ .Release.Name }}", annotations, "v: "+v)})
		}
		s, err := b.prepare(false, func(o *kube.StackOptions) { o.Name = "s" }, release{Name: "b", Dir: dir(annotations)}, release{Name: "app", Dir: dir(nil), Needs: []string{"b"}})
		if state, _ := b.run(s, err, nil); state.Exit != 0 {
			t.Fatal(phrase.Reason(state))
		}
	}
	up("one", nil)
	up("two", marked)
	up("three", nil)
	rollback := func(to int, reason string) (time.Time, error) {
		since := time.Now()
		_, err := b.Client.PrepareRollback(t.Context(), kube.Rollback{Common: kube.Common{Release: "app", Namespace: b.Namespace, PastNoReturn: reason}, Revision: to})
		return since, err
	}
	since, err := rollback(1, "")
	b.MustRefuse(since, err, "release "+b.OtherNamespace+"/b", fmt.Sprintf("--past-no-return %q", noWayBack))
	if _, err := rollback(1, noWayBack); err != nil {
		t.Error(err)
	}
	if _, err := rollback(2, ""); err != nil {
		t.Error(err)
	}
}

// TestKilledPastPrepareHook (R33a, S11a): a run is killed once a hook before all releases, a point of no return, has succeeded. The next
// one leaves out the hooks and fails: it does not roll back.
func TestKilledPastPrepareHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	dir := rig.MakeDir(t, rig.Files{"values.yaml": "delay: 0s\n", "templates/all.yaml": rig.Deployment("{{ .Release.Name }}", nil, "{{ .Values.delay }}")})
	stack := func(delay string) hooked {
		return newHooked(b, map[string]string{"": `{name: migrate, events: [prepare], command: "true", lockstep/no-return: "` + noWayBack + `"},
  {name: slow, events: [prepare], command: sh, args: ["-c", "echo started; until test -e go; do sleep 0.1; done"]}`},
			release{Name: "app", Dir: dir, Values: map[string]any{"delay": delay}})
	}
	up := func(h hooked, earlier *event.State) *event.State {
		s, err := h.prepare(false, func(o *kube.StackOptions) {
			o.Hooks, o.Earlier = kube.SkipHooks, func(string) *event.State { return earlier }
			o.Common.RollbackOnFailure, o.Common.ReadinessTimeout = true, 8*time.Second
		})
		state, _ := b.run(s, err, nil)
		return state
	}
	if state := up(stack("0s"), nil); state.Exit != 0 {
		t.Fatal(phrase.Reason(state))
	}
	killed := stack("1h")
	earlier := killed.kill(func(e event.Event) bool { return e.Kind == event.KindLog })
	if err := os.WriteFile(filepath.Join(killed.dir, "go"), nil, 0o600); err != nil { // ends the hook
		t.Fatal(err)
	}
	state := up(killed, earlier)
	if got := b.history("app"); state.Exit != 1 || !strings.Contains(state.Outcome, noWayBack) || !slices.Equal(got, []string{"app 2 failed"}) {
		t.Errorf("exit %d, %v: %s", state.Exit, got, state.Outcome)
	}
}
