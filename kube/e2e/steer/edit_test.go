package steer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
	"lockstep/kube/readiness"
)

// editable returns a chart with groups base, web and last. Value image is the image of web; extra adds a ConfigMap.
func editable(t *testing.T) *charts.Chart {
	t.Helper()
	return rig.ChartOf(t, rig.ConfigMap("a", rig.Group("base")), `{{ if .Values.extra }}`+rig.ConfigMap("extra", rig.Group("base"))+`{{ end }}`,
		strings.Replace(rig.Deployment("web", rig.Group("web", "base"), "0s"), "example/app:1.0", `{{ required "which image?" .Values.image }}`, 1),
		rig.ConfigMap("last", rig.Group("last", "web")))
}

const (
	wrongImage = "example/no-such-image:1"
	rightImage = "example/app:2.0"
	// editTimeout is enough for the right image, and short for a wrong one.
	editTimeout = 12 * time.Second
)

// sendWhenPaused returns an event handler that sends the next command each time the run is held or paused.
func sendWhenPaused(r *rig.Rig, op *kube.Operation, edits ...func() event.Command) func(event.Event) {
	return func(e event.Event) {
		if e.Kind != event.KindRun || e.Status != event.Held && e.Status != event.Paused {
			return
		}
		next := event.Command{Name: event.Stop}
		if len(edits) > 0 {
			next, edits = edits[0](), edits[1:]
		} else {
			r.T.Errorf("the run is paused or held again: %s", e.Message)
		}
		op.Command(next)
	}
}

// editCommand returns a function that prepares an edit, calls check with it, and returns its command.
func editCommand(r *rig.Rig, op *kube.Operation, values map[string]any, check func(*kube.Edit)) func() event.Command {
	return func() event.Command {
		e, err := op.Edit(r.T.Context(), values, nil)
		if err != nil {
			r.T.Error(err)
			return event.Command{Name: event.Stop}
		}
		if check != nil {
			check(e)
		}
		return e.Command()
	}
}

// awaitRefusal waits until a command is refused with a reason.
func awaitRefusal(t *testing.T, op *kube.Operation, why string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if slices.ContainsFunc(op.Feed().Events(), func(e event.Event) bool {
			return e.Kind == event.KindCommand && e.Status == event.Refused && strings.Contains(e.Message, why)
		}) {
			return
		}
	}
	t.Errorf("no command was refused with %q", why)
}

// assertValues compares the output of helm get values.
func assertValues(r *rig.Rig, want string) {
	r.T.Helper()
	got, err := action.NewGetValues(r.Helm()).Run("t")
	if err != nil || fmt.Sprint(got) != want {
		r.T.Errorf("helm get values: %v, %v; want %s", got, err, want)
	}
}

func resourceVersion(r *rig.Rig, configMap string) string {
	c, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(r.T.Context(), configMap, metav1.GetOptions{})
	if err != nil {
		r.T.Error(err)
		return ""
	}
	return c.ResourceVersion
}

// TestEditAHeldInstall edits values twice, the first time with another wrong image. Each time a new revision replaces the
// held one, ready groups count as ready at once, and the record has the applied values. Values that do not render change
// nothing (R46, R50).
func TestEditAHeldInstall(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(editable(t), func(i *kube.Deploy) {
		i.HoldOnFailure, i.ReadinessTimeout, i.Values = true, editTimeout, map[string]any{"image": wrongImage}
	}))
	if err != nil {
		t.Fatal(err)
	}
	before := ""
	out := r.Run(op, sendWhenPaused(r, op,
		func() event.Command {
			if _, err := op.Edit(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "which image?") {
				t.Errorf("an edit without an image: %v", err)
			}
			same, err := op.Edit(t.Context(), map[string]any{"image": wrongImage, "unused": true}, nil)
			if err != nil {
				t.Error(err)
			} else if empty, err := same.Empty(); !empty || err != nil {
				t.Errorf("an edit that changes no object: %v, %v", empty, err)
			}
			op.Command(event.Command{Name: event.Edit, Values: "unused: true"})
			awaitRefusal(t, op, "changes no object")
			op.Command(event.Command{Name: event.Edit, Edit: 99}) // no prepared edit has this number
			awaitRefusal(t, op, "nothing was edited")
			r.AssertHistory("1 pending-install")
			before = resourceVersion(r, "a")
			return editCommand(r, op, map[string]any{"image": wrongImage + "2", "password": "tricky-1"}, func(e *kube.Edit) {
				if empty, err := e.Empty(); empty || err != nil {
					t.Errorf("an edit of an image: %v, %v", empty, err)
				}
				changes, err := e.Changes()
				if err != nil || len(changes) != 1 || changes[0].Object.Name != "web" || !strings.Contains(changes[0].Diff, "+") || e.Info().Revision != 2 {
					t.Errorf("the edit would make the changes %+v in revision %d: %v", changes, e.Info().Revision, err)
				}
			})()
		},
		func() event.Command { return event.Command{Name: event.Edit, Values: "image: " + rightImage} }))
	if out.Err != nil || out.State.Exit != 0 || out.State.Operation.Revision != 3 || out.State.Operation.Name != "install" {
		t.Fatalf("exit %d, %+v: %v", out.State.Exit, out.State.Operation, out.Err)
	}
	r.AssertHistory("1 failed", "2 failed", "3 deployed")
	assertValues(r, "map[image:"+rightImage+" password:tricky-1]")
	if g := out.State.Find(helmclient.PhaseApply, "edge:base"); g.Status != event.Ready || g.Message != "unchanged" || resourceVersion(r, "a") != before {
		t.Errorf("the ready group is %s (%s), its object at version %s after %s", g.Status, g.Message, resourceVersion(r, "a"), before)
	}
	if !slices.Equal(r.ConfigMaps(r.Namespace), []string{"a", "last"}) {
		t.Errorf("ConfigMaps: %v", r.ConfigMaps(r.Namespace))
	}
	for _, e := range out.Events {
		if strings.Contains(e.Message, "tricky-1") {
			t.Errorf("an event shows a secret value: %+v", e)
		}
	}
	values, err := op.Values(false)
	if err != nil || values["image"] != rightImage {
		t.Errorf("the values of the run are %v, %v", values, err)
	}
}

