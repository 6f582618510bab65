package install

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

const ownNamespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: '{{ .Release.Namespace }}'\n  labels: {pod-security.kubernetes.io/enforce: baseline}\n"

// beside returns a rig for a namespace that does not exist yet.
func beside(r *rig.Rig, suffix string) *rig.Rig {
	other := *r
	other.Namespace += suffix
	other.Client = rig.Connect(r.T, other.Namespace)
	return &other
}

// awaitNoNamespace waits until the namespace is gone.
func awaitNoNamespace(r *rig.Rig) {
	r.T.Helper()
	r.Eventually("the namespace is gone", func() bool {
		_, err := r.Cluster.CoreV1().Namespaces().Get(r.T.Context(), r.Namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// TestReleaseNamespaceInChart: a chart contains the namespace of its release. As with Helm, --create-namespace installs it,
// and an uninstall succeeds although the records and the lock are deleted with the namespace (R29, R31, R34).
func TestReleaseNamespaceInChart(t *testing.T) {
	t.Parallel()
	root := rig.New(t)
	chart := rig.ChartOf(t, ownNamespace, rig.ConfigMap("a", rig.Group("a")), rig.ConfigMap("b", rig.Group("b", "a")))
	for name, clientSide := range map[string]bool{"-server-side": false, "-client-side": true} {
		r := beside(root, name)
		install := func() (*kube.Operation, error) {
			return r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.CreateNamespace, i.ServerSide = true, strconv.FormatBool(!clientSide) }))
		}
		lines, _ := r.Changes(install())
		if got := strings.Join(lines, ", "); strings.Count(got, "Namespace/") != 1 || len(lines) != 3 {
			t.Errorf("the plan is %s, want the namespace once", got)
		}
		out := r.MustRun(install())
		if did, total := out.State.Changes(), out.State.Count().Total; did != (event.Changes{Created: 3}) || total != 3 {
			t.Errorf("the run counts %+v of %d objects, want the namespace once", did, total)
		}
		ns, err := r.Cluster.CoreV1().Namespaces().Get(t.Context(), r.Namespace, metav1.GetOptions{})
		if err != nil || ns.Labels["pod-security.kubernetes.io/enforce"] != "baseline" || ns.Annotations["meta.helm.sh/release-name"] != "t" {
			t.Errorf("the namespace has labels %v, annotations %v, %v", ns.Labels, ns.Annotations, err)
		}
		r.AssertDeployed("t")
		out = r.MustRun(r.Upgrade("plain", rig.UseChart(chart, nil)))
		if got := out.State.Phases[0].Groups; len(got) != 3 {
			t.Errorf("the upgrade has %d groups", len(got))
		}
		r.MustRun(r.Rollback(1))
		out = r.MustRun(r.Client.PrepareUninstall(t.Context(), kube.Uninstall{Common: r.Common(), KeepHistory: clientSide}))
		if warned := out.HasWarning("R31", "history is deleted with it"); warned != clientSide {
			t.Errorf("a warning about the history: %v, want %v", warned, clientSide)
		}
		awaitNoNamespace(r)
	}
}

// TestReleaseNamespaceInFailingChart rolls back an install that fails after its chart has created the namespace: the release
// is uninstalled, with the namespace (R33).
func TestReleaseNamespaceInFailingChart(t *testing.T) {
	t.Parallel()
	r := beside(rig.New(t), "-new")
	chart := rig.ChartOf(t, ownNamespace, rig.ConfigMap("a", rig.Group("a")), rig.UnpullableDeployment("fails", rig.Impatient(rig.Group("b", "a"))))
	op, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) {
		i.CreateNamespace, i.RollbackOnFailure = true, true
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, nil)
	if out.State.Exit != event.ExitFailed || !strings.Contains(out.State.Message, "uninstalled") || strings.Contains(out.State.Message, "release: not found") {
		t.Errorf("exit %d: %s", out.State.Exit, out.State.Message)
	}
	awaitNoNamespace(r)
}

