package chaos

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var fixedInstall = operation{name: "install of what cannot be updated", args: []string{"install", "r", "CHART", "--set", "v=one,fixed=true"}}

// replacing is an upgrade that replaces an immutable ConfigMap and a StatefulSet.
func replacing(name string, args ...string) operation {
	return operation{name: "replace" + name, args: append(args, "--replace=ConfigMap/fixed,StatefulSet"), preceding: []operation{fixedInstall}}
}

var replacingUpgrade = replacing("", "upgrade", "r", "CHART", "--set", "v=two,fixed=true")

// replacements kills an operation that replaces objects at each of its writes. The same command again replaces or creates what
// is left; the pods and the claims of the StatefulSet stay (R30b, R52).
func replacements(t *testing.T) (all []trialGroup) {
	back := replacing(" by a rollback", "rollback", "r", "1")
	back.isRollback, back.preceding = true, append(back.preceding, replacingUpgrade)
	up := replacing(" in a stack", "up", "-f", "CHART/../stack/helmfile.yaml", "--set", "fixed=true")
	for i, o := range []operation{replacingUpgrade, back, up} {
		all = append(all, crashesOf(t, i+1, o)...)
	}
	return all
}

// replacementsInCluster kills the pod of a run that replaces objects after each of its writes.
func replacementsInCluster(t *testing.T) []trialGroup {
	return podKillsOf(t, 1, replacingUpgrade, journalWrites)
}

// stateful returns the UIDs of the pods and claims of the chart's StatefulSet, none without fixed.
func (h *harness) stateful() map[string]types.UID {
	out := map[string]types.UID{}
	for _, of := range []schema.GroupVersionResource{pods, {Version: "v1", Resource: "persistentvolumeclaims"}} {
		list, err := admin.Resource(of).Namespace(h.ns).List(h.t.Context(), metav1.ListOptions{LabelSelector: "app=set"})
		h.check(err)
		for _, item := range list.Items {
			out[item.GetKind()+"/"+item.GetName()] = item.GetUID()
		}
	}
	return out
}

// judgeStateful checks that the pods and claims of the StatefulSet are the same as before.
func (h *harness) judgeStateful(before map[string]types.UID) error {
	if after := h.stateful(); !maps.Equal(before, after) {
		return fmt.Errorf("  the StatefulSet had %q, and has %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	return nil
}
