package order

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
	"lockstep/kube/readiness"
)

// waitingChart returns a chart with an object that waits for nothing, one whose group waits for objects outside the release,
// and one whose group waits for that.
func waitingChart(t *testing.T, version string, outside ...string) *charts.Chart {
	gated := rig.Group("b", "a")
	list, _ := json.Marshal(outside)
	gated[plan.AnnotationWaitFor] = string(list)
	data := "version: " + version
	return rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a"), data), rig.ConfigMap("gated", gated, data), rig.ConfigMap("last", rig.Group("c", "b"), data))
}

// createSecret creates a Secret outside the release.
func createSecret(r *rig.Rig, name string) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := r.Cluster.CoreV1().Secrets(r.Namespace).Create(r.T.Context(), secret, metav1.CreateOptions{}); err != nil {
		r.T.Error(err)
	}
}

// missing reports whether an event says that an object outside the release is not there.
func missing(e event.Event, name string) bool {
	return e.Kind == event.KindObject && e.Outside && e.Object.Name == name && strings.Contains(e.Message, "not in the cluster")
}

// TestGroupWaitsForObjectsOutsideTheRelease: a group is applied after a Secret that somebody creates later, and a Deployment
// of another release in another namespace is ready; an upgrade waits likewise, and a rollback for what its target says (R22d).
func TestGroupWaitsForObjectsOutsideTheRelease(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	other := rig.NewNamed(t, r.Namespace+"-other")
	chart := waitingChart(t, "v1", "Secret/tls", "Deployment/"+other.Namespace+"/api")
	op := r.Must(r.Install("plain", rig.UseChart(chart, nil)))
	deployed := make(chan rig.Outcome, 1)
	out := r.Run(op, func(e event.Event) {
		switch {
		case missing(e, "tls"):
			createSecret(r, "tls")
		case missing(e, "api"):
			go func() {
				op, err := other.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("api", nil, "500ms")), nil))
				if err != nil {
					t.Error(err)
					close(deployed)
					return
				}
				deployed <- other.Run(op, nil)
			}()
		}
	})
	if <-deployed; out.Err != nil {
		t.Fatal(out.Err)
	}
	tl := r.Timeline("lockstep")
	gated, _ := tl.FirstWrite(t, []string{"ConfigMap/gated"})
	first, _ := tl.FirstWrite(t, []string{"ConfigMap/first"})
	created := tl.Of(t, "Secret/tls")[0].Received
	ready, _ := other.Timeline("lockstep").Ready(t, []string{"Deployment/api"})
	if !first.Before(created) || gated.Before(created) || gated.Before(ready) {
		t.Errorf("first was written at %s, Secret/tls at %s, api was ready at %s, gated was written at %s", first, created, ready, gated)
	}
	g := out.State.Find(helmclient.PhaseApply, "edge:b")
	if len(g.Outside) != 2 || len(g.Objects) != 1 || g.Done != 1 || slices.ContainsFunc(g.Outside, func(o *event.ObjectState) bool { return o.Status != event.Ready }) {
		t.Errorf("group %+v", g)
	}
	for _, e := range out.Events {
		if e.Outside && !e.Time.Before(g.Started) && e.Status != event.Ready {
			t.Errorf("after the start: %+v", e)
		}
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(waitingChart(t, "v2", "Secret/tls"), nil)))

	if err := r.Cluster.CoreV1().Secrets(r.Namespace).Delete(t.Context(), "tls", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	op = r.Must(r.Rollback(1))
	waited := false
	if out = r.Run(op, func(e event.Event) {
		if missing(e, "tls") {
			waited = true
			createSecret(r, "tls")
		}
	}); out.Err != nil || !waited {
		t.Errorf("rollback: %v, waited %t", out.Err, waited)
	}
	if err := r.Cluster.CoreV1().Secrets(r.Namespace).Delete(t.Context(), "tls", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Uninstall())
}

// TestObjectOutsideTheReleaseNeverAppears: the group fails with the cause, and neither it nor what waits for it is applied; with
// the operator's word, the run does not wait (R22d, R22b).
func TestObjectOutsideTheReleaseNeverAppears(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := waitingChart(t, "v1", "Secret/tls", "Widget.unknown.example/it")
	op, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.ReadinessTimeout = 3 * time.Second }))
	out := r.MustFail(op, err, "edge:b: ", "3s (--readiness-timeout)")
	for _, name := range []string{"gated", "last"} {
		if n := r.WriteCount("configmaps", name); n > 0 {
			t.Errorf("%s was written %d times", name, n)
		}
	}
	messages := map[string]string{}
	for _, o := range out.State.Find(helmclient.PhaseApply, "edge:b").Outside {
		messages[o.Object.Name] = o.Message
	}
	if messages["tls"] != "not in the cluster" || messages["it"] != "the cluster has no kind Widget in API group unknown.example" {
		t.Errorf("messages %v", messages)
	}
	var never []kube.Readiness
	for _, value := range []string{"Secret/tls", "Widget.unknown.example"} {
		o, err := readiness.ParseNoWait(value)
		if err != nil {
			t.Fatal(err)
		}
		never = append(never, o)
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Readiness = never })))
}

