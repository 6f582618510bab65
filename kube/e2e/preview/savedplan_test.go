package preview

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/planfile"
)

const canary = "canary-hunter2"

// savePlan plans an operation as "plan --out" does, and returns the plan as "--plan" reads it.
func savePlan(t *testing.T, op *kube.Operation, err error) *planfile.Saved {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f := planfile.File{Salt: planfile.NewSalt()}
	saved, err := op.SavePlan(t.Context(), f.Salt)
	if err != nil {
		t.Fatal(err)
	}
	f.Releases = append(f.Releases, saved)
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the file has a secret value: %s", text)
		}
	}
	read, err := planfile.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return read.Release("")
}

// moved returns the sentences of a refusal.
func moved(t *testing.T, err error) (lines []string) {
	t.Helper()
	refused := (*planfile.NotAsPlanned)(nil)
	if !errors.As(err, &refused) {
		t.Fatalf("not refused: %v", err)
	}
	for _, m := range refused.Moved {
		lines = append(lines, phrase.Moved(m))
	}
	return lines
}

// followPlan makes an operation follow a plan.
func followPlan(p *planfile.Saved, change func(*kube.Deploy)) func(*kube.Deploy) {
	return func(d *kube.Deploy) {
		d.SavedPlan, d.Timeout = p, time.Minute
		if change != nil {
			change(d)
		}
	}
}

func chartBefore(t *testing.T) *charts.Chart {
	return rig.ChartOf(t,
		rig.ConfigMap("stays", rig.Group("a")), rig.ConfigMap("changes", rig.Group("b", "a"), "color: red"),
		rig.Object("v1/Secret/token", rig.Group("b", "a"), "stringData:\n  key: "+canary), rig.Deployment("web", rig.Group("b", "a"), "0s"),
		rig.ConfigMap("goes", nil))
}

func chartAfter(t *testing.T) *charts.Chart {
	return rig.ChartOf(t,
		rig.ConfigMap("stays", rig.Group("a")), rig.ConfigMap("changes", rig.Group("b", "a"), "color: green", "copy: "+canary+"-2"),
		rig.Object("v1/Secret/token", rig.Group("b", "a"), "stringData:\n  key: "+canary+"-2"), rig.Deployment("web", rig.Group("b", "a"), "0s", "  replicas: 2"),
		rig.ConfigMap("comes", nil), rig.Job("hook", map[string]string{"helm.sh/hook": "pre-upgrade"}, "0s"))
}

// TestApprovedPlansAreApplied saves and follows the plan of each operation; each can be followed once (R55).
func TestApprovedPlansAreApplied(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	before, after := chartBefore(t), chartAfter(t)
	minute := followPlan(nil, nil)
	op, err := r.Install("plain", rig.UseChart(before, minute))
	install := savePlan(t, op, err)
	if want := []string{"example/app:1.0"}; !slices.Equal(install.Images, want) {
		t.Errorf("images %q, want %q", install.Images, want)
	}
	r.MustRun(r.Install("plain", rig.UseChart(before, followPlan(install, nil))))

	op, err = r.Upgrade("plain", rig.UseChart(after, minute))
	upgrade := savePlan(t, op, err)
	start := time.Now()
	if _, err = r.Upgrade("plain", rig.UseChart(before, followPlan(upgrade, nil))); err == nil {
		t.Error("another chart is not refused")
	}
	if w := r.WrittenSince(start); len(w) > 0 {
		t.Errorf("the refused upgrade wrote %v", w)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(after, followPlan(upgrade, nil))))
	_, err = r.Upgrade("plain", rig.UseChart(after, followPlan(upgrade, nil)))
	if got := moved(t, err); !strings.Contains(got[0], "release t is at revision 2 now, and was at 1 when the plan was saved") {
		t.Errorf("a plan that is used twice: %q", got)
	}

	op, err = r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: r.Common(), Revision: 1})
	back := r.Common()
	back.SavedPlan = savePlan(t, op, err)
	r.MustRun(r.Client.PrepareRollback(t.Context(), kube.Rollback{Common: back, Revision: 1}))

	op, err = r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: r.Common()})
	gone := r.Common()
	gone.SavedPlan = savePlan(t, op, err)
	r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: gone}))
	_, err = r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: gone, IgnoreNotFound: true})
	if got := moved(t, err); !strings.Contains(got[0], "does not exist any more") {
		t.Errorf("an uninstall that is done twice: %q", got)
	}
}

