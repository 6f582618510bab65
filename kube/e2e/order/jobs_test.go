package order

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestAwaitedJobs deploys a Job that another group waits for. By default that group is applied only once the Job is complete;
// with --wait-for-jobs=false once it has started, and then nothing says that it is ready (R22).
func TestAwaitedJobs(t *testing.T) {
	for _, jobs := range []kube.Jobs{kube.AwaitedJobs, kube.StartedJobs} {
		t.Run("jobs "+string(jobs), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			duration := "1s"
			if jobs == kube.StartedJobs {
				duration = "1h"
			}
			chart := rig.ChartOf(t, rig.Job("migrate", rig.Group("schema"), duration), rig.ConfigMap("app", rig.Group("app", "schema")))
			deploy := func(operation string) {
				var out rig.Outcome
				if operation == "install" {
					out = r.MustRun(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.WaitForJobs = jobs })))
				} else {
					out = r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.WaitForJobs = jobs })))
				}
				events := out.Events
				job := slices.IndexFunc(events, func(e event.Event) bool {
					return e.Kind == event.KindObject && e.Status == event.Ready && e.Object.Name == "migrate"
				})
				applied := slices.IndexFunc(events, func(e event.Event) bool { return e.Kind == event.KindObject && e.Object.Name == "app" })
				if job < 0 || applied < job {
					t.Fatalf("%s: app was applied before the Job counted", operation)
				}
				g := out.State.Find("apply", "edge:schema")
				complete := strings.Contains(events[job].Message, "1 of 1 complete")
				if want := jobs == kube.AwaitedJobs; complete != want || (g.Shown() == event.Ready) != want || (out.State.Outcome == "") != want {
					t.Errorf("%s: complete %v, the group is %s, outcome %q", operation, complete, g.Shown(), out.State.Outcome)
				}
				if jobs == kube.StartedJobs && (g.Shown() != event.Started || out.State.Outcome != "1 Job started, not complete at the end") {
					t.Errorf("%s: the group is %s, outcome %q", operation, g.Shown(), out.State.Outcome)
				}
			}
			deploy("install")
			deploy("upgrade")
		})
	}
}
