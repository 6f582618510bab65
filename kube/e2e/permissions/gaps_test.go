package permissions

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestRoleGivesNothingOnClusterScope: a cluster-scoped object is refused although a Role in
// the release's namespace names its kind, because a RoleBinding grants nothing outside its
// namespace.
func TestRoleGivesNothingOnClusterScope(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	volume := rig.Object("v1/PersistentVolume/"+r.Namespace, nil, "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /nowhere}}")
	few := r.WithClient(r.ConnectAs("few", rig.Rule("", "configmaps,secrets", "*"), rig.Rule("", "persistentvolumes", "*")))
	grantEverywhere(r, "few", rig.Rule("", "persistentvolumes", "get"))
	_, err := few.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), volume), nil))
	if err == nil || !strings.Contains(err.Error(), "in the whole cluster: persistentvolumes [create patch]") || strings.Contains(err.Error(), "configmaps") {
		t.Errorf("error %v", err)
	}
}

// TestAllMissingPermissionsAreReported: missing permissions in one namespace are reported although the API
// server cannot evaluate those in another.
func TestAllMissingPermissionsAreReported(t *testing.T) {
	t.Parallel()
	for name, muteOther := range map[string]bool{"first": false, "second": true} { // of two namespaces
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			other := r.Namespace + "-other"
			if _, err := r.Cluster.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.ConnectAs("few", rig.Rule("", "secrets", "*"))
			grantEverywhere(r, "few", rig.Rule("", "configmaps", "get"))
			c := r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
				if !strings.HasPrefix(req.URL.Path, "/apis/authorization") {
					return false
				}
				body, err := io.ReadAll(req.Body)
				req.Body = io.NopCloser(bytes.NewReader(body))
				return err == nil && bytes.Contains(body, []byte(other)) == muteOther && rig.InternalError(w)
			}}, r.Namespace+"-few")
			away := strings.Replace(rig.ConfigMap("b", nil), "name: b", "name: b\n  namespace: "+other, 1)
			_, err := r.WithClient(c).Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), away), func(i *kube.Deploy) { i.ReadinessTimeout = time.Second }))
			missing := "in namespace " + r.Namespace + ": configmaps [create patch]"
			if !muteOther {
				missing = "in namespace " + other + ": configmaps [create patch]"
			}
			if err == nil || !strings.Contains(err.Error(), missing) {
				t.Errorf("error %v, want it to name %q", err, missing)
			}
		})
	}
}

// TestGivesBackWithPermission: the uninstall of a release that has taken over an object gives it back, for which it needs patch,
// not delete. Without that, it is refused before its first write.
func TestGivesBackWithPermission(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.TakesOver = []string{"configmaps/theirs"}
	r.Create(rig.ConfigMap("theirs", nil))
	fails := rig.ChartOf(t, rig.ConfigMap("theirs", rig.Group("a")), rig.UnpullableDeployment("fails", rig.Impatient(rig.Group("b", "a"))))
	op, err := r.Install("plain", rig.UseChart(fails, func(i *kube.Deploy) { i.TakeOwnership = true }))
	r.MustFail(op, err)
	rules := []rbacv1.PolicyRule{rig.Rule("", "secrets", "*"), rig.Rule("coordination.k8s.io", "leases", "*"), rig.Rule("apps", "deployments", "*")}
	few := r.WithClient(r.ConnectAs("few", append(rules, rig.Rule("", "configmaps", "get", "list", "watch", "delete"))...))
	since := time.Now()
	_, err = few.Uninstall()
	r.MustRefuse(since, err, "configmaps [patch] (to give it back to its owner)")
	enough := r.WithClient(r.ConnectAs("enough", append(rules, rig.Rule("", "configmaps", "get", "list", "watch", "patch"))...))
	enough.MustRun(enough.Uninstall())
	theirs, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "theirs", metav1.GetOptions{})
	if err != nil || theirs.Annotations["meta.helm.sh/release-name"] != "" {
		t.Errorf("it was not given back: %v, %v", theirs.Annotations, err)
	}
}