// TestEditKeepsTheOperatorsRules: the revision of an edit has the rules with which the run was started, and so has its record
// (R46, R22b).
func TestEditKeepsTheOperatorsRules(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	never, err := readiness.ParseNoWait("ConfigMap/last")
	if err != nil {
		t.Fatal(err)
	}
	op, err := r.Install("plain", rig.UseChart(editable(t), func(i *kube.Deploy) {
		i.HoldOnFailure, i.ReadinessTimeout, i.Values, i.Readiness = true, editTimeout, map[string]any{"image": wrongImage}, []kube.Readiness{never}
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, sendWhenPaused(r, op, func() event.Command { return event.Command{Name: event.Edit, Values: "image: " + rightImage} }))
	if out.Err != nil || out.State.NotAwaited != 1 || out.State.Operation.Revision != 2 {
		t.Fatalf("%d objects not awaited in revision %d: %v", out.State.NotAwaited, out.State.Operation.Revision, out.Err)
	}
	r.OpenView(0).Await("ConfigMap/last is not awaited", func(s *event.State) bool {
		for g := range s.GroupStates() {
			for _, o := range g.Objects {
				if o.Object.Name == "last" {
					return o.NotAwaited() && o.Status == event.Applied
				}
			}
		}
		return false
	})
}

// TestEditAnUpgrade: an edit of an upgrade also deletes objects that only the replaced revision had (R46, R32a).
func TestEditAnUpgrade(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(editable(t), func(i *kube.Deploy) { i.Values = map[string]any{"image": "example/app:1.0"} }))
	op, err := r.Upgrade("plain", rig.UseChart(editable(t), func(u *kube.Deploy) {
		u.HoldOnFailure, u.ReadinessTimeout, u.Values = true, editTimeout, map[string]any{"image": wrongImage, "extra": true}
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, sendWhenPaused(r, op, editCommand(r, op, map[string]any{"image": rightImage}, func(e *kube.Edit) {
		changes, err := e.Changes()
		if err != nil || len(changes) != 2 || changes[1].Object.Name != "extra" || changes[1].Action != inspect.Delete {
			t.Errorf("the edit would make the changes %+v: %v", changes, err)
		}
	})))
	if out.Err != nil || out.State.Exit != 0 {
		t.Fatalf("exit %d: %v", out.State.Exit, out.Err)
	}
	r.AssertHistory("1 superseded", "2 failed", "3 deployed")
	assertValues(r, "map[image:"+rightImage+"]")
	if !slices.Equal(r.ConfigMaps(r.Namespace), []string{"a", "last"}) {
		t.Errorf("ConfigMaps: %v", r.ConfigMaps(r.Namespace))
	}
}

// TestRollBackAfterAnEdit rolls back to the revision that was deployed before, not to the
// edited one (R33, R46).
func TestRollBackAfterAnEdit(t *testing.T) {
	rollback := func() event.Command { return event.Command{Name: event.Rollback} }
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.Deploy("plain", rig.UseChart(editable(t), func(i *kube.Deploy) { i.Values = map[string]any{"image": "example/app:1.0"} }))
		op, err := r.Upgrade("plain", rig.UseChart(editable(t), func(u *kube.Deploy) {
			u.HoldOnFailure, u.ReadinessTimeout, u.Values = true, editTimeout, map[string]any{"image": wrongImage}
		}))
		if err != nil {
			t.Fatal(err)
		}
		out := r.Run(op, sendWhenPaused(r, op, editCommand(r, op, map[string]any{"image": wrongImage, "extra": true}, nil), rollback))
		if out.State.Exit != 3 || out.State.Release != "deployed" {
			t.Errorf("exit %d, the release is %s: %s", out.State.Exit, out.State.Release, out.State.Message)
		}
		r.AssertHistory("1 superseded", "2 failed", "3 failed", "4 deployed")
		assertValues(r, "map[image:example/app:1.0]")
		if !slices.Equal(r.ConfigMaps(r.Namespace), []string{"a", "last"}) {
			t.Errorf("ConfigMaps: %v", r.ConfigMaps(r.Namespace))
		}
	})
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		op, err := r.Install("plain", rig.UseChart(editable(t), func(i *kube.Deploy) {
			i.HoldOnFailure, i.ReadinessTimeout, i.Values = true, editTimeout, map[string]any{"image": wrongImage}
		}))
		if err != nil {
			t.Fatal(err)
		}
		out := r.Run(op, sendWhenPaused(r, op, editCommand(r, op, map[string]any{"image": wrongImage, "extra": true}, nil), rollback))
		if out.State.Exit != 3 || out.State.Release != event.NoRelease || len(r.ConfigMaps(r.Namespace)) > 0 {
			t.Errorf("exit %d, the release is %s: %s; there are %v", out.State.Exit, out.State.Release, out.State.Message, r.ConfigMaps(r.Namespace))
		}
	})
}

