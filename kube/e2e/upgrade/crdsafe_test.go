package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
)

// TestCRDUpgradeThatLosesObjects: crds/ are not upgraded if existing objects would be invalid, or if another release owns the CRD.
// The plan says what they lose (R29a).
func TestCRDUpgradeThatLosesObjects(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	group := r.Namespace + ".example"
	with := func(crd string, change func(*kube.Deploy)) func(*kube.Deploy) {
		return rig.UseChart(rig.MakeChart(t, rig.Files{"crds/gears.yaml": crd, "templates/a.yaml": rig.ConfigMap("a", nil)}), func(u *kube.Deploy) {
			if u.CRDs = kube.CRDsUpgrade; change != nil {
				change(u)
			}
		})
	}
	r.MustRun(r.Install("plain", with(crdText(group, "v1"), nil)))
	for _, name := range []string{"one", "two"} {
		r.Create(rig.Object(group+"/v1/Gear/"+name, nil, "spec: {size: x}"))
	}
	stricter := strings.Replace(crdText(group, "v1"), "size: {type: string}", "size: {type: integer}", 1)
	start := time.Now()
	_, err := r.Upgrade("plain", with(stricter, nil))
	r.MustRefuse(start, err, "CustomResourceDefinition/gears."+group+": 2 of its 2 objects would be invalid under the new schema of v1: ", r.Namespace+"/one: spec.size must be of type integer")
	_, changes := r.Changes(r.Upgrade("plain", with(stricter, func(u *kube.Deploy) { u.PlanOnly = true })))
	if c := changes["CustomResourceDefinition/gears."+group]; c.Action != inspect.Refuse || !strings.Contains(c.Message, "2 of its 2 objects") {
		t.Errorf("the plan says %s %q", c.Action, c.Message)
	}
	_, err = r.Upgrade("plain", with(stricter, func(u *kube.Deploy) { u.CRDs = kube.CRDsCreate }))
	if err != nil {
		t.Errorf("--crds=create: %v", err)
	}
	_, err = r.Upgrade("plain", with(stricter, func(u *kube.Deploy) { u.CRDs = "some" }))
	if err == nil || !strings.Contains(err.Error(), "--crds=some is unknown: use create, upgrade or skip") {
		t.Errorf("--crds=some: %v", err)
	}
	wider := strings.Replace(crdText(group, "v1"), "properties: {size: {type: string}}", "required: [mode], properties: {mode: {type: string, default: fast}, size: {type: string, x-kubernetes-validations: [{rule: \"self != ''\"}]}}", 1)
	out := r.MustRun(r.Upgrade("plain", with(wider, nil)))
	if !out.HasWarning("R29a", "its 2 objects passed the new schema of v1, but its rules (x-kubernetes-validations) were not tried") {
		t.Errorf("warnings: %v", out.State.Warnings)
	}
	r.Create(rig.Object(group+"/v1/Gear/three", nil, "spec: {size: x, mode: slow}"))
	op, err := r.Upgrade("plain", with(crdText(group, "v1"), nil))
	if !slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool {
		return strings.HasSuffix(w.Message, "fields that the new schema of v1 lacks are lost in 1 of its 3 objects: "+r.Namespace+"/three: spec.mode")
	}) {
		t.Errorf("warnings: %v", op.Warnings())
	}
	_, changes = r.Changes(op, err)
	if c := changes["CustomResourceDefinition/gears."+group]; c.Action != inspect.Modify || !strings.Contains(c.Message, "removes field spec.mode of v1") {
		t.Errorf("the plan says %s %q", c.Action, c.Message)
	}

	other := rig.New(t)
	owner := other.Namespace + ".example"
	other.MustRun(other.Install("plain", rig.UseChart(rig.ChartOf(t, crdText(owner, "v1")), nil)))
	next := rig.UseChart(rig.MakeChart(t, rig.Files{"crds/gears.yaml": crdText(owner, "v1", "v2"), "templates/a.yaml": rig.ConfigMap("b", nil)}), func(u *kube.Deploy) {
		u.Release, u.CRDs = "second", kube.CRDsUpgrade
	})
	start = time.Now()
	_, err = other.Install("plain", next)
	other.MustRefuse(start, err, "it belongs to release t in namespace "+other.Namespace)
}

