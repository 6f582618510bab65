package manifest

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
)

// TestOwns: writes and removals ask the same question about an existing object (R31a). A removal also keeps one without marks that
// Helm has not applied.
func TestOwns(t *testing.T) {
	scope, object := Scope{Release: "r", Namespace: "n"}, plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "c"}
	marks := func(manager, release, namespace string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}
		for _, mark := range []struct {
			in         map[string]string
			key, value string
		}{{m.Labels, ManagedByKey, manager}, {m.Annotations, ownerNameKey, release}, {m.Annotations, ownerNamespaceKey, namespace}} {
			if mark.value != "" {
				mark.in[mark.key] = mark.value
			}
		}
		return m
	}
	const always, original, never = "always", "while it is the same object", "never"
	for name, tt := range map[string]struct {
		metav1.ObjectMeta
		owned string
	}{
		"own marks":               {marks("Helm", "r", "n"), always},
		"no marks":                {marks("", "", ""), original},
		"no label":                {marks("", "r", "n"), original},
		"label alone":             {marks("Helm", "", ""), original},
		"other release":           {marks("Helm", "x", "n"), never},
		"other namespace":         {marks("Helm", "r", "x"), never},
		"other release, no label": {marks("", "x", "n"), never},
		"other manager":           {marks("argocd", "", ""), never},
		"other manager, ours":     {marks("argocd", "r", "n"), original},
	} {
		for _, again := range []bool{false, true} {
			for _, deployed := range []bool{false, true} {
				for _, applied := range []bool{false, true} {
					live := tt.ObjectMeta
					live.UID, live.ResourceVersion = "1", "7"
					if applied {
						live.ManagedFields = []metav1.ManagedFieldsEntry{entry(`{"f:data":{}}`)}
					}
					f := FactOf(object, &live)
					if again {
						f.before.uid = types.UID("0")
					}
					claims := Claims{Unmarked: map[plan.Object]bool{object: deployed}}
					write, remove := claims.Check(scope, f) == nil, claims.Removes(scope, f)
					owned := tt.owned == always || tt.owned == original && deployed && !again
					if write != owned || remove != (owned && (applied || tt.owned == always)) {
						t.Errorf("%s, created again: %t, deployed: %t, applied: %t: write %t, remove %t", name, again, deployed, applied, write, remove)
					}
					if other := scope.Other(f.Seen()); (other != "") != (tt.owned == never) || slices.Contains([]string{"Helm", "r"}, other) {
						t.Errorf("%s: the other one is %q", name, other)
					}
				}
			}
		}
	}
}

// TestHookList: the objects of a hook of kind List have no annotation of a hook, so its next run recognises them because
// Helm applied them and no release owns them (R31a).
func TestHookList(t *testing.T) {
	scope := Scope{Release: "r", Namespace: "n"}
	for name, tt := range map[string]struct {
		kind, hook  string // of the object in the chart
		applied, ok bool
	}{
		"made by the list":      {"ConfigMap", "", true, true},
		"made by somebody else": {"ConfigMap", "", false, false},
		"a hook alone":          {"ConfigMap", "pre-install", true, false},
		"of --create-namespace": {"Namespace", "", true, false},
	} {
		live := metav1.ObjectMeta{UID: "1", ResourceVersion: "7"}
		if tt.applied {
			live.ManagedFields = []metav1.ManagedFieldsEntry{entry(`{"f:data":{}}`)}
		}
		f := FactOf(plan.Object{Kind: tt.kind, Name: "c"}, &live)
		f.Rule.Hook = true
		f.Resource.Annotations = map[string]string{release.HookAnnotation: tt.hook}
		if err := (Claims{}).Check(scope, f); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