// TestEditBeforeTheFirstWrite replaces a revision that was never created, and stays paused
// until it is resumed (R46, R41).
func TestEditBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op := r.Must(r.Install("plain", rig.UseChart(editable(t), func(i *kube.Deploy) { i.Step, i.Values = true, map[string]any{"image": wrongImage} })))
	out := r.Run(op, sendWhenPaused(r, op, editCommand(r, op, map[string]any{"image": rightImage}, nil), func() event.Command {
		if writes := r.Audit(); len(writes) > 0 && r.Status() != "" {
			t.Errorf("the paused run wrote %v", writes)
		}
		return event.Command{Name: event.Resume}
	}))
	if out.Err != nil || out.State.Exit != 0 {
		t.Fatalf("exit %d: %v", out.State.Exit, out.Err)
	}
	r.AssertHistory("1 deployed")
	assertValues(r, "map[image:"+rightImage+"]")
	if r.Must(r.Uninstall()).CheckEditable() == nil {
		t.Error("an uninstall can be edited")
	}
}

// TestAbortBeforeTheEditedRevision: the outcome says that no record has the values of an edit whose revision was not started (R46).
func TestAbortBeforeTheEditedRevision(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	op, err := r.Install("plain", rig.UseChart(editable(t), func(i *kube.Deploy) {
		i.Values, i.BreakOn = map[string]any{"image": rightImage}, []string{"last"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, sendWhenPaused(r, op, editCommand(r, op, map[string]any{"image": rightImage, "extra": true}, nil), func() event.Command {
		return event.Command{Name: event.Abort}
	}))
	if !strings.Contains(out.State.Outcome, "the edited revision was not started, and no record has its values") || out.State.AnyGroupStarted() {
		t.Errorf("exit %d, %s", out.State.Exit, out.State.Outcome)
	}
	r.AssertHistory("1 failed")
}

// TestEditReplacesAFailedJob edits the template of a failed Job: the review says that the Job is replaced, and it is, in the
// edited run as in an upgrade that resumes (R46, R50).
func TestEditReplacesAFailedJob(t *testing.T) {
	t.Parallel()
	job := func(code string) string {
		return strings.Replace(failingJob("migrate", rig.Group("migrate")), `exit-code: "1"`, `exit-code: "`+code+`"`, 1)
	}
	chart := rig.ChartOf(t, job(`{{ .Values.code }}`), rig.ConfigMap("last", rig.Group("last", "migrate")))
	values := func(code string) map[string]any { return map[string]any{"code": code} }
	r := rig.New(t)
	op := r.Must(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.HoldOnFailure, i.WaitForJobs, i.Values = true, kube.AllJobs, values("1") })))
	failed := r.Run(op, sendWhenPaused(r, op, editCommand(r, op, values("2"), func(e *kube.Edit) {
		changes, err := e.Changes()
		if err != nil || len(changes) != 1 || changes[0].Action != inspect.Replace {
			t.Errorf("the review says %+v, %v", changes, err)
		}
	}), func() event.Command { return event.Command{Name: event.Abort} }))
	if text := fmt.Sprint(phrase.Reason(&failed.State), failed.Events); strings.Contains(text, "immutable") || !strings.Contains(text, "exited with code 2") {
		t.Errorf("the edited run: %s", phrase.Reason(&failed.State))
	}
	up := rig.UseChart(chart, func(u *kube.Deploy) { u.Install, u.WaitForJobs, u.Values = true, kube.AllJobs, values("0") })
	if lines, _ := r.Changes(r.Upgrade("plain", up)); len(lines) != 2 || !strings.HasSuffix(lines[0], "Job/migrate replace") {
		t.Errorf("the plan says %q", lines)
	}
	r.MustRun(r.Upgrade("plain", up))
}

