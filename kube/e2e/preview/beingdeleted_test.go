package preview

import (
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestBeingDeleted: an object of the deployed revision that is being deleted is not unchanged, whatever is done to it and
// however it is sent: the preview names the finalizers, and the run creates it as soon as it is gone, and says so.
func TestBeingDeleted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		data, serverSide string
		finalizers       string
	}{
		"the same":             {"one", "true", "[example.com/hold]"},
		"changed":              {"two", "true", "[example.com/hold, example.com/too]"},
		"client-side, changed": {"two", "false", "[example.com/hold]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			how := func(data string) func(*kube.Deploy) {
				return rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil, "v: "+data), rig.ConfigMap("b", nil)), func(d *kube.Deploy) { d.ServerSide = tt.serverSide })
			}
			r.MustRun(r.Install("plain", how("one")))
			r.PatchConfigMap("a", `{"metadata":{"finalizers":`+strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(tt.finalizers, "[", `["`), "]", `"]`), ", ", `","`)+`}}`)
			if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			op := r.Must(r.Upgrade("plain", how(tt.data)))
			if unchanged, err := op.Unchanged(t.Context()); unchanged || err != nil {
				t.Errorf("the release is unchanged: %v, %v", unchanged, err)
			}
			changes, err := op.Changes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(changes, func(c inspect.Change) bool { return c.Object.Name == "a" })
			if c := changes[i]; c.Action != inspect.Create || !strings.Contains(c.Message, "is being deleted; waits for finalizer") || !strings.Contains(c.Message, "example.com/hold") {
				t.Errorf("planned: %s (%s)", c.Action, c.Message)
			}
			var once sync.Once
			change := map[string]event.Change{}
			out := r.Run(op, func(e event.Event) {
				if e.Kind == event.KindObject && e.Object.Name == "a" && strings.Contains(e.Message, "finalizer") {
					once.Do(func() { r.PatchConfigMap("a", `{"metadata":{"finalizers":null}}`) })
				}
				if e.Kind == event.KindObject && e.Change != "" {
					change[e.Object.Name] = e.Change
				}
			})
			if out.State.Exit != 0 || change["a"] != event.Created || change["b"] != event.Unchanged || r.ConfigMapData("a")["v"] != tt.data {
				t.Errorf("exit %d, changes %v, data %v", out.State.Exit, change, r.ConfigMapData("a"))
			}
		})
	}
}