// TestNamespaceWithOtherReleases: the namespace of a chart stays while it contains another release, whatever removes it: an
// upgrade, an uninstall, or the rollback of an install (R31a).
func TestNamespaceWithOtherReleases(t *testing.T) {
	t.Parallel()
	r := beside(rig.New(t), "-shared")
	deploy := func() {
		r.Deploy("plain", rig.UseChart(rig.ChartOf(t, ownNamespace, rig.ConfigMap("a", nil)), func(i *kube.Deploy) { i.CreateNamespace = true }))
	}
	assertKept := func(when string) {
		t.Helper()
		ns, err := r.Cluster.CoreV1().Namespaces().Get(t.Context(), r.Namespace, metav1.GetOptions{})
		if err != nil || ns.DeletionTimestamp != nil || !slices.Contains(r.ConfigMaps(r.Namespace), "other") {
			t.Fatalf("%s: the namespace is deleted (%v), ConfigMaps %v", when, err, r.ConfigMaps(r.Namespace))
		}
	}
	other := rig.DirOf(t, rig.ConfigMap("other", nil))
	fails := rig.ChartOf(t, ownNamespace, rig.ConfigMap("a", rig.Group("a")), rig.UnpullableDeployment("fails", rig.Impatient(rig.Group("b", "a"))))
	op, err := r.Install("plain", rig.UseChart(fails, func(i *kube.Deploy) {
		i.CreateNamespace, i.RollbackOnFailure, i.BreakOn = true, true, []string{"edge:b"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	out := r.Run(op, func(e event.Event) {
		if e.Kind == event.KindRun && e.Status == event.Paused {
			r.MustHelm("install", "other", other)
			op.Command(event.Command{Name: event.Resume})
		}
	})
	if out.State.Exit != event.ExitFailed || r.Status() != "" {
		t.Errorf("exit %d, release %q: %s", out.State.Exit, r.Status(), out.State.Message)
	}
	assertKept("a rollback")
	deploy()
	r.MustRun(r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil)), nil)))
	assertKept("an upgrade")
	r.MustRun(r.Rollback(1))
	if lines, _ := r.Changes(r.Uninstall()); !slices.Contains(lines, "edge:(unsequenced) Namespace/"+r.Namespace+" keep") {
		t.Errorf("the plan of the uninstall is %q", lines)
	}
	r.MustRun(r.Uninstall())
	assertKept("an uninstall")
	deploy()
	r.MustHelm("uninstall", "other")
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.third.v1", Labels: map[string]string{"owner": "helm", "name": "third"}}}
	if _, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Create(t.Context(), record, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if lines, _ := r.Changes(r.Uninstall()); !slices.Contains(lines, "edge:(unsequenced) Namespace/"+r.Namespace+" keep") { // HELM_DRIVER=configmap
		t.Errorf("the plan beside a release in a ConfigMap is %q", lines)
	}
	if err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Delete(t.Context(), record.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.MustRun(r.Uninstall())
	awaitNoNamespace(r)
}

// TestNamespaceWithObjectsOfOthers: the namespace of a chart also stays while it contains an object of no release, which Helm would
// delete with it, and the plan says so (R31a).
func TestNamespaceWithObjectsOfOthers(t *testing.T) {
	t.Parallel()
	r := beside(rig.New(t), "-precious")
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, ownNamespace, rig.ConfigMap("a", nil)), func(i *kube.Deploy) { i.CreateNamespace = true }))
	r.Create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: precious}\n")
	if lines, _ := r.Changes(r.Uninstall()); !slices.Contains(lines, "edge:(unsequenced) Namespace/"+r.Namespace+" keep") {
		t.Errorf("the plan of the uninstall is %q", lines)
	}
	r.MustRun(r.Uninstall())
	ns, err := r.Cluster.CoreV1().Namespaces().Get(t.Context(), r.Namespace, metav1.GetOptions{})
	if err != nil || ns.DeletionTimestamp != nil || !slices.Contains(r.ConfigMaps(r.Namespace), "precious") {
		t.Fatalf("the namespace is deleted (%v), ConfigMaps %v", err, r.ConfigMaps(r.Namespace))
	}
}
