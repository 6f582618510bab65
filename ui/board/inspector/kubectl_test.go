package inspector

import (
	"testing"

	"lockstep/engine/plan"
)

// TestResource names an object as kubectl does, with its API group if it has one.
func TestResource(t *testing.T) {
	for o, want := range map[plan.Object]string{
		{Kind: "ClusterRole", Group: "rbac.authorization.k8s.io", Name: "system:x"}: "clusterrole.rbac.authorization.k8s.io/system:x",
		{Kind: "ConfigMap", Namespace: "n", Name: "c"}:                              "configmap/c",
	} {
		if got := resource(o); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