// TestWhatMovedIsNamed refuses an upgrade that is not as approved, names what differs, and writes nothing (R55).
func TestWhatMovedIsNamed(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	before, after := chartBefore(t), chartAfter(t)
	r.MustRun(r.Install("plain", rig.UseChart(before, nil)))
	force := func(d *kube.Deploy) { d.ForceConflicts = true }
	op, err := r.Upgrade("plain", rig.UseChart(after, followPlan(nil, force)))
	approved := savePlan(t, op, err)
	upgrade := func(c *charts.Chart, p *planfile.Saved, change func(*kube.Deploy)) []string {
		t.Helper()
		start := time.Now()
		_, err := r.Upgrade("plain", rig.UseChart(c, followPlan(p, func(d *kube.Deploy) {
			force(d)
			if change != nil {
				change(d)
			}
		})))
		if w := r.WrittenSince(start); len(w) > 0 {
			t.Errorf("the refused upgrade wrote %v", w)
		}
		return moved(t, err)
	}
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	elsewhere := *approved
	elsewhere.Cluster.UID = "another"
	expect("cluster", upgrade(after, &elsewhere, nil), "the cluster is another one")
	expect("options", upgrade(after, approved, func(d *kube.Deploy) { d.RollbackOnFailure, d.Timeout, d.Approve = true, 2*time.Minute, []string{"b"} }),
		"option rollback-on-failure is true, approved was not set") // and neither a time limit nor who approves
	expect("values", upgrade(after, approved, func(d *kube.Deploy) { d.Values = map[string]any{"a": 1} }), "the values have changed")
	third := rig.ChartOf(t, strings.Split(strings.NewReplacer("color: green", "color: blue", canary+"-2", canary+"-3").Replace(text(t, after)), "\n---\n")...)
	expect("chart", upgrade(third, approved, nil), "the files of chart edge-1.0.0 have changed",
		"Secret/token: a secret value is rendered differently",
		"ConfigMap/changes: data.color is rendered differently", "ConfigMap/changes: a secret value is rendered differently")

	r.PatchConfigMap("stays", `{"data":{"more":"1"}}`) // a field that the upgrade does not touch
	r.PatchConfigMap("changes", `{"data":{"color":"orange"}}`)
	patch := []byte(`{"stringData":{"key":"by-hand"}}`)
	if _, err := r.Cluster.CoreV1().Secrets(r.Namespace).Patch(t.Context(), "token", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	expect("cluster's fields", upgrade(after, approved, nil),
		"Secret/token: a secret value has changed in the cluster", "ConfigMap/changes: data.color has changed in the cluster")
	if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := upgrade(after, approved, nil); !slices.Contains(got, "ConfigMap/goes: the action is absent, approved was delete") {
		t.Errorf("deleted object: %q", got)
	}
}

// text returns the documents of a chart.
func text(t *testing.T, c *charts.Chart) string {
	t.Helper()
	h, err := c.Helm()
	if err != nil {
		t.Fatal(err)
	}
	return string(h.Templates[0].Data)
}

// TestWhatMovesDuringTheRunHolds changes an object of a later group while an approved run is paused before it: the group writes
// nothing and holds the run until the object is as it was (R44, R55).
func TestWhatMovesDuringTheRunHolds(t *testing.T) {
	t.Parallel()
	for _, hold := range []bool{true, false} {
		t.Run(map[bool]string{true: "hold", false: "headless"}[hold], func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			before, after := chartBefore(t), chartAfter(t)
			r.MustRun(r.Install("plain", rig.UseChart(before, nil)))
			options := func(p *planfile.Saved) func(*kube.Deploy) {
				return rig.UseChart(after, followPlan(p, func(d *kube.Deploy) {
					d.ForceConflicts, d.HoldOnFailure = true, hold
					if p != nil {
						d.BreakOn = []string{"edge:b"}
					}
				}))
			}
			op, err := r.Upgrade("plain", options(nil))
			if op, err = r.Upgrade("plain", options(savePlan(t, op, err))); err != nil {
				t.Fatal(err)
			}
			held := 0
			out := r.Run(op, func(e event.Event) {
				switch {
				case e.Kind == event.KindRun && e.Status == event.Paused:
					r.PatchConfigMap("changes", `{"data":{"color":"orange"}}`)
					op.Command(event.Command{Name: event.Resume})
				case e.Kind == event.KindRun && e.Status == event.Held:
					held++
					if held > 1 {
						op.Command(event.Command{Name: event.Abort})
						return
					}
					if d := r.ConfigMapData("changes"); d["color"] != "orange" {
						t.Errorf("the held group wrote %v", d)
					}
					r.PatchConfigMap("changes", `{"data":{"color":"red"}}`)
					op.Command(event.Command{Name: event.Retry})
				}
			})
			const why = "ConfigMap/changes: data.color has changed in the cluster"
			said := slices.ContainsFunc(out.Events, func(e event.Event) bool {
				return e.Kind == event.KindGroup && e.Group == "edge:b" && e.Status == event.Failed && strings.Contains(e.Message+e.Cause, why)
			})
			if !said {
				t.Errorf("group edge:b does not say %q", why)
			}
			if d := r.ConfigMapData("changes"); hold && (held != 1 || out.State.Exit != 0 || d["color"] != "green") {
				t.Errorf("held %d times, exit %d: %s, data %v", held, out.State.Exit, out.State.Message, d)
			} else if !hold && (out.State.Exit != 1 || d["color"] != "orange" || !strings.Contains(out.State.Message, why)) {
				t.Errorf("exit %d: %s, data %v", out.State.Exit, out.State.Message, d)
			}
		})
	}
}

