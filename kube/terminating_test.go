package kube

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/event"
)

// lingers deletes the test's namespace, in which something with a finalizer keeps it
// until free is called.
func (r *rig) lingers() (free func()) {
	r.t.Helper()
	maps := r.cluster.CoreV1().ConfigMaps(r.namespace)
	stuck := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stuck", Finalizers: []string{"example.com/stuck"}}}
	if _, err := maps.Create(r.t.Context(), stuck, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.cluster.CoreV1().Namespaces().Delete(r.t.Context(), r.namespace, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		if _, err := maps.Patch(context.Background(), "stuck", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			r.t.Error(err)
		}
	}
}

// TestNamespaceThatGoes refuses to install into a namespace that is being deleted,
// and says what keeps it; with --create-namespace it waits until it is gone.
func TestNamespaceThatGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	free := r.lingers()
	const keeps = "example.com/stuck"
	r.eventually("the namespace says what keeps it", func() bool {
		ns, err := r.cluster.CoreV1().Namespaces().Get(t.Context(), r.namespace, metav1.GetOptions{})
		return err == nil && strings.Contains(ns.String(), keeps)
	})
	if _, err := r.install("plain", nil); err == nil || !strings.Contains(err.Error(), "is being deleted since") || !strings.Contains(err.Error(), keeps) {
		t.Errorf("error %v", err)
	}
	var once sync.Once
	op, err := r.install("plain", use(one(t, configMap("a", nil)), func(i *Install) {
		i.CreateNamespace = true
		i.Doing = func(what string) {
			if strings.HasPrefix(what, "waiting until namespace "+r.namespace+" is gone: ") && strings.Contains(what, keeps) {
				once.Do(free)
			}
		}
	}))
	r.mustRun(op, err)
	r.assertDeployed("t")
}

// TestNamespaceGoesMeanwhile: what is waited for is gone with its namespace, which is
// said at once; and in the end nothing is said to go on.
func TestNamespaceGoesMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	op, err := r.install("plain", use(one(t, configMap("base", group("base")), deployment("slow", group("slow", "base"), "1h"),
		configMap("last", group("last", "slow"))), func(i *Install) { i.ReadinessTimeout = 20 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	out := r.run(op, func(e event.Event) {
		if e.Group == "edge:slow" && e.Status == event.InProgress {
			once.Do(func() { t.Cleanup(r.lingers()) })
		}
	})
	if out.state.Exit != 1 || out.state.Root == nil || out.state.Root.Name != "slow" ||
		!strings.Contains(out.state.Cause, "namespace "+r.namespace+" is being deleted") || !strings.Contains(out.state.Cause, "example.com/stuck") {
		t.Errorf("exit %d: %v: %q", out.state.Exit, out.state.Root, out.state.Cause)
	}
	for _, p := range out.state.Phases {
		for _, g := range p.Groups {
			if !g.Status.Over() {
				t.Errorf("%s is %s in the end", g.ID, g.Status)
			}
		}
	}
}
