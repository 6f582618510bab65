package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// chartWithLists returns a chart of four Deployments and four ConfigMaps whose lists have the given
// names in order.
func chartWithLists(t *testing.T, names [2]string, more ...string) *charts.Chart {
	var docs []string
	for i := range 4 {
		docs = append(docs, rig.Object(fmt.Sprint("apps/v1/Deployment/d", i), nil, "spec:\n  selector: {matchLabels: {app: a}}",
			"  template:", "    metadata: {labels: {app: a}}", "    spec:",
			fmt.Sprintf("      initContainers: [{name: %s, image: i:1}, {name: %s, image: i:1}]", names[0], names[1]),
			fmt.Sprintf("      containers: [{name: main, image: i:1, env: [{name: %s, value: x}, {name: %s, value: x}]}]", names[0], names[1])))
		docs = append(docs, rig.Object(fmt.Sprint("v1/ConfigMap/c", i), nil, fmt.Sprintf("  finalizers: [example.com/%s, example.com/%s]", names[0], names[1])))
	}
	return rig.ChartOf(t, append(docs, more...)...)
}

// listOrder returns the order of the lists in the first objects of chartWithLists.
func listOrder(r *rig.Rig) string {
	r.T.Helper()
	d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(r.T.Context(), "d0", metav1.GetOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	c, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(r.T.Context(), "c0", metav1.GetOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	var out []string
	for _, i := range d.Spec.Template.Spec.InitContainers {
		out = append(out, "init "+i.Name)
	}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		out = append(out, "env "+e.Name)
	}
	for _, f := range c.Finalizers {
		out = append(out, strings.Replace(f, "example.com/", "finalizer ", 1))
	}
	return strings.Join(out, ", ")
}

// TestOrderOfLists: lists whose elements have separate owners have the order of the chart after each operation, even if
// somebody else has reordered them.
func TestOrderOfLists(t *testing.T) {
	t.Parallel()
	const (
		forth = "init one, init two, env one, env two, finalizer one, finalizer two"
		back  = "init two, init one, env two, env one, finalizer two, finalizer one"
	)
	invalid := rig.Object("networking.k8s.io/v1/Ingress/invalid", nil, "spec: {}")
	fails := func(r *rig.Rig) {
		op, err := r.Upgrade("plain", rig.UseChart(chartWithLists(r.T, [2]string{"two", "one"}, invalid), nil))
		r.MustFail(op, err, "Ingress/invalid")
		if got := listOrder(r); !strings.HasPrefix(got, "init two") {
			r.T.Fatalf("after the failed revision the lists are %s", got)
		}
	}
	for name, then := range map[string]func(r *rig.Rig, first *charts.Chart) string{
		"rollback": func(r *rig.Rig, _ *charts.Chart) string {
			fails(r)
			r.MustRun(r.Rollback(1))
			return forth
		},
		"upgrade": func(r *rig.Rig, first *charts.Chart) string {
			fails(r)
			r.MustRun(r.Upgrade("plain", rig.UseChart(first, nil)))
			return forth
		},
		"rollback-on-failure": func(r *rig.Rig, _ *charts.Chart) string {
			op := r.Must(r.Upgrade("plain", rig.UseChart(chartWithLists(r.T, [2]string{"two", "one"}, invalid), func(u *kube.Deploy) { u.RollbackOnFailure = true })))
			if out := r.Run(op, nil); out.State.Exit != 1 {
				r.T.Fatalf("exit %d: %v", out.State.Exit, out.Err)
			}
			return forth
		},
		"edited": func(r *rig.Rig, first *charts.Chart) string {
			deployments := r.Cluster.AppsV1().Deployments(r.Namespace)
			d, err := deployments.Get(r.T.Context(), "d0", metav1.GetOptions{})
			if err != nil {
				r.T.Fatal(err)
			}
			d.ResourceVersion = "" // its controller may write the status in the meantime
			slices.Reverse(d.Spec.Template.Spec.InitContainers)
			slices.Reverse(d.Spec.Template.Spec.Containers[0].Env)
			if _, err := deployments.Update(r.T.Context(), d, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
				r.T.Fatal(err)
			}
			r.MustRun(r.Upgrade("plain", rig.UseChart(first, nil)))
			return forth
		},
		"plain": func(r *rig.Rig, _ *charts.Chart) string {
			r.MustRun(r.Upgrade("plain", rig.UseChart(chartWithLists(r.T, [2]string{"two", "one"}), nil)))
			return back
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.NewNamed(t, "order-of-lists-"+name)
			first := chartWithLists(t, [2]string{"one", "two"})
			r.Deploy("plain", rig.UseChart(first, nil))
			if want, got := then(r, first), listOrder(r); got != want {
				t.Errorf("the lists are %s, want %s", got, want)
			}
		})
	}
}

