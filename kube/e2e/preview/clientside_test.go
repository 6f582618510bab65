package preview

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/preview"
)

// The resources of the objects in twoKeys.
var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// twoKeys returns a chart whose objects have several keys, labels and environment variables, each only if has says so.
func twoKeys(t *testing.T, has func(what string) bool, value string) *charts.Chart {
	optional := func(format string, names ...string) (out string) {
		for _, name := range names {
			if has(name) {
				out += fmt.Sprintf(format, name, value)
			}
		}
		return out
	}
	labels := "labels: {always: x" + optional(", %s: l%s", "two", "three") + "}"
	env := "env: [{name: ALWAYS, value: '1'}" + optional(", {name: %s, value: v%s}", "B", "C") + "]"
	data := []string{"always: '1'"}
	for _, name := range []string{"b", "d"} {
		if has(name) {
			data = append(data, name+": k"+value)
		}
	}
	return rig.ChartOf(t,
		strings.Replace(rig.ConfigMap("c", rig.Group("a"), data...), "metadata:\n", "metadata:\n  "+labels+"\n", 1),
		rig.Object("apps/v1/Deployment/web", rig.Group("b", "a"), "spec:", "  replicas: 0", "  selector: {matchLabels: {app: web}}", "  template:",
			"    metadata: {labels: {app: web}}", "    spec: {containers: [{name: main, image: example/app:1.0, "+env+"}]}"))
}

// live reads the objects of twoKeys, without what controllers write.
func live(r *rig.Rig) map[string]*unstructured.Unstructured {
	r.T.Helper()
	out := map[string]*unstructured.Unstructured{}
	for name, gvr := range map[string]schema.GroupVersionResource{"c": configMaps, "web": deployments} {
		u, err := r.Client.Dynamic.Resource(gvr).Namespace(r.Namespace).Get(r.T.Context(), name, metav1.GetOptions{})
		if err != nil {
			r.T.Fatal(err)
		}
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		out[name] = u
	}
	return out
}

// fieldsOf returns the fields of a change by path. Annotations do not count, because controllers write some.
func fieldsOf(c inspect.Change) (out []string) {
	for _, f := range c.Fields {
		if f.In != "metadata.annotations" {
			out = append(out, f.In+"|"+strings.Join(f.Lines, "|"))
		}
	}
	return out
}

// TestPlanOfRemovals: a plan shows the keys, environment variables and labels that an upgrade removes, however the release
// was and will be applied.
func TestPlanOfRemovals(t *testing.T) {
	t.Parallel()
	for name, clientSide := range map[string]bool{"true": true, "auto": true, "false": true, "ssa": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			all := func(string) bool { return true }
			r.Deploy("plain", rig.UseChart(twoKeys(t, all, "1"), func(i *kube.Deploy) { i.ServerSide = strconv.FormatBool(!clientSide) }))
			op, err := r.Upgrade("plain", rig.UseChart(twoKeys(t, func(string) bool { return false }, "1"), func(u *kube.Deploy) { u.ServerSide = strings.Replace(name, "ssa", "auto", 1) }))
			_, changes := r.Changes(op, err)
			const env = "spec.template.spec.containers[main].env|-- name: "
			for object, want := range map[string][]string{
				"ConfigMap/c":    {"data|-b: k1", "data|-d: k1", "metadata.labels|-three: l1", "metadata.labels|-two: l1"},
				"Deployment/web": {env + "B|-  value: v1", env + "C|-  value: v1"},
			} {
				if got := fieldsOf(changes[object]); !slices.Equal(got, want) {
					t.Errorf("%s: %s %q, want %q", object, changes[object].Action, got, want)
				}
			}
			r.MustRun(op, nil)
		})
	}
}

// TestPlanIsWhatHappens: random edits and upgrades by all methods of applying change each field as planned.
func TestPlanIsWhatHappens(t *testing.T) {
	t.Parallel()
	seeds := 6
	if rig.Long {
		seeds = 60
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			random := rand.New(rand.NewPCG(uint64(seed), 14))
			some := func(string) bool { return random.IntN(2) == 0 }
			clientSide := random.IntN(2) == 0
			r.Deploy("plain", rig.UseChart(twoKeys(t, some, "1"), func(i *kube.Deploy) { i.ServerSide = strconv.FormatBool(!clientSide) }))
			for step := range 4 {
				edits(r, random)
				before, method := live(r), []string{"auto", "true", "false"}[random.IntN(3)]
				op, err := r.Upgrade("plain", rig.UseChart(twoKeys(t, some, fmt.Sprint(random.IntN(2))), func(u *kube.Deploy) {
					u.ServerSide = method
					clientSide = method == "false" || method == "auto" && clientSide
					u.ForceConflicts = !clientSide
				}))
				_, changes := r.Changes(op, err)
				r.MustRun(op, nil)
				after := live(r)
				for _, name := range slices.Sorted(maps.Keys(before)) {
					var did inspect.Change
					if err := preview.Compare(&did, before[name], after[name]); err != nil {
						t.Fatal(err)
					}
					id := after[name].GetKind() + "/" + name
					if got, want := fieldsOf(did), fieldsOf(changes[id]); !slices.Equal(got, want) {
						t.Errorf("step %d, --server-side=%s: %s changed by %q, the plan says %q", step, method, id, got, want)
					}
				}
			}
		})
	}
}

// edits makes changes as other clients do: by an update, a merge patch, or a server-side apply.
func edits(r *rig.Rig, random *rand.Rand) {
	r.T.Helper()
	patch := func(gvr schema.GroupVersionResource, name string, kind types.PatchType, text string) {
		force := true
		opts := metav1.PatchOptions{FieldManager: "somebody"}
		if kind == types.ApplyPatchType {
			opts.Force = &force
		}
		if _, err := r.Client.Dynamic.Resource(gvr).Namespace(r.Namespace).Patch(r.T.Context(), name, kind, []byte(text), opts); err != nil {
			r.T.Fatal(err)
		}
	}
	for range random.IntN(3) {
		key := []string{"b", "d", "theirs"}[random.IntN(3)]
		switch random.IntN(5) {
		case 0:
			patch(configMaps, "c", types.MergePatchType, `{"data":{"`+key+`":"edited"}}`)
		case 1:
			patch(configMaps, "c", types.MergePatchType, `{"data":{"`+key+`":null},"metadata":{"labels":{"two":null}}}`)
		case 2:
			patch(configMaps, "c", types.ApplyPatchType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"two":"l1"}},"data":{"`+key+`":"k1"}}`)
		case 3:
			patch(deployments, "web", types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"B","value":"edited"}]}]}}}}`)
		case 4:
			patch(deployments, "web", types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"C","value":"v1"}]}]}}}}`)
		}
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // managers are ordered by the second of their last write
}
