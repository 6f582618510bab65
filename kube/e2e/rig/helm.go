package rig

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/kube/throwaway/testcluster"
)

// RunHelm runs the helm binary in the test's namespace.
func (r *Rig) RunHelm(args ...string) (string, error) {
	r.T.Helper()
	home := r.T.TempDir()
	cmd := exec.Command(testcluster.Helm(r.T), append(args, "-n", r.Namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+Sandbox.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HELM_NAMESPACE=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// MustHelm is like RunHelm, but the command must succeed.
func (r *Rig) MustHelm(args ...string) string {
	r.T.Helper()
	out, err := r.RunHelm(args...)
	if err != nil {
		r.T.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Objects lists the objects of common kinds in the namespace, without those that the cluster creates.
func (r *Rig) Objects() []string {
	r.T.Helper()
	kinds := []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"},
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "persistentvolumeclaims"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "batch", Version: "v1", Resource: "jobs"}, {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	}
	var out []string
	for _, gvr := range kinds {
		list, err := r.Client.Dynamic.Resource(gvr).Namespace(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
		if err != nil {
			r.T.Fatal(err)
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
