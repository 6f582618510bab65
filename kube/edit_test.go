package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/helmclient"
)

// editable is a chart whose image the values name: base, then web, then last. It
// brings a ConfigMap more where the values say so.
func editable(t *testing.T) *charts.Chart {
	t.Helper()
	return one(t, configMap("a", group("base")), `{{ if .Values.extra }}`+configMap("extra", group("base"))+`{{ end }}`,
		strings.Replace(deployment("web", group("web", "base"), "0s"), "example/app:1.0", `{{ required "which image?" .Values.image }}`, 1),
		configMap("last", group("last", "web")))
}

const (
	wrongImage = "example/no-such-image:1"
	rightImage = "example/app:2.0"
	// soonOver is enough for the right image, and soon over for a wrong one.
	soonOver = 8 * time.Second
)

// edits answers each time that a run is held, or paused, with the next of some
// edits; it is what an operation's events are told to.
func (r *rig) edits(op *Operation, edits ...func() event.Command) func(event.Event) {
	return func(e event.Event) {
		if e.Kind != event.KindRun || e.Status != event.Held && e.Status != event.Paused {
			return
		}
		next := event.Command{Name: event.Stop}
		if len(edits) > 0 {
			next, edits = edits[0](), edits[1:]
		} else {
			r.t.Errorf("the run waits again: %s", e.Message)
		}
		op.Command(next)
	}
}

// edited plans an edit that must come to something; check looks at it.
func (r *rig) edited(op *Operation, values map[string]any, check func(*Edited)) func() event.Command {
	return func() event.Command {
		e, err := op.Edit(r.t.Context(), values, nil)
		if err != nil {
			r.t.Error(err)
			return event.Command{Name: event.Stop}
		}
		if check != nil {
			check(e)
		}
		return e.Command()
	}
}

// assertValues compares what helm get values says.
func (r *rig) assertValues(want string) {
	r.t.Helper()
	got, err := action.NewGetValues(r.helm()).Run("t")
	if err != nil || fmt.Sprint(got) != want {
		r.t.Errorf("helm get values: %v, %v; want %s", got, err, want)
	}
}

func (r *rig) version(configMap string) string {
	c, err := r.cluster.CoreV1().ConfigMaps(r.namespace).Get(r.t.Context(), configMap, metav1.GetOptions{})
	if err != nil {
		r.t.Error(err)
		return ""
	}
	return c.ResourceVersion
}

// TestEditAHeldInstallation edits values twice, the first time as wrongly as
// before: each time another revision takes the place of the held one, what was
// ready is passed, and the record says what was really applied. Values that do not
// render leave everything as it was (R46, R50).
func TestEditAHeldInstallation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(editable(t), func(i *Install) {
		i.HoldOnFailure, i.ReadinessTimeout, i.Values = true, soonOver, map[string]any{"image": wrongImage}
	}))
	if err != nil {
		t.Fatal(err)
	}
	before := ""
	out := r.run(op, r.edits(op,
		func() event.Command {
			if _, err := op.Edit(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "which image?") {
				t.Errorf("an edit without an image: %v", err)
			}
			r.assertHistory("1 pending-install")
			before = r.version("a")
			return r.edited(op, map[string]any{"image": wrongImage + "2", "password": "tricky-1"}, func(e *Edited) {
				changes, err := e.Changes()
				if err != nil || len(changes) != 1 || changes[0].Object.Name != "web" || !strings.Contains(changes[0].Diff, "+") || e.Info().Revision != 2 {
					t.Errorf("it would do %+v in revision %d: %v", changes, e.Info().Revision, err)
				}
			})()
		},
		func() event.Command { return event.Command{Name: event.Edit, Values: "image: " + rightImage} }))
	if out.err != nil || out.state.Exit != 0 || out.state.Operation.Revision != 3 || out.state.Operation.Name != "install" {
		t.Fatalf("exit %d, %+v: %v", out.state.Exit, out.state.Operation, out.err)
	}
	r.assertHistory("1 failed", "2 failed", "3 deployed")
	r.assertValues("map[image:" + rightImage + " password:tricky-1]")
	if g := out.state.Find(helmclient.PhaseApply, "edge:base"); g.Status != event.Ready || g.Message != "unchanged" || r.version("a") != before {
		t.Errorf("what was ready is %s (%s), at version %s after %s", g.Status, g.Message, r.version("a"), before)
	}
	if !slices.Equal(r.configMaps(r.namespace), []string{"a", "last"}) {
		t.Errorf("there are %v", r.configMaps(r.namespace))
	}
	for _, e := range out.events {
		if strings.Contains(e.Message, "tricky-1") {
			t.Errorf("a secret value is told: %+v", e)
		}
	}
	values, err := op.Values(false)
	if err != nil || values["image"] != rightImage {
		t.Errorf("the values under way are %v, %v", values, err)
	}
}

