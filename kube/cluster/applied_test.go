package cluster

import (
	"errors"
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

// TestTouched (R33): a rollback undoes what may have been changed, and nothing else.
func TestTouched(t *testing.T) {
	o := plan.Object{Kind: "ConfigMap", Name: "a", Namespace: "ns"}
	accepted, refused := func() error { return nil }, func() error { return errors.New("refused") }
	for _, test := range []struct {
		name string
		run  func(*Applied)
		want bool
	}{
		{"stopped before the request", func(a *Applied) { a.sending(o) }, false},
		{"applied", func(a *Applied) { _ = a.request(o, accepted) }, true},
		{"refused", func(a *Applied) { _ = a.request(o, refused) }, false},
		{"as it was sent", func(a *Applied) { _ = a.request(o, accepted); a.changedNothing(o) }, false},
		{"applied, and refused when it is sent again", func(a *Applied) { _ = a.request(o, accepted); _ = a.request(o, refused) }, true},
		{"deleted, and the next one refused", func(a *Applied) { _ = a.request(o, accepted); _ = a.request(o, refused); _ = a.request(o, refused) }, true},
	} {
		a := NewApplied()
		test.run(a)
		if got := a.Touched(o); got != test.want {
			t.Errorf("%s: touched is %v", test.name, got)
		}
	}
	during := NewApplied()
	_ = during.request(o, func() error {
		if !during.Touched(o) {
			t.Error("not touched during the request")
		}
		return nil
	})
}
