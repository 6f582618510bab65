package stack

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestPruneOfUnknownClusters: two addresses are one cluster, but the user may not read namespace kube-system. Neither address has
// what the file defines at the other, so --prune is refused, and nothing is uninstalled (S10).
func TestPruneOfUnknownClusters(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.ConnectBound("limited", "ClusterRole", "cluster-admin", []rbacv1.PolicyRule{rig.Rule("", "secrets", "*")})
	first, second := b.ConnectThrough(rig.Interceptor{}, b.Namespace+"-limited"), b.ConnectThrough(rig.Interceptor{}, b.Namespace+"-limited")
	b.connect = func(name string) (*kube.Client, error) {
		if name == "again" {
			return second, nil
		}
		return first, nil
	}
	releases := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "x", Dir: chart(t, "x"), Context: "again"}}
	options := func(prune bool) func(*kube.StackOptions) {
		return func(o *kube.StackOptions) {
			o.Name, o.Prune = "weak-"+b.Namespace, prune
			for n := range o.File.Releases {
				o.File.Releases[n].CreateNamespace = false
			}
		}
	}
	s, err := b.prepare(false, options(false), releases...)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.OwnWarnings(); len(w) != 2 || w[0].Message == w[1].Message {
		t.Errorf("warnings %v", w)
	}
	if state, _ := b.run(s, err, nil); state.Exit != 0 {
		t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	if _, err := b.prepare(false, options(true), releases...); err == nil || !strings.Contains(err.Error(), "--prune needs to know which contexts are the same cluster") ||
		!strings.Contains(err.Error(), "(verb get, resource namespaces, name kube-system)") {
		t.Errorf("error %v", err)
	}
	if got := b.history("a", "x"); got[0] != "a 1 deployed" || got[1] != "x 1 deployed" {
		t.Errorf("history %v", got)
	}
}
