package kube

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/charts"
)

// helmBinary is Helm itself, built from the module that go.mod names.
func helmBinary(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "helm").Output()
	if err != nil {
		t.Fatalf("build helm from its module: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// runHelm runs the real helm in the test's namespace.
func (r *rig) runHelm(args ...string) (string, error) {
	r.t.Helper()
	home := r.t.TempDir()
	cmd := exec.Command(helmBinary(r.t), append(args, "-n", r.namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+sandbox.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HELM_NAMESPACE=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (r *rig) mustHelm(args ...string) string {
	r.t.Helper()
	out, err := r.runHelm(args...)
	if err != nil {
		r.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestBackAndForthWithHelm hands a release from one program to the other and
// back (R28): install with one, upgrade with the other, roll back with the
// first, uninstall with the second.
func TestBackAndForthWithHelm(t *testing.T) {
	t.Parallel()
	const chart = "stored-keys"
	path := filepath.Join(chartsDir, chart)
	t.Run("lockstep first", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.deploy(chart, nil)
		r.mustHelm("upgrade", "t", path)
		op, err := r.rollback(1)
		out := r.mustRun(op, err)
		if n := len(out.state.Phases[0].Groups); n != 3 {
			t.Errorf("revision 1 was sequenced in 3 groups, and is rolled back to in %d (R32)", n)
		}
		if got, want := r.history(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
			t.Errorf("history %v, want %v", got, want)
		}
		if status := r.mustHelm("status", "t"); !strings.Contains(status, "STATUS: deployed") {
			t.Errorf("helm status: %s", status)
		}
		r.mustHelm("uninstall", "t")
		if left := r.labelled(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("helm first", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.mustHelm("install", "t", path)
		op, err := r.upgrade(chart, nil)
		r.mustRun(op, err)
		r.mustHelm("rollback", "t", "1")
		if got, want := r.history(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
			t.Errorf("history %v, want %v", got, want)
		}
		op, err = r.uninstall()
		out := r.mustRun(op, err)
		if n := len(out.state.Phases[0].Groups); n != 1 {
			t.Errorf("Helm's own revision is removed in %d groups, want all at once", n)
		}
		if left := r.labelled(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestHelmReadsOurReleases has Helm roll back to a revision whose chart has
// annotation keys that the API server refuses (R3), list, and uninstall.
func TestHelmReadsOurReleases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deploy("hip9999-layers", nil)
	op, err := r.upgrade("hip9999-layers", nil)
	r.mustRun(op, err)
	r.mustHelm("rollback", "t", "1")
	for _, args := range [][]string{{"history", "t"}, {"get", "all", "t"}, {"list"}} {
		if out := r.mustHelm(args...); !strings.Contains(out, "hip9999-layers") {
			t.Errorf("helm %v: %s", args, out)
		}
	}
	// What Helm rolled back to is still ours to take away in order.
	op, err = r.uninstall()
	out := r.mustRun(op, err)
	if n := len(out.state.Phases[0].Groups); n < 3 {
		t.Errorf("a sequenced revision, rolled back to by Helm, is removed in %d groups", n)
	}
}

// TestHelmsOwnCharts installs and uninstalls every chart of Helm's own tests
// with both programs: same outcome, same objects.
func TestHelmsOwnCharts(t *testing.T) {
	t.Parallel()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "helm.sh/helm/v4").Output()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "pkg/cmd/testdata/testcharts/*"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no charts", err)
	}
	var installed atomic.Int32
	t.Cleanup(func() {
		if n := installed.Load(); n < 5 && !t.Failed() {
			t.Errorf("%d of Helm's charts are installable: is the test looking at the right folder?", n)
		}
	})
	for _, path := range paths {
		if strings.HasSuffix(path, ".prov") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			helmOut, helmErr := r.runHelm("install", "t", path)
			var want []string
			if helmErr == nil {
				want = r.objects()
				r.mustHelm("uninstall", "t", "--wait")
			}
			ours := newRigNamed(t, r.namespace+"-l")
			err := ours.tryDeploy(path)
			if (err == nil) != (helmErr == nil) {
				t.Fatalf("helm says %v (%s), lockstep %v", helmErr, helmOut, err)
			}
			if err != nil {
				return
			}
			installed.Add(1)
			if got := ours.objects(); !slices.Equal(got, want) {
				t.Errorf("objects %v, with helm %v", got, want)
			}
			op, err := ours.uninstall()
			ours.mustRun(op, err)
			if left := ours.objects(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// tryDeploy installs the chart at a path.
func (r *rig) tryDeploy(path string) error {
	c, err := charts.LoadPath(path)
	if err != nil {
		return err
	}
	op, err := r.client.PrepareInstall(context.Background(), Install{Rendering: Rendering{Chart: c}, Common: Common{Release: "t", Namespace: r.namespace}})
	if err != nil {
		return err
	}
	return r.run(op, nil).err
}

// objects lists what the namespace holds of kinds that charts have, but for
// what the cluster itself puts there.
func (r *rig) objects() []string {
	r.t.Helper()
	kinds := []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "persistentvolumeclaims"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "batch", Version: "v1", Resource: "jobs"}, {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	}
	var out []string
	for _, gvr := range kinds {
		list, err := r.client.Dynamic.Resource(gvr).Namespace(r.namespace).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, o := range list.Items {
			if name := o.GetName(); name != "kube-root-ca.crt" && name != "default" && len(o.GetOwnerReferences()) == 0 {
				out = append(out, gvr.Resource+"/"+name)
			}
		}
	}
	slices.Sort(out)
	return out
}
