package stack

import (
	"slices"
	"strings"
	"testing"

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
			o.Common.ReadinessTimeout = 3_000_000_000
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