// TestEditOfALostRelease (R51b, R48): Helm rolls the release back while the run is paused behind its own revision. An edit is refused
// then; after an edit, the run stops. The outcome names only revisions that the run has created as its own.
func TestEditOfALostRelease(t *testing.T) {
	t.Parallel()
	for edited, own := range map[bool]int{false: 2, true: 0} {
		t.Run(fmt.Sprintf("edited before %t", edited), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("one"), "v: {{ .Values.v }}"), rig.ConfigMap("b", rig.Group("two", "one"), "v: {{ .Values.v }}"))
			values := func(v string) map[string]any { return map[string]any{"v": v} }
			r.Deploy("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Values = values("one") }))
			op := r.Must(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Values, u.BreakOn = values("two"), []string{"two"} })))
			helm := func() { r.MustHelm("rollback", "t", "1", "--force-conflicts") }
			resume := func() event.Command { return event.Command{Name: event.Resume} }
			steps := []func() event.Command{func() event.Command {
				helm()
				if _, err := op.Edit(t.Context(), values("edited"), nil); err == nil || !strings.Contains(err.Error(), "now revision 3, deployed, by helm") {
					t.Errorf("the edit: %v", err)
				}
				return resume()
			}}
			if edited {
				steps = []func() event.Command{editCommand(r, op, values("edited"), nil), func() event.Command { helm(); return resume() }}
			}
			out := r.Run(op, sendWhenPaused(r, op, steps...))
			s := out.State
			if out.Err == nil || s.Operation.Revision != own || s.Newer == nil || s.Newer.Revision != 3 || s.Newer.Author != "helm" {
				t.Errorf("%v: own revision %d, want %d; newer %v", out.Err, s.Operation.Revision, own, s.Newer)
			}
			if got := r.ConfigMapData("a")["v"] + r.ConfigMapData("b")["v"]; got != "oneone" {
				t.Errorf("the ConfigMaps have %q", got)
			}
		})
	}
}

// TestEditAfterAnotherWriter: while a run is paused before its first write, Helm upgrades the release. An edit then is refused, and
// one that was prepared before ends the run: neither is deployed over Helm's revision (R46, R51b).
func TestEditAfterAnotherWriter(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("edited before %t", before), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			dir := rig.DirOf(t, rig.ConfigMap("a", nil, "v: {{ .Values.v }}"))
			chart, err := charts.LoadPath(dir)
			if err != nil {
				t.Fatal(err)
			}
			values := func(v string) map[string]any { return map[string]any{"v": v} }
			r.Deploy("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Values = values("one") }))
			op := r.Must(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Values, u.Step = values("two"), true })))
			out := r.Run(op, sendWhenPaused(r, op, func() event.Command {
				if !before {
					r.MustHelm("upgrade", "t", dir, "--set", "v=theirs", "--force-conflicts")
				}
				edit, err := op.Edit(t.Context(), values("edited"), nil)
				switch {
				case !before && (err == nil || !strings.Contains(err.Error(), "changed since planning (now revision 2")):
					t.Errorf("the edit: %v", err)
				case before && err != nil:
					t.Error(err)
				case before:
					r.MustHelm("upgrade", "t", dir, "--set", "v=theirs", "--force-conflicts")
					return edit.Command()
				}
				return event.Command{Name: event.Stop}
			}, func() event.Command { return event.Command{Name: event.Resume} }))
			if out.Err == nil {
				t.Errorf("the run says %s", phrase.Reason(&out.State))
			}
			r.AssertHistory("1 superseded", "2 deployed")
			if got := r.ConfigMapData("a")["v"]; got != "theirs" {
				t.Errorf("the ConfigMap has %q: %s", got, phrase.Reason(&out.State))
			}
		})
	}
}
