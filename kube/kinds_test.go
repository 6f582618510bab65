package kube

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestKindThatNothingBrings refuses, before anything is written, an object of a
// kind that the cluster does not know and that nothing before its group can
// bring, and takes it where something can: a CRD of the chart that is not after
// it, a workload in a hook or an earlier group, or an object that an operator
// may act on (R29).
func TestKindThatNothingBrings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gears := lateKind{"Gear", "gears", "Namespaced", r.namespace + ".example"}
	others := lateKind{"Other", "others", "Namespaced", r.namespace + ".example"}
	gear := func(annotations map[string]string) string {
		return object(gears.api+"/v1/Gear/g", annotations, "spec: {size: x}")
	}
	hook := func(event string) map[string]string { return map[string]string{"helm.sh/hook": event} }
	tests := map[string]struct {
		files   files
		docs    []string
		refused bool
	}{
		"one group":                {docs: []string{gear(nil), configMap("a", nil)}, refused: true},
		"workload beside it":       {docs: []string{gear(nil), deployment("operator", nil, "0s")}, refused: true},
		"earlier group of no use":  {docs: []string{gear(group("b", "a")), configMap("a", group("a"))}, refused: true},
		"hook of no use":           {docs: []string{gear(nil), configMap("hook", hook("pre-install"))}, refused: true},
		"hook that comes after":    {docs: []string{gear(nil), job("hook", hook("post-install"), "0s")}, refused: true},
		"group that comes after":   {docs: []string{gear(group("a")), deployment("operator", group("b", "a"), "0s")}, refused: true},
		"group beside it":          {docs: []string{gear(group("b", "a")), configMap("a", group("a")), deployment("operator", group("c", "a"), "0s")}, refused: true},
		"another CRD in crds":      {files: files{"crds/other.yaml": others.crd(nil)}, docs: []string{gear(nil)}, refused: true},
		"CRD in a group after it":  {docs: []string{gear(group("a")), gears.crd(group("b", "a"))}, refused: true},
		"CRD in a hook after it":   {docs: []string{gear(nil), gears.crd(hook("post-install"))}, refused: true},
		"CRD in crds":              {files: files{"crds/gear.yaml": gears.crd(nil)}, docs: []string{gear(nil)}},
		"CRD in its group":         {docs: []string{gear(nil), gears.crd(nil)}},
		"CRD in an earlier group":  {docs: []string{gear(group("b", "a")), gears.crd(group("a"))}},
		"CRD in a hook":            {docs: []string{gear(nil), gears.crd(hook("pre-install"))}},
		"workload in a hook":       {docs: []string{gear(nil), job("hook", hook("pre-install"), "0s")}},
		"workload in a group":      {docs: []string{gear(group("b", "a")), deployment("operator", group("a"), "0s")}},
		"workload two groups away": {docs: []string{gear(group("c", "b")), configMap("b", group("b", "a")), deployment("operator", group("a"), "0s")}},
		"for an operator": {files: files{"crds/other.yaml": others.crd(nil)},
			docs: []string{gear(group("b", "a")), object(others.api+"/v1/Other/o", group("a"), "spec: {install: gears}")}},
	}
	for name, tt := range tests {
		for _, wait := range []string{"ordered", "watcher"} {
			if wait != "ordered" && !strings.HasPrefix(name, "one") && !strings.HasPrefix(name, "hook") && !strings.HasSuffix(name, "hook") && !strings.HasSuffix(name, "crds") {
				continue // with another strategy there is but one group
			}
			t.Run(name+"-"+wait, func(t *testing.T) {
				fs := files(adding(tt.files, "templates/all.yaml", strings.Join(tt.docs, "\n---\n")))
				op, err := r.install("plain", use(makeChart(t, fs), func(i *Install) { i.Wait, i.Namespace, i.CreateNamespace = wait, r.namespace+"-new", true }))
				if tt.refused {
					if err == nil || !strings.Contains(err.Error(), "edge: Gear/g: the cluster does not know the kind Gear ("+gears.api+"/v1), and neither a CRD of the chart nor anything before its group can bring it") {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				told := slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool { return w.Rule == "R29" && strings.Contains(w.Message, "Gear/g") })
				if sure := strings.HasPrefix(name, "CRD"); told == sure {
					t.Errorf("warnings %v", op.Warnings())
				}
			})
		}
	}
	if w := r.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}