// TestRollbackLeavesWhatWasNotAsApproved: a run with a saved plan rolls back because somebody has changed an object that it had not
// written. The rollback does not write it either (R33, R55).
func TestRollbackLeavesWhatWasNotAsApproved(t *testing.T) {
	t.Parallel()
	for _, clientSide := range []bool{true, false} {
		t.Run(map[bool]string{true: "client-side", false: "server-side"}[clientSide], func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			before := rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a"), "color: red"), rig.ConfigMap("changes", rig.Group("b", "a"), "color: red"))
			after := rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a"), "color: green"), rig.ConfigMap("changes", rig.Group("b", "a"), "color: green"))
			method := func(d *kube.Deploy) {
				if d.RollbackOnFailure = true; clientSide {
					d.ServerSide = "false"
				}
			}
			r.MustRun(r.Install("plain", rig.UseChart(before, method)))
			op, err := r.Upgrade("plain", rig.UseChart(after, followPlan(nil, method)))
			p := savePlan(t, op, err)
			if op, err = r.Upgrade("plain", rig.UseChart(after, followPlan(p, func(d *kube.Deploy) { method(d); d.BreakOn = []string{"edge:b"} }))); err != nil {
				t.Fatal(err)
			}
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindRun && e.Status == event.Paused {
					r.PatchConfigMap("changes", `{"data":{"color":"orange"}}`)
					op.Command(event.Command{Name: event.Resume})
				}
			})
			if one, two := r.ConfigMapData("first")["color"], r.ConfigMapData("changes")["color"]; out.State.Exit != 1 || one != "red" || two != "orange" || out.State.Release != "deployed" {
				t.Errorf("exit %d, release %s: %s; first is %s, changes %s", out.State.Exit, out.State.Release, out.State.Message, one, two)
			}
		})
	}
}

// TestARetryIsComparedAgain: a group that was as planned fails for another reason and is held. Meanwhile somebody changes its
// object: the retry writes nothing until that is as it was (R55).
func TestARetryIsComparedAgain(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := func(color, fails string) *charts.Chart {
		return rig.ChartOf(t, rig.ConfigMap("changes", rig.Group("b"), "color: "+color), rig.Job("job-"+fails, rig.Group("b"), "10ms, sandbox/exit-code: \""+fails+"\"", "  backoffLimit: 0"))
	}
	r.MustRun(r.Install("plain", rig.UseChart(chart("red", "0"), nil)))
	options := func(p *planfile.Saved) func(*kube.Deploy) {
		return rig.UseChart(chart("green", "1"), followPlan(p, func(d *kube.Deploy) { d.ForceConflicts, d.HoldOnFailure, d.WaitForJobs = true, true, kube.AllJobs }))
	}
	op, err := r.Upgrade("plain", options(nil))
	if op, err = r.Upgrade("plain", options(savePlan(t, op, err))); err != nil {
		t.Fatal(err)
	}
	const why = "ConfigMap/changes: data.color has changed in the cluster"
	out, held := r.RunHeld(op, event.Abort, func() { r.PatchConfigMap("changes", `{"data":{"color":"orange"}}`) })
	said := slices.ContainsFunc(out.Events, func(e event.Event) bool {
		return e.Kind == event.KindGroup && e.Status == event.Failed && strings.Contains(e.Message+e.Cause, why)
	})
	if d := r.ConfigMapData("changes"); held != 2 || !said || d["color"] != "orange" {
		t.Errorf("held %d times, the retry says why: %v, data %v", held, said, d)
	}
}
