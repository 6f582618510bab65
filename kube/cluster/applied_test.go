package cluster

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// TestWritten (R21): which writes after the apply count as changes, and which of them take the object over.
func TestWritten(t *testing.T) {
	state := func(version string, generation int64, release string) *metav1.ObjectMeta {
		m := &metav1.ObjectMeta{UID: "1", ResourceVersion: version, Generation: generation, Labels: map[string]string{manifest.ManagedByKey: "Helm"}}
		m.Annotations = map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "ns"}
		return m
	}
	scope := manifest.Scope{Release: "shop", Namespace: "ns"}
	o := plan.Object{Kind: "Deployment", Name: "api", Namespace: "ns"}
	for _, test := range []struct {
		name    string
		live    *metav1.ObjectMeta
		written bool
		taken   string
	}{
		{"a new status", state("7", 1, "shop"), false, ""},
		{"a new spec", state("7", 2, "shop"), true, ""},
		{"another release, with the same spec", state("7", 1, "other"), true, "release other in namespace ns"},
		{"an old state, from before the apply", state("3", 1, "other"), false, "release other in namespace ns"},
	} {
		a := NewApplied()
		a.sending(o)
		a.answered(o, state("5", 1, "shop"), false)
		a.Replaced(scope, o, test.live)
		var want []plan.Object
		if test.written {
			want = []plan.Object{o}
		}
		if got := a.Written(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: written are %v", test.name, got)
		}
		if got := a.Taken(scope, o, test.live); got != test.taken {
			t.Errorf("%s: taken over by %q", test.name, got)
		}
		a.Reported(o)
		if got := a.Written(); got != nil {
			t.Errorf("%s: written again are %v", test.name, got)
		}
	}
}