// TestTemplateCRDThatLosesValues: a CRD among the templates is applied as it is, and a warning names the objects that lose values (R29a).
func TestTemplateCRDThatLosesValues(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	group := r.Namespace + ".example"
	wider := strings.Replace(crdText(group, "v1"), "size: {type: string}", "size: {type: string}, mode: {type: string}", 1)
	r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, wider), nil)))
	r.Create(rig.Object(group+"/v1/Gear/one", nil, "spec: {size: x, mode: slow}"))
	reads := func(crd string) int {
		return readsOfCRDs(r, group, func() { r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, crd, rig.ConfigMap("more", nil)), nil)) })
	}
	if same, other := reads(wider), reads(crdText(group, "v1")); same >= other {
		t.Errorf("an upgrade reads a CRD %d times that it does not change, and %d times one that it does", same, other)
	}
	out := r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, crdText(group, "v1")), nil)))
	if !out.HasWarning("R29a", "fields that the new schema of v1 lacks are lost in 1 of its 1 object: "+r.Namespace+"/one: spec.mode") {
		t.Errorf("warnings: %v", out.State.Warnings)
	}
	op, err := r.Rollback(1)
	if err != nil || slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Rule == "R29a" }) {
		t.Errorf("rollback to the wider schema: %v, warnings %v", err, op.Warnings())
	}
}

// readsOfCRDs counts how often do reads CRDs of an API group, or their metadata.
func readsOfCRDs(r *rig.Rig, group string, do func()) int {
	r.T.Helper()
	start := time.Now()
	do()
	log := r.Log()
	return len(log.UserAgent("lockstep").Where(func(e auditlog.Event) bool {
		return e.Verb == "get" && e.Object.Resource == "customresourcedefinitions" && strings.HasSuffix(e.Object.Name, "."+group) &&
			e.Stage == auditlog.ResponseComplete && e.Received.After(start)
	}))
}

// TestDeleteCRDs: a removed CRD stays while others have objects of its kind, with a warning, and --delete-crds deletes it with all
// of them (R31b).
func TestDeleteCRDs(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	k := rig.LateKinds(r.Namespace + ".example")[0]
	name := "CustomResourceDefinition/" + k.Plural + "." + k.API
	counted := "it has 1 object in 1 namespace: " + r.Namespace + "/theirs"
	plain := rig.ChartOf(t, rig.ConfigMap("a", nil))
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), k.CRD(nil)), nil))
	r.Create(rig.Object(k.API+"/v1/"+k.Kind+"/theirs", nil, "spec: {size: x}"))
	op, err := r.Upgrade("plain", rig.UseChart(plain, nil))
	_, changes := r.Changes(op, err)
	if c := changes[name]; c.Action != inspect.Keep || c.Message != counted {
		t.Errorf("the plan says %s %q", c.Action, c.Message)
	}
	out := r.MustRun(op, nil)
	if !out.HasWarning("R31b", name+" stays: "+counted+"; --delete-crds deletes it with all of them") || out.State.Changes().Kept != 1 {
		t.Errorf("kept %d, warnings: %v", out.State.Changes().Kept, out.State.Warnings)
	}
	r.MustRun(r.Rollback(1))
	rb := kube.Rollback{Common: r.Common(), Revision: 2}
	rb.DeleteCRDs = true
	op, err = r.Client.PrepareRollback(t.Context(), rb)
	_, changes = r.Changes(op, err)
	if c := changes[name]; c.Action != inspect.Delete {
		t.Errorf("the plan with --delete-crds says %s %q", c.Action, c.Message)
	}
	out = r.MustRun(op, nil)
	if !out.HasWarning("R31b", name+" is deleted with all its objects (--delete-crds): "+counted) {
		t.Errorf("warnings: %v", out.State.Warnings)
	}
	if deleted := out.State.Changed()[event.Deleted]; len(deleted) != 1 || deleted[0].String() != name {
		t.Errorf("deleted %v", deleted)
	}
}
