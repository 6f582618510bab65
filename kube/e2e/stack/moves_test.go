package stack

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// movable returns a chart that has ConfigMap/moved if the value has is set.
func movable(t *testing.T, name, annotation string) string {
	annotations := map[string]string{}
	if annotation != "" {
		annotations[annotation] = "keep"
	}
	return rig.MakeDir(t, rig.Files{
		"Chart.yaml":           "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"templates/own.yaml":   rig.ConfigMap(name, nil),
		"templates/moved.yaml": "{{ if .Values.has }}\n" + rig.ConfigMap("moved", annotations, "of: "+name) + "\n{{ end }}",
	})
}

func (b stackRig) ownerOfMoved() string {
	b.T.Helper()
	cm, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Get(b.T.Context(), "moved", metav1.GetOptions{})
	if err != nil {
		b.T.Fatal(err)
	}
	return cm.Annotations["meta.helm.sh/release-name"] + " " + cm.Data["of"]
}

// plannedFor returns what the plan of a release does to ConfigMap/moved.
func (b stackRig) plannedFor(s *kube.Stack, release string) inspect.Action {
	b.T.Helper()
	for _, r := range s.Releases() {
		if r.ID != b.id(release) {
			continue
		}
		changes, err := r.Operation.Changes(b.T.Context())
		if err != nil {
			b.T.Fatal(err)
		}
		if i := slices.IndexFunc(changes, func(c inspect.Change) bool { return c.Object.Name == "moved" }); i >= 0 {
			return changes[i].Action
		}
	}
	return ""
}

// TestMovedObject (S3): an object moves from a release to one that needs it: the first one deletes it before the second one
// creates it. It is refused if nothing says that order, and if the first one keeps the object.
func TestMovedObject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		needs      []string
		annotation string
		want       string // in the error, "" for none
	}{
		"needed":     {[]string{"a"}, "", ""},
		"not needed": {nil, "", "is owned by release a"},
		"kept":       {[]string{"a"}, "helm.sh/resource-policy", "is owned by release a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			has := map[string]any{"has": true}
			stack := []release{{Name: "a", Dir: movable(t, "a", tt.annotation), Values: has}, {Name: "b", Dir: movable(t, "b", ""), Needs: tt.needs}}
			b.mustUp(stack...)
			stack[0].Values, stack[1].Values = nil, has
			s, err := b.prepare(false, nil, stack...)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if from, to := b.plannedFor(s, "a"), b.plannedFor(s, "b"); from != inspect.Delete || to != inspect.Create {
				t.Errorf("planned: %s in a, %s in b", from, to)
			}
			state, _ := b.run(s, nil, nil)
			if got := b.ownerOfMoved(); state.Exit != 0 || got != "b b" {
				t.Errorf("exit %d: %s; the object is that of %s", state.Exit, phrase.Reason(state), got)
			}
		})
	}
}

// TestHandedOver (S3): a release takes over an object that another one removes. Without an order between the two, that is refused: the
// object could be deleted with its data. If the removal comes later, the plan says that it keeps the object, as the run does it.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	for name, needs := range map[string][]string{"ordered": {"b"}, "in no order": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			b.TakesOver = []string{"configmaps/moved"}
			has := map[string]any{"has": true}
			stack := []release{{Name: "a", Dir: movable(t, "a", ""), Values: has, Needs: needs}, {Name: "b", Dir: movable(t, "b", "")}}
			b.mustUp(stack...)
			b.PatchConfigMap("moved", `{"data":{"runtime":"precious"}}`)
			stack[0].Values, stack[1].Values = nil, has
			s, err := b.prepare(false, func(o *kube.StackOptions) {
				changeCharts(o, func(c *kube.ChartOptions) { c.TakeOwnership = true })
			}, stack...)
			if needs == nil {
				if err == nil || !strings.Contains(err.Error(), "takes it over, in no order") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := b.plannedFor(s, "a"); got != inspect.Keep {
				t.Errorf("planned for the release that removes it: %s", got)
			}
			state, _ := b.run(s, nil, nil)
			if got, data := b.ownerOfMoved(), b.ConfigMapData("moved"); state.Exit != 0 || got != "b b" || data["runtime"] != "precious" {
				t.Errorf("exit %d: %s; the object is that of %s, with %v", state.Exit, phrase.Reason(state), got, data)
			}
		})
	}
}

// TestPruneOfRenamed (S10): a release is renamed, and the new one takes over the objects of the old one, which --prune uninstalls.
// The plan says that the object is kept, as the run does it.
func TestPruneOfRenamed(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.TakesOver = []string{"configmaps/moved"}
	has := map[string]any{"has": true}
	named := func(o *kube.StackOptions) { o.Name = "shop-" + b.Namespace }
	s, err := b.prepare(false, named, release{Name: "a", Dir: movable(t, "a", ""), Values: has})
	if state, _ := b.run(s, err, nil); state.Exit != 0 {
		t.Fatal(phrase.Reason(state))
	}
	s, err = b.prepare(false, func(o *kube.StackOptions) {
		named(o)
		o.Prune = true
		changeCharts(o, func(c *kube.ChartOptions) { c.TakeOwnership = true })
	}, release{Name: "a2", Dir: movable(t, "a2", ""), Values: has})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.plannedFor(s, "a"); got != inspect.Keep {
		t.Errorf("planned for the pruned release: %s", got)
	}
	state, _ := b.run(s, nil, nil)
	if got := b.ownerOfMoved(); state.Exit != 0 || got != "a2 a2" || b.history("a")[0] != "a none" {
		t.Errorf("exit %d: %s; the object is that of %s; %v", state.Exit, phrase.Reason(state), got, b.history("a"))
	}
}
