package recovery

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/inspect"
	"lockstep/kube/e2e/rig"
)

// TestReplacementKilledAfterAWrite kills an upgrade that replaces objects after each of its writes. The same command again
// replaces or creates what is left: no object is lost, and the StatefulSet has the same pods and claims (R30b, R52).
func TestReplacementKilledAfterAWrite(t *testing.T) {
	chart := func(version string) string {
		set := rig.Object("apps/v1/StatefulSet/set", rig.Group("set"), "spec:", "  serviceName: "+version, "  selector: {matchLabels: {app: set}}",
			"  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]",
			"  template:\n    metadata: {labels: {app: set}}\n    spec: {containers: [{name: main, image: example/app:1.0}]}")
		web := strings.ReplaceAll(rig.Deployment("web", rig.Group("web", "set"), "0s"), "{app: web}", "{app: web, v: "+version+"}")
		job := strings.ReplaceAll(rig.Job("job", rig.Group("job", "web"), "0s"), "app:1.0", "app:"+version)
		return rig.DirOf(t, set, web, job)
	}
	one, two := chart("one"), chart("two")
	const maxWrites = 14
	for n := int64(1); n <= maxWrites; n++ {
		if !rig.Long && (n < 4 || n > 9) { // the writes before and after the replacements
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			r := rig.NewNamed(t, fmt.Sprintf("kill-replace-%d", n))
			here := func(e childOperation) childOperation {
				e.Namespace, e.Locks = r.Namespace, rig.LockDir()
				return e
			}
			r.MustRun(here(childOperation{Operation: "install", Chart: one}).prepare(r.Client))
			before := podsAndClaims(r)
			upgrade := here(childOperation{Operation: "upgrade", Chart: two, Replace: []string{"StatefulSet", "Deployment/web", "Job"}})
			if !kill(r, upgrade, n) {
				return
			}
			r.MustRun(upgrade.prepare(r.Client))
			lines, changes := r.Changes(upgrade.prepare(r.Client))
			for _, c := range changes {
				if c.Action != inspect.Unchanged {
					t.Errorf("the plan afterwards is %v", lines)
				}
			}
			if after := podsAndClaims(r); !maps.Equal(before, after) || len(before) != 2 {
				t.Errorf("the pod and the claim were %v, and are %v", before, after)
			}
			set, err := r.Cluster.AppsV1().StatefulSets(r.Namespace).Get(t.Context(), "set", metav1.GetOptions{})
			if err != nil || set.Spec.ServiceName != "two" {
				t.Errorf("the StatefulSet: %v", err)
			}
		})
	}
}

// podsAndClaims returns the UIDs of the pods and claims of the StatefulSet.
func podsAndClaims(r *rig.Rig) map[string]types.UID {
	r.T.Helper()
	out := map[string]types.UID{}
	pods, err := r.Cluster.CoreV1().Pods(r.Namespace).List(r.T.Context(), metav1.ListOptions{LabelSelector: "app=set"})
	if err != nil {
		r.T.Fatal(err)
	}
	for _, p := range pods.Items {
		out["Pod/"+p.Name] = p.UID
	}
	claims, err := r.Cluster.CoreV1().PersistentVolumeClaims(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	for _, c := range claims.Items {
		out["PersistentVolumeClaim/"+c.Name] = c.UID
	}
	return out
}
