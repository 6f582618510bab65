package install

import (
	"maps"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmclient"
)

// spokenChart returns a chart with a group of custom resources, whose controller does as annotations of the sandbox say, and
// a group that waits for them. Their CRD is in crds/ or, if late is set, a template.
func spokenChart(t *testing.T, api string, late bool, size string, controller map[string]string, names ...string) *charts.Chart {
	crd := func(annotations map[string]string) string {
		return rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+api, annotations, "spec:", "  group: "+api, "  scope: Namespaced",
			"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}",
			"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]")
	}
	files, group := rig.Files{}, rig.Group("a")
	docs := []string{rig.ConfigMap("after", rig.Group("b", "a"), "size: s"+size)}
	if late {
		docs, group = append(docs, crd(rig.Group("kinds"))), rig.Group("a", "kinds")
	} else {
		files["crds/things.yaml"] = crd(nil)
	}
	maps.Copy(group, controller)
	for _, name := range names {
		docs = append(docs, rig.Object(api+"/v1/Thing/"+name, group, "spec: {size: "+size+"}"))
	}
	files["templates/all.yaml"] = strings.Join(docs, "\n---\n")
	return rig.MakeChart(t, files)
}

// assertSpoken expects that a group that waits for Thing/it started after the last write of its status, that the rule by
// which it is ready is named, and that the outcome counts the objects whose controllers said nothing.
func assertSpoken(r *rig.Rig, out rig.Outcome, since time.Time, by event.Judge, noStatus int) {
	r.T.Helper()
	tl := r.Timeline("lockstep").Since(since)
	after, _ := tl.FirstWrite(r.T, []string{"ConfigMap/after"})
	if spoke := tl.LastStatus(r.T, "Thing/it"); by != event.ByNoStatus && after.Before(spoke) {
		r.T.Errorf("after was written at %s, before the status of Thing/it at %s", rig.Clock(after), rig.Clock(spoke))
		tl.Dump(r.T)
	}
	for _, o := range out.State.Find(helmclient.PhaseApply, "edge:a").Objects {
		if o.Object.Kind == "Thing" && (o.Status != event.Ready || o.ReadyBy != by) {
			r.T.Errorf("%s is %s by %q (%s), want ready by %q", o.Object, o.Status, o.ReadyBy, o.Message, by)
		}
	}
	warned := 0
	for _, w := range out.State.Warnings {
		if w.Rule == "R22a" && strings.Contains(w.Message, "--first-status-timeout") && strings.Contains(w.Message, "Thing") && strings.Contains(w.Message, plan.AnnotationReadinessSuccess) {
			warned++
		}
	}
	if out.State.NoStatus != noStatus || warned != min(noStatus, 1) || (out.State.Ending() == event.Succeeded) != (noStatus == 0) ||
		strings.Contains(out.State.Outcome, "whose controller said nothing") != (noStatus > 0) {
		r.T.Errorf("%d objects without a status, %d warnings, shown as %s: %q; want %d objects", out.State.NoStatus, warned, out.State.Ending(), out.State.Outcome, noStatus)
	}
}

// TestFirstStatus installs custom resources whose controllers write their status as real ones do: late, without a
// generation, with one as text, with conditions of other names, or not at all (R22a).
func TestFirstStatus(t *testing.T) {
	t.Parallel()
	controller := func(generation, status string) map[string]string {
		m := map[string]string{"sandbox/ready-after": "2s", "sandbox/observed-generation": generation}
		if status != "" {
			m["sandbox/status"] = status
		}
		return m
	}
	for name, c := range map[string]struct {
		controller map[string]string
		late       bool
		limit      time.Duration
		by         event.Judge
		noStatus   int
		unreadable bool
	}{
		"a phase":            {controller: controller("none", `{"phase":"Up"}`), by: event.ByFirstStatus},
		"other conditions":   {controller: controller("none", `{"conditions":[{"type":"Synced","status":"True"}]}`), by: event.ByFirstStatus},
		"not ready at first": {controller: controller("none", ""), by: event.ByKstatus},
		"text":               {controller: controller("string", ""), by: event.ByKstatus},
		"a hash":             {controller: controller("hash", ""), by: event.ByKstatus, unreadable: true},
		"a late kind":        {controller: controller("none", `{"phase":"Up"}`), late: true, by: event.ByFirstStatus},
		"nobody":             {limit: time.Second, by: event.ByNoStatus, noStatus: 2},
		"nobody, not waited": {limit: -1, by: event.ByNoStatus, noStatus: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			start := time.Now()
			out := r.Deploy("plain", rig.UseChart(spokenChart(t, r.Namespace+".example", c.late, "1", c.controller, "it", "other"), func(i *kube.Deploy) {
				if i.FirstStatusTimeout = c.limit; c.limit == 0 { // longer than the controller takes on a slow machine
					i.FirstStatusTimeout = time.Minute
				}
			}))
			assertSpoken(r, out, start, c.by, c.noStatus)
			if got := out.HasWarning("R22a", "cannot be read", "observedGeneration", plan.AnnotationReadinessSuccess); got != c.unreadable {
				t.Errorf("warned of an unreadable status: %t, want %t", got, c.unreadable)
			}
		})
	}
}

// TestFirstStatusOfAnUpgrade upgrades custom resources without an observedGeneration whose old status says ready (R22a).
func TestFirstStatusOfAnUpgrade(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	upgrade := func(size, status, label string, limit time.Duration, by event.Judge, noStatus int) {
		t.Helper()
		start := time.Now()
		controller := map[string]string{"sandbox/ready-after": "2s", "sandbox/observed-generation": "none", "sandbox/status": status, "example.com/label": label}
		op, err := r.Upgrade("plain", rig.UseChart(spokenChart(t, r.Namespace+".example", false, size, controller, "it"), func(u *kube.Deploy) {
			u.Install, u.FirstStatusTimeout = true, limit
		}))
		out := r.MustRun(op, err)
		assertSpoken(r, out, start, by, noStatus)
	}
	const ready = `{"conditions":[{"type":"Ready","status":"True","message":"%"}]}`
	one, two := strings.ReplaceAll(ready, "%", "one"), strings.ReplaceAll(ready, "%", "two")
	upgrade("1", one, "a", time.Minute, event.ByKstatus, 0)
	upgrade("2", two, "a", time.Minute, event.ByKstatus, 0)  // the controller writes a new status
	upgrade("3", two, "a", time.Second, event.ByNoStatus, 1) // it has nothing to write
	upgrade("3", two, "b", time.Minute, event.ByKstatus, 0)  // only metadata changes: the status is still about this generation
	upgrade("3", two, "b", time.Minute, event.ByKstatus, 0)  // nothing changes
}
