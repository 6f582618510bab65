package uninstall

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestUnreadableObjectsAreKept uninstalls with --skip-preflight as a user who may delete but not read some objects. Helm
// cannot check their owner, so it keeps them and succeeds. A warning names each, and the groups and hooks after them
// still run (R31).
func TestUnreadableObjectsAreKept(t *testing.T) {
	t.Parallel()
	for name, readable := range map[string]bool{"some": true, "all": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			docs := []string{rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")), rig.Job("hook", map[string]string{"helm.sh/hook": "post-delete"}, "0s")}
			if readable {
				docs = append(docs, rig.Object("v1/Service/web", rig.Group("web", "b"), "spec: {ports: [{port: 80}]}"))
			}
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, docs...), nil))
			few := r.WithClient(r.ConnectAs("few",
				rig.Rule("", "configmaps", "delete"), rig.Rule("", "services", "*"), rig.Rule("batch", "jobs", "*"),
				rig.Rule("", "secrets", "*"), rig.Rule("coordination.k8s.io", "leases", "*")))

			op, err := few.Uninstall()
			if op != nil || err == nil || !strings.Contains(err.Error(), "configmaps [get]") {
				t.Errorf("without --skip-preflight: error %v", err)
			}
			op, err = few.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, SkipPreflight: true}})
			out := few.MustRun(op, err)
			if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"a", "b"}) || r.Status() != "" {
				t.Errorf("remaining: %v, want a and b; release %q", got, r.Status())
			}
			var warned []string
			for _, e := range out.Events {
				if e.Kind == event.KindWarning && strings.Contains(e.Message, "may not get") {
					warned = append(warned, e.Message)
				}
			}
			if len(warned) != 2 {
				t.Errorf("warnings %q", warned)
			}
			kept := map[string]bool{}
			for _, p := range out.State.Phases {
				for _, g := range p.Groups {
					if !g.Status.Over() {
						t.Errorf("%s of %s is still %s at the end", g.ID, p.Name, g.Status)
					}
					for _, o := range g.Objects {
						kept[o.Object.Name] = o.Change == event.Kept
					}
				}
			}
			if !kept["a"] || !kept["b"] || kept["web"] || kept["hook"] {
				t.Errorf("kept: %v", kept)
			}
			want := []string{"edge:b", "edge:a", "post-delete:Job/hook"}
			if readable {
				want = append([]string{"edge:web"}, want...)
			}
			if ended := out.EndedGroups(); !slices.Equal(ended, want) {
				t.Errorf("ended %v, want %v", ended, want)
			}
		})
	}
}