// TestPolicyOfTheChart: an admission policy in a group also changes unchanged objects of later
// groups.
func TestPolicyOfTheChart(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.SkipUnlessServed("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "1.36")
	r.Meddles = "the policy would change objects that were applied before it"
	version := func(policy ...string) *charts.Chart {
		var docs []string
		for i := range 4 {
			docs = append(docs, rig.ConfigMap(fmt.Sprint("before", i), rig.Group("a")), rig.ConfigMap(fmt.Sprint("after", i), rig.Group("c", "b")))
		}
		return rig.ChartOf(t, append(docs, append(policy, rig.ConfigMap("before-c", rig.Group("b", "a")))...)...)
	}
	policy := rig.Object("admissionregistration.k8s.io/v1/MutatingAdmissionPolicy/"+r.Namespace, rig.Group("b", "a"), `spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+r.Namespace+`}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  reinvocationPolicy: Never
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{data: {"policy": "was here"}}'}}]`)
	binding := rig.Object("admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding/"+r.Namespace, rig.Group("b", "a"), "spec: {policyName: "+r.Namespace+"}")
	r.Deploy("plain", rig.UseChart(version(), nil))
	op := r.Must(r.Upgrade("plain", rig.UseChart(version(policy, binding), func(u *kube.Deploy) { u.BreakOn = []string{"edge:c"} })))
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Data: map[string]string{"is": "probe"}}
	out := r.Run(op, func(e event.Event) {
		if e.Kind != event.KindRun || e.Status != event.Paused {
			return
		}
		r.Eventually("the policy is in effect", func() bool {
			c, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil && c.Data["policy"] != ""
		})
		op.Command(event.Command{Name: event.Resume})
	})
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	for name, want := range map[string]string{"before0": "", "after0": "was here"} {
		if got := r.ConfigMapData(name)["policy"]; got != want {
			t.Errorf("%s has the policy value %q, want %q", name, got, want)
		}
	}
}

// TestUnchangedByResponse: an object that the apply did not change counts as unchanged, even if somebody has changed it
// since lockstep read it.
func TestUnchangedByResponse(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.ConfigMap("c", rig.Group("a")), rig.Object("v1/Service/s", rig.Group("b", "a"), "spec: {type: ClusterIP, ports: [{port: 80}]}"),
		rig.Object("v1/Service/first", rig.Group("a"), "spec: {type: ClusterIP, ports: [{port: 80}]}"))
	r.Deploy("plain", rig.UseChart(chart, nil))
	op := r.Must(r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.BreakOn = []string{"edge:b"} })))
	out := r.Run(op, func(e event.Event) {
		if e.Kind != event.KindRun || e.Status != event.Paused {
			return
		}
		patch := `{"metadata":{"annotations":{"seen":"` + time.Now().String() + `"}}}`
		if _, err := r.Cluster.CoreV1().Services(r.Namespace).Patch(t.Context(), "s", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Error(err)
		}
		time.Sleep(1100 * time.Millisecond) // managedFields have times in whole seconds
		op.Command(event.Command{Name: event.Resume})
	})
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	for _, id := range []string{"edge:a", "edge:b"} {
		g := out.State.Find("apply", id)
		for _, o := range g.Objects {
			if o.Change != event.Unchanged {
				t.Errorf("%s counts as %s", o.Object, o.Change)
			}
		}
		if g.Message != string(event.Unchanged) {
			t.Errorf("%s is %s: %q", id, g.Status, g.Message)
		}
	}
}