// TestEditAnUpgrade also takes away what only the replaced revision has brought
// (R46, R32a).
func TestEditAnUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("plain", use(editable(t), func(i *Install) { i.Values = map[string]any{"image": "example/app:1.0"} }))
	op, err := r.upgrade("plain", useUp(editable(t), func(u *Upgrade) {
		u.HoldOnFailure, u.ReadinessTimeout, u.Values = true, soonOver, map[string]any{"image": wrongImage, "extra": true}
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, r.edits(op, r.edited(op, map[string]any{"image": rightImage}, func(e *Edited) {
		changes, err := e.Changes()
		if err != nil || len(changes) != 2 || changes[1].Object.Name != "extra" || changes[1].Action != ActionDelete {
			t.Errorf("it would do %+v: %v", changes, err)
		}
	})))
	if out.err != nil || out.state.Exit != 0 {
		t.Fatalf("exit %d: %v", out.state.Exit, out.err)
	}
	r.assertHistory("1 superseded", "2 failed", "3 deployed")
	r.assertValues("map[image:" + rightImage + "]")
	if !slices.Equal(r.configMaps(r.namespace), []string{"a", "last"}) {
		t.Errorf("there are %v", r.configMaps(r.namespace))
	}
}

// TestRollBackAfterAnEdit goes back to what was deployed before, not to the
// revision that was edited (R33, R46).
func TestRollBackAfterAnEdit(t *testing.T) {
	rollback := func() event.Command { return event.Command{Name: event.Rollback} }
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.deploy("plain", use(editable(t), func(i *Install) { i.Values = map[string]any{"image": "example/app:1.0"} }))
		op, err := r.upgrade("plain", useUp(editable(t), func(u *Upgrade) {
			u.HoldOnFailure, u.ReadinessTimeout, u.Values = true, soonOver, map[string]any{"image": wrongImage}
		}))
		if err != nil {
			t.Fatal(err)
		}
		out := r.run(op, r.edits(op, r.edited(op, map[string]any{"image": wrongImage, "extra": true}, nil), rollback))
		if out.state.Exit != 3 || out.state.Release != "deployed" {
			t.Errorf("exit %d, the release is %s: %s", out.state.Exit, out.state.Release, out.state.Message)
		}
		r.assertHistory("1 superseded", "2 failed", "3 failed", "4 deployed")
		r.assertValues("map[image:example/app:1.0]")
		if !slices.Equal(r.configMaps(r.namespace), []string{"a", "last"}) {
			t.Errorf("there are %v", r.configMaps(r.namespace))
		}
	})
	t.Run("install", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		op, err := r.install("plain", use(editable(t), func(i *Install) {
			i.HoldOnFailure, i.ReadinessTimeout, i.Values = true, soonOver, map[string]any{"image": wrongImage}
		}))
		if err != nil {
			t.Fatal(err)
		}
		out := r.run(op, r.edits(op, r.edited(op, map[string]any{"image": wrongImage, "extra": true}, nil), rollback))
		if out.state.Exit != 3 || out.state.Release != event.NoRelease || len(r.configMaps(r.namespace)) > 0 {
			t.Errorf("exit %d, the release is %s: %s; there are %v", out.state.Exit, out.state.Release, out.state.Message, r.configMaps(r.namespace))
		}
	})
}

// TestEditBeforeTheFirstWrite replaces a revision that was never made, and stays
// paused until it is told to go on (R46, R41).
func TestEditBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(editable(t), func(i *Install) { i.Step, i.Values = true, map[string]any{"image": wrongImage} }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, r.edits(op, r.edited(op, map[string]any{"image": rightImage}, nil), func() event.Command {
		if writes := r.audit(); len(writes) > 0 && r.status() != "" {
			t.Errorf("before anything may start there is %v", writes)
		}
		return event.Command{Name: event.Resume}
	}))
	if out.err != nil || out.state.Exit != 0 {
		t.Fatalf("exit %d: %v", out.state.Exit, out.err)
	}
	r.assertHistory("1 deployed")
	r.assertValues("map[image:" + rightImage + "]")
	if op, err = r.uninstall(); err != nil || op.Editable() == nil {
		t.Errorf("an uninstallation can be edited: %v", err)
	}
}
