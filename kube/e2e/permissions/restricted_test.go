package permissions

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/faultproxy"
)

// namespaceRules returns permissions for the kinds of rig.ShopLikeChart.
func namespaceRules(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rig.Rule("", "configmaps,secrets,services,persistentvolumeclaims", verbs...), rig.Rule("apps", "deployments", verbs...),
		rig.Rule("batch", "jobs", verbs...), rig.Rule("coordination.k8s.io", "leases", verbs...),
	}
}

// TestFewPermissionsAreEnough installs and uninstalls as users with few permissions, in the release's namespace only.
func TestFewPermissionsAreEnough(t *testing.T) {
	t.Parallel()
	all := []string{"get", "list", "watch", "create", "patch", "update", "delete"}
	unwatched := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == "watch" })
	unlisted := namespaceRules(all...)
	unlisted[1].Verbs = []string{"get", "create", "patch", "delete"}
	for name, tt := range map[string]struct {
		rules  []rbacv1.PolicyRule
		notice string // the warning about the missing permission
	}{
		"namespace": {namespaceRules(all...), ""},
		"watch":     {namespaceRules(unwatched...), "no permission to watch deployments.apps"},
		"list":      {unlisted, "no permission to list deployments.apps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			few := r.WithClient(r.ConnectAs("few", tt.rules...))
			out := few.MustRun(few.Install("plain", rig.ShopLikeChart(t)))
			if warned := slices.ContainsFunc(out.State.Warnings, func(e event.Event) bool { return strings.Contains(e.Message, tt.notice) }); !warned && tt.notice != "" {
				t.Errorf("warnings %v, none says %q", out.State.Warnings, tt.notice)
			}
			few.MustRun(few.Uninstall())
			if left := r.Labelled(); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
		})
	}
}

// TestAdminOfOneNamespace runs every operation as a user with the ClusterRole admin in the release's namespace and no other
// permissions. There are no warnings.
func TestAdminOfOneNamespace(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	admin := r.WithClient(r.ConnectBound("admin", "ClusterRole", "admin", namespaceRules("get", "create")))
	admin.RunEveryOperation(false, func(out rig.Outcome) {
		for _, w := range out.State.Warnings {
			t.Errorf("%s %s", w.Rule, w.Message)
		}
	})
}

// TestGetAndPatchSufficeForExistingObjects upgrades as a user who may only get and patch the objects and write the release
// records, which is enough for Helm, and then with access reviews refused as well.
func TestGetAndPatchSufficeForExistingObjects(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	settings := func(data string) *charts.Chart {
		return rig.ChartOf(t, rig.ConfigMap("a", rig.Group("base"), data), rig.ConfigMap("b", rig.Group("next", "base"), data))
	}
	r.MustRun(r.Install("plain", rig.UseChart(settings("color: red"), nil)))
	asked := r.WithClient(r.ConnectAs("few", rig.Rule("", "configmaps", "get", "patch"), rig.Rule("", "secrets", "get", "list", "create", "update")))
	few := r.WithClient(r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/apis/authorization") {
			return false
		}
		faultproxy.Refuse(w, http.StatusForbidden, string(metav1.StatusReasonForbidden), "nobody may ask")
		return true
	}}, r.Namespace+"-few"))
	few.MustRun(few.Upgrade("plain", rig.UseChart(settings("color: green"), nil)))
	if got := r.ConfigMapData("b")["color"]; got != "green" {
		t.Errorf("b is %s", got)
	}
	asked.MustRun(asked.Upgrade("plain", rig.UseChart(settings("color: blue"), nil)))
}

// TestUnreadableIsNotMissing: objects that the user may not read are not reported as
// missing.
func TestUnreadableIsNotMissing(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	rules := append(namespaceRules("*"), rig.Rule("networking.k8s.io", "ingresses", "*"))
	rules[0].Resources = []string{"services", "persistentvolumeclaims"}
	rules = append(rules, rig.Rule("", "secrets", "list", "create", "update"))
	few := r.WithClient(r.ConnectAs("few", rules...))
	op, err := few.Install("plain", rig.UseChart(rig.ChartOf(t,
		rig.Object("v1/PersistentVolumeClaim/data", nil, "spec: {storageClassName: none-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
		rig.Object("networking.k8s.io/v1/Ingress/web", nil, "spec: {ingressClassName: none-such, defaultBackend: {service: {name: none-such, port: {number: 80}}}}"),
		rig.Object("batch/v1/Job/seed", nil, "spec: {template: {spec: {restartPolicy: Never, priorityClassName: none-such, serviceAccountName: none-such, containers: [{name: c, image: x, envFrom: [{configMapRef: {name: none-such}}, {secretRef: {name: none-such}}]}]}}}"),
	), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range op.Warnings() {
		if strings.Contains(w.Message, "none-such") && !strings.Contains(w.Message, "Service/none-such") { // the user may read Services
			t.Errorf("reported as missing without being read: %s", w.Message)
		}
	}
}

// TestDiagnosisWithoutPermissions diagnoses for a user who may not read pods, events and StorageClasses. The cause says what is
// unknown and why.
func TestDiagnosisWithoutPermissions(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	few := r.WithClient(r.ConnectAs("few", namespaceRules("*")...))
	all := []rig.Trouble{
		{Doc: rig.Deployment("stuck", map[string]string{}, "1h"), Object: "Deployment/stuck",
			Cause: "0 of 1 available (details unavailable: pods cannot be read: user " + r.Namespace + "-few may not list pods; events cannot be read: …", Evidence: "may not list events"},
		{Doc: rig.Object("v1/PersistentVolumeClaim/classy", nil, "spec: {storageClassName: none-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"), Object: "PersistentVolumeClaim/classy",
			Cause: "no volume of class none-such yet (details unavailable: …", Evidence: "StorageClass none-such cannot be read: user " + r.Namespace + "-few may not get storageclasses"},
	}
	op := few.Must(few.Install("plain", rig.UseChart(rig.TroubleChart(t, all), func(i *kube.Deploy) { i.ReadinessTimeout = 8 * time.Second })))
	few.Run(op, nil).AssertCauses(t, all)
}
