package install

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestListInATemplate: the items of a List have their own groups and their own
// helm.sh/resource-policy. A List in a List is refused, and an empty object (R2a).
func TestListInATemplate(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	item := func(doc string) string { return "- " + strings.ReplaceAll(doc, "\n", "\n  ") }
	keep := rig.Group("c", "b")
	keep["helm.sh/resource-policy"] = "keep"
	list := "apiVersion: v1\nkind: List\nitems:\n" + item(rig.Deployment("slow", rig.Group("a"), "1s")) + "\n" + item(rig.ConfigMap("after", rig.Group("b", "a"))) + "\n" + item(rig.ConfigMap("kept", keep))
	out := r.Deploy("plain", rig.UseChart(rig.ChartOf(t, list), nil))
	if !out.StatusTime("edge:b", event.Running).After(out.StatusTime("edge:a", event.Ready)) {
		t.Errorf("b started before a was ready")
	}
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, list), nil)))
	r.MustRun(r.Uninstall())
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("remaining: %v, want [kept]", got)
	}
	for doc, want := range map[string]string{
		"apiVersion: v1\nkind: List\nitems:\n" + item(list): "item 0 of the List is a list itself (List)", "{}": "an empty object ({})",
	} {
		since := time.Now()
		_, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, doc, rig.ConfigMap("more", nil)), nil))
		if w := r.WrittenSince(since); err == nil || !strings.Contains(err.Error(), want) || len(w) > 0 {
			t.Errorf("%s: error %v, wrote %v", doc, err, w)
		}
	}
}

// TestOtherNamespaces has objects in another namespace than the release's. An upgrade moves them to a third one.
func TestOtherNamespaces(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	other, third := r.Namespace+"-extra", r.Namespace+"-third"
	for _, ns := range []string{other, third} {
		if _, err := r.Cluster.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	in := func(namespace, doc string) string {
		return strings.Replace(doc, "metadata:\n", "metadata:\n  namespace: "+namespace+"\n", 1)
	}
	twins := func(namespace string) *charts.Chart {
		return rig.ChartOf(t, in(namespace, rig.Deployment("twin", rig.Group("a"), "500ms")), rig.ConfigMap("home", rig.Group("b", "a")), in(namespace, rig.ConfigMap("away", rig.Group("c", "b"))))
	}
	check := func(what string, want map[string][]string) {
		t.Helper()
		for ns, names := range want {
			if got := r.ConfigMaps(ns); !slices.Equal(got, names) {
				t.Errorf("after the %s namespace %s has %v, want %v", what, ns, got, names)
			}
		}
	}
	r.Deploy("plain", rig.UseChart(twins(other), nil))
	check("install", map[string][]string{r.Namespace: {"home"}, other: {"away"}})
	r.MustRun(r.Upgrade("plain", rig.UseChart(twins(third), nil)))
	check("upgrade", map[string][]string{r.Namespace: {"home"}, other: nil, third: {"away"}})
	r.MustRun(r.Rollback(1))
	check("rollback", map[string][]string{r.Namespace: {"home"}, other: {"away"}, third: nil})
	r.MustRun(r.Uninstall())
	check("uninstall", map[string][]string{r.Namespace: nil, other: nil})
	if list, err := r.Cluster.AppsV1().Deployments(other).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d Deployments were not removed, %v", len(list.Items), err)
	}
}

// TestKeep: an object with helm.sh/resource-policy: keep stays in the cluster, with a warning,
// when it is removed from the chart and when the release is uninstalled (R30).
func TestKeep(t *testing.T) {
	t.Parallel()
	keep := map[string]string{"helm.sh/resource-policy": "keep"}
	both := rig.ChartOf(t, rig.ConfigMap("a", keep), rig.ConfigMap("b", keep), rig.ConfigMap("c", nil))
	r := rig.New(t)
	r.Deploy("plain", rig.UseChart(both, nil))
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("b", keep), rig.ConfigMap("c", nil)), nil))
	out := r.MustRun(op, err)
	if !slices.ContainsFunc(out.Events, func(e event.Event) bool { return e.Object != nil && e.Object.Name == "a" && e.Change == event.Kept }) {
		t.Errorf("no event says that a is kept")
	}
	out = r.MustRun(r.Uninstall())
	if !out.HasWarning("R31", "ConfigMap/b", "helm.sh/resource-policy") {
		t.Errorf("no warning says that b is kept: %v", out.State.Warnings)
	}
	if got := r.ConfigMaps(r.Namespace); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("remaining: %v, want [a b]", got)
	}
}
