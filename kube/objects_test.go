package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/charts"
)

// TestListInATemplate takes the items of a List apart: each has its own group,
// and its own helm.sh/resource-policy.
func TestListInATemplate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	item := func(doc string) string { return "- " + strings.ReplaceAll(doc, "\n", "\n  ") }
	keep := group("c", "b")
	keep["helm.sh/resource-policy"] = "keep"
	list := "apiVersion: v1\nkind: List\nitems:\n" + item(deployment("slow", group("a"), "1s")) + "\n" + item(configMap("after", group("b", "a"))) + "\n" + item(configMap("kept", keep))
	out := r.deploy("plain", use(one(t, list), nil))
	if !out.at("edge:b", event.Running).After(out.at("edge:a", event.Ready)) {
		t.Errorf("b started before a was ready")
	}
	r.mustRun(r.upgrade("plain", useUp(one(t, list), nil)))
	r.mustRun(r.uninstall())
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("left are %v, want [kept]", got)
	}
}

// TestOtherNamespaces has a template name a namespace that is not the
// release's: install, upgrade (with a move to a third), uninstall.
func TestOtherNamespaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other, third := r.namespace+"-extra", r.namespace+"-third"
	for _, ns := range []string{other, third} {
		if _, err := r.cluster.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	in := func(namespace, doc string) string {
		return strings.Replace(doc, "metadata:\n", "metadata:\n  namespace: "+namespace+"\n", 1)
	}
	twins := func(namespace string) *charts.Chart {
		return one(t, in(namespace, deployment("twin", group("a"), "500ms")), configMap("home", group("b", "a")), in(namespace, configMap("away", group("c", "b"))))
	}
	check := func(what string, want map[string][]string) {
		t.Helper()
		for ns, names := range want {
			if got := r.configMaps(ns); !slices.Equal(got, names) {
				t.Errorf("after the %s %s has %v, want %v", what, ns, got, names)
			}
		}
	}
	r.deploy("plain", use(twins(other), nil))
	check("install", map[string][]string{r.namespace: {"home"}, other: {"away"}})
	r.mustRun(r.upgrade("plain", useUp(twins(third), nil)))
	check("upgrade", map[string][]string{r.namespace: {"home"}, other: nil, third: {"away"}})
	r.mustRun(r.rollback(1))
	check("rollback", map[string][]string{r.namespace: {"home"}, other: {"away"}, third: nil})
	r.mustRun(r.uninstall())
	check("uninstall", map[string][]string{r.namespace: nil, other: nil})
	if list, err := r.cluster.AppsV1().Deployments(other).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d Deployments are left, %v", len(list.Items), err)
	}
}

// TestKeep leaves an object with helm.sh/resource-policy: keep when it is gone
// from the chart and when the release is uninstalled, and says so (R30).
func TestKeep(t *testing.T) {
	t.Parallel()
	keep := map[string]string{"helm.sh/resource-policy": "keep"}
	both := one(t, configMap("a", keep), configMap("b", keep), configMap("c", nil))
	r := newRig(t)
	r.deploy("plain", use(both, nil))
	op, err := r.upgrade("plain", useUp(one(t, configMap("b", keep), configMap("c", nil)), nil))
	out := r.mustRun(op, err)
	if !slices.ContainsFunc(out.events, func(e event.Event) bool { return e.Object != nil && e.Object.Name == "a" && e.Change == event.Kept }) {
		t.Errorf("no event says that a is kept")
	}
	op, err = r.uninstall()
	out = r.mustRun(op, err)
	if !out.says("R31", "ConfigMap/b", "helm.sh/resource-policy") {
		t.Errorf("no warning says that b is kept: %v", out.state.Warnings)
	}
	if got := r.configMaps(r.namespace); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("left are %v, want [a b]", got)
	}
}
