package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/inspect"
	"lockstep/kube/e2e/rig"
)

// TestOtherVersion: an upgrade adds a version to a CRD of its chart and writes the custom resources in it. The preview looks for
// them in the version that the cluster serves: what exists is changed, what does not is created.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	group := r.Namespace + ".example.com"
	chart := func(version string, objects ...string) []string {
		served := ""
		for n, v := range []string{"v1", "v2"} {
			if v <= version {
				served += fmt.Sprintf("\n  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}", v, n == 0)
			}
		}
		docs := []string{rig.Object("apiextensions.k8s.io/v1/CustomResourceDefinition/gizmos."+group, rig.Group("kinds"),
			"spec:\n  group: "+group+"\n  scope: Namespaced\n  names: {kind: Gizmo, listKind: GizmoList, plural: gizmos, singular: gizmo}\n  versions:"+served)}
		for _, name := range objects {
			docs = append(docs, rig.Object(group+"/"+version+"/Gizmo/"+name, rig.Group("objects", "kinds"), "spec: {size: "+version+"}"))
		}
		return docs
	}
	r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, chart("v1", "old")...), nil)))
	op := r.Must(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, chart("v2", "old", "new")...), nil)))
	changes, err := op.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]inspect.Action{"old": inspect.Modify, "new": inspect.Create} {
		i := slices.IndexFunc(changes, func(c inspect.Change) bool { return c.Object.Name == name })
		if c := changes[i]; c.Action != want || (want == inspect.Modify) != strings.Contains(c.Message, "exists as "+group+"/v1") {
			t.Errorf("%s: %s (%s), want %s", name, c.Action, c.Message, want)
		}
	}
	r.MustRun(op, nil)
}
