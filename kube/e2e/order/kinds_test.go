package order

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestUndefinedKind: an object of an unknown kind is refused before the first write if
// nothing before its group can define the kind. It is accepted if something can: a CRD of the
// chart that is not after it, a workload in a hook or an earlier group, or an object for which
// an operator may define kinds (R29). An inferred order does not count.
func TestUndefinedKind(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	gears := rig.LateKind{Kind: "Gear", Plural: "gears", Scope: "Namespaced", API: r.Namespace + ".example"}
	others := rig.LateKind{Kind: "Other", Plural: "others", Scope: "Namespaced", API: r.Namespace + ".example"}
	gear := func(annotations map[string]string) string {
		return rig.Object(gears.API+"/v1/Gear/g", annotations, "spec: {size: x}")
	}
	hook := func(event string) map[string]string { return map[string]string{"helm.sh/hook": event} }
	tests := map[string]struct {
		files   rig.Files
		docs    []string
		refused bool
		order   string
	}{
		"one group":                {docs: []string{gear(nil), rig.ConfigMap("a", nil)}, refused: true},
		"workload beside it":       {docs: []string{gear(nil), rig.Deployment("operator", nil, "0s")}, refused: true},
		"unrelated earlier group":  {docs: []string{gear(rig.Group("b", "a")), rig.ConfigMap("a", rig.Group("a"))}, refused: true},
		"unrelated hook":           {docs: []string{gear(nil), rig.ConfigMap("hook", hook("pre-install"))}, refused: true},
		"later hook":               {docs: []string{gear(nil), rig.Job("hook", hook("post-install"), "0s")}, refused: true},
		"later group":              {docs: []string{gear(rig.Group("a")), rig.Deployment("operator", rig.Group("b", "a"), "0s")}, refused: true},
		"group beside it":          {docs: []string{gear(rig.Group("b", "a")), rig.ConfigMap("a", rig.Group("a")), rig.Deployment("operator", rig.Group("c", "a"), "0s")}, refused: true},
		"another CRD in crds":      {files: rig.Files{"crds/other.yaml": others.CRD(nil)}, docs: []string{gear(nil)}, refused: true},
		"CRD in a group after it":  {docs: []string{gear(rig.Group("a")), gears.CRD(rig.Group("b", "a"))}, refused: true},
		"CRD in a hook after it":   {docs: []string{gear(nil), gears.CRD(hook("post-install"))}, refused: true},
		"CRD in crds":              {files: rig.Files{"crds/gear.yaml": gears.CRD(nil)}, docs: []string{gear(nil)}},
		"CRD in its group":         {docs: []string{gear(nil), gears.CRD(nil)}},
		"CRD in an earlier group":  {docs: []string{gear(rig.Group("b", "a")), gears.CRD(rig.Group("a"))}},
		"CRD in a hook":            {docs: []string{gear(nil), gears.CRD(hook("pre-install"))}},
		"workload in a hook":       {docs: []string{gear(nil), rig.Job("hook", hook("pre-install"), "0s")}, refused: true},
		"CR in a hook":             {files: rig.Files{"crds/other.yaml": others.CRD(nil)}, docs: []string{gear(nil), rig.Object(others.API+"/v1/Other/o", hook("pre-install"), "spec: {install: gears}")}, refused: true},
		"workload in a group":      {docs: []string{gear(rig.Group("b", "a")), rig.Deployment("operator", rig.Group("a"), "0s")}},
		"workload two groups away": {docs: []string{gear(rig.Group("c", "b")), rig.ConfigMap("b", rig.Group("b", "a")), rig.Deployment("operator", rig.Group("a"), "0s")}},
		"workload that it calls": {refused: true, order: kube.OrderInferred, docs: []string{rig.Object("v1/Service/operator", nil, "spec: {selector: {app: operator}, ports: [{port: 80}]}"),
			rig.Object(gears.API+"/v1/Gear/g", nil, "spec: {containers: [{env: [{name: URL, value: 'http://operator'}]}]}"), rig.Deployment("operator", nil, "0s")}},
		"for an operator": {files: rig.Files{"crds/other.yaml": others.CRD(nil)},
			docs: []string{gear(rig.Group("b", "a")), rig.Object(others.API+"/v1/Other/o", rig.Group("a"), "spec: {install: gears}")}},
	}
	for name, tt := range tests {
		for _, wait := range []string{"ordered", "watcher"} {
			if wait != "ordered" && !strings.HasPrefix(name, "one") && !strings.HasPrefix(name, "hook") && !strings.HasSuffix(name, "hook") && !strings.HasSuffix(name, "crds") {
				continue // with another strategy there is only one group
			}
			t.Run(name+"-"+wait, func(t *testing.T) {
				fs := rig.Files(rig.WithFile(tt.files, "templates/all.yaml", strings.Join(tt.docs, "\n---\n")))
				op, err := r.Install("plain", rig.UseChart(rig.MakeChart(t, fs), func(i *kube.Deploy) {
					i.Wait, i.Order, i.Namespace, i.CreateNamespace = wait, tt.order, r.Namespace+"-new", true
				}))
				if tt.refused {
					if err == nil || !strings.Contains(err.Error(), "edge: Gear/g: the cluster has no kind Gear ("+gears.API+"/v1), and no earlier group of the chart can define it") {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				warned := slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Rule == "R29" && strings.Contains(w.Message, "Gear/g") })
				if sure := strings.HasPrefix(name, "CRD"); warned == sure {
					t.Errorf("warnings %v", op.Warnings())
				}
			})
		}
	}
	if w := r.Writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}