// TestCustomResourceOutsideTheRelease: the kind of the object comes with another release, and its controller must have spoken
// (R22d, R22a).
func TestCustomResourceOutsideTheRelease(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	other, api := rig.NewNamed(t, r.Namespace+"-other"), r.Namespace+".example"
	op, err := r.Install("plain", rig.UseChart(waitingChart(t, "v1", "Thing."+api+"/"+other.Namespace+"/it"), func(i *kube.Deploy) {
		i.Readiness = overrides(t, "Thing."+api+"={.phase} == Up")
	}))
	if err != nil {
		t.Fatal(err)
	}
	deployed, started := make(chan error, 1), false
	out := r.Run(op, func(e event.Event) {
		if e.Outside && strings.Contains(e.Message, "has no kind Thing") && !started {
			started = true
			go func() {
				op, err := other.Install("plain", rig.UseChart(phasedChart(t, api, "1"), func(i *kube.Deploy) { i.Readiness = overrides(t, "Thing={.phase} == Up") }))
				if err == nil {
					err = other.Run(op, nil).Err
				}
				deployed <- err
			}()
		}
	})
	if !started {
		t.Fatal("the run did not say that the kind is missing")
	}
	if err := <-deployed; err != nil || out.Err != nil {
		t.Fatal(err, out.Err)
	}
	gated, _ := r.Timeline("lockstep").FirstWrite(t, []string{"ConfigMap/gated"})
	if spoke := other.Timeline("lockstep").LastStatus(t, "Thing/it"); gated.Before(spoke) {
		t.Errorf("gated was written at %s, before the controller spoke at %s", gated, spoke)
	}
	if o := out.State.Find(helmclient.PhaseApply, "edge:b").Outside[0]; o.ReadyBy != event.ByOperator {
		t.Errorf("ready by %q", o.ReadyBy)
	}
}

// TestOutsideObjectIsRefused: a name that cannot be read, and an object of the release itself, stop the operation before its
// first write (R22d).
func TestOutsideObjectIsRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for name, want := range map[string]string{"Secret": "is not an object", "ConfigMap/last": "which is part of this release", "Thing/a": "the API group of Thing is missing"} {
		start := time.Now()
		_, err := r.Install("plain", rig.UseChart(waitingChart(t, "v1", name), nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
		if w := r.WrittenSince(start); len(w) > 0 {
			t.Errorf("%s: wrote %v", name, w)
		}
	}
}

// TestFirstGroupsWaitForWhatTheOperatorNames: --wait-for holds the groups that wait for no other group; a name that cannot be
// read, or another value of --wait, is refused before anything is written (R22d).
func TestFirstGroupsWaitForWhatTheOperatorNames(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.ConfigMap("first", rig.Group("a")), rig.ConfigMap("last", rig.Group("b", "a")))
	prepare := func(wait string, names ...string) (*kube.Operation, error) {
		return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Wait, i.WaitFor = wait, names }))
	}
	for want, in := range map[string][]string{"--wait-for: 'tls' is not an object": {"", "tls"}, "needs --wait=ordered": {"watcher", "Secret/tls"}, "is part of it": {"", "ConfigMap/last"}} {
		if _, err := prepare(in[0], in[1:]...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", in, err, want)
		}
	}
	op := r.Must(prepare("", "Secret/tls"))
	out := r.Run(op, func(e event.Event) {
		if missing(e, "tls") {
			createSecret(r, "tls")
		}
	})
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	tl := r.Timeline("lockstep")
	first, _ := tl.FirstWrite(t, []string{"ConfigMap/first"})
	if created := tl.Of(t, "Secret/tls")[0].Received; first.Before(created) {
		t.Errorf("first was written at %s, before Secret/tls at %s", first, created)
	}
	if a, b := out.State.Find(helmclient.PhaseApply, "edge:a"), out.State.Find(helmclient.PhaseApply, "edge:b"); len(a.WaitFor) != 1 || len(b.WaitFor) != 0 {
		t.Errorf("a waits for %v, b for %v", a.WaitFor, b.WaitFor)
	}
}
