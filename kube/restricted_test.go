package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/throwaway/meddle"
)

// shopLike is a chart of several kinds, of which some wait for others.
func shopLike(t *testing.T, more ...string) func(*Install) {
	return use(one(t, append([]string{
		configMap("settings", group("base")), object("v1/Secret/key", group("base"), "stringData: {k: v}"),
		object("v1/PersistentVolumeClaim/data", group("base"), "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
		deployment("api", group("api", "base"), "100ms"), object("v1/Service/api", group("api", "base"), "spec: {selector: {app: api}, ports: [{port: 80}]}"),
		job("seed", group("seed", "api"), "10ms"),
	}, more...)...), func(i *Install) { i.WaitForJobs = true })
}

// ofNamespace are rights on the kinds of that chart.
func ofNamespace(verbs ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", "configmaps,secrets,services,persistentvolumeclaims", verbs...), rule("apps", "deployments", verbs...),
		rule("batch", "jobs", verbs...), rule("coordination.k8s.io", "leases", verbs...),
	}
}

// TestFewRightsAreEnough installs, upgrades and uninstalls as users who have
// rights in the release's namespace alone, and some of those not.
func TestFewRightsAreEnough(t *testing.T) {
	t.Parallel()
	all := []string{"get", "list", "watch", "create", "patch", "update", "delete"}
	unwatched := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == "watch" })
	unlisted := ofNamespace(all...)
	unlisted[1].Verbs = []string{"get", "create", "patch", "delete"}
	for name, tt := range map[string]struct {
		rules  []rbacv1.PolicyRule
		notice string // of what is made do without
	}{
		"namespace": {ofNamespace(all...), ""},
		"watch":     {ofNamespace(unwatched...), "no right to watch deployments.apps"},
		"list":      {unlisted, "no right to watch deployments.apps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			few := r.acting(r.as("few", tt.rules...))
			out := few.mustRun(few.install("plain", shopLike(t)))
			if told := slices.ContainsFunc(out.state.Warnings, func(e event.Event) bool { return strings.Contains(e.Message, tt.notice) }); !told && tt.notice != "" {
				t.Errorf("warnings %v, none says %q", out.state.Warnings, tt.notice)
			}
			few.mustRun(few.uninstall())
			if left := r.labelled(); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// TestAdminOfOneNamespace does everything as somebody who has the ClusterRole admin in
// the release's namespace, and may read nothing outside of it.
func TestAdminOfOneNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	admin := r.acting(r.bound("admin", "ClusterRole", "admin", ofNamespace("get", "create")))
	admin.everyOperation(false, func(out outcome) {
		for _, w := range out.state.Warnings {
			t.Errorf("%s %s", w.Rule, w.Message)
		}
	})
}

// TestGetAndPatchAreEnoughForWhatIsThere upgrades as somebody who may create nothing
// but the release record, where all objects are there, as Helm does; and who may not
// even ask which rights there are.
func TestGetAndPatchAreEnoughForWhatIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	settings := func(data string) *charts.Chart {
		return one(t, configMap("a", group("base"), data), configMap("b", group("next", "base"), data))
	}
	r.mustRun(r.install("plain", use(settings("color: red"), nil)))
	asked := r.acting(r.as("few", rule("", "configmaps", "get", "patch"), rule("", "secrets", "get", "list", "create", "update")))
	few := r.acting(r.through(middle{meddle: func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/apis/authorization") {
			return false
		}
		meddle.Refuse(w, http.StatusForbidden, string(metav1.StatusReasonForbidden), "nobody may ask")
		return true
	}}, r.namespace+"-few"))
	few.mustRun(few.upgrade("plain", useUp(settings("color: green"), nil)))
	if got := r.data("b")["color"]; got != "green" {
		t.Errorf("b is %s", got)
	}
	asked.mustRun(asked.upgrade("plain", useUp(settings("color: blue"), nil)))
}

// TestWhatMayNotBeSeenIsNotMissed finds nothing missing where the user may not see
// whether it is there.
func TestWhatMayNotBeSeenIsNotMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rules := append(ofNamespace("*"), rule("networking.k8s.io", "ingresses", "*"))
	rules[0].Resources = []string{"services", "persistentvolumeclaims"}
	rules = append(rules, rule("", "secrets", "list", "create", "update"))
	few := r.acting(r.as("few", rules...))
	op, err := few.install("plain", use(one(t,
		object("v1/PersistentVolumeClaim/data", nil, "spec: {storageClassName: none-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
		object("networking.k8s.io/v1/Ingress/web", nil, "spec: {ingressClassName: none-such, defaultBackend: {service: {name: none-such, port: {number: 80}}}}"),
		object("batch/v1/Job/seed", nil, "spec: {template: {spec: {restartPolicy: Never, priorityClassName: none-such, serviceAccountName: none-such, containers: [{name: c, image: x, envFrom: [{configMapRef: {name: none-such}}, {secretRef: {name: none-such}}]}]}}}"),
	), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range op.Warnings() {
		if strings.Contains(w.Message, "none-such") && !strings.Contains(w.Message, "Service/none-such") { // which the user may see
			t.Errorf("claimed without a look: %s", w.Message)
		}
	}
}

// TestWhatMayNotBeReadIsTold diagnoses for a user who may read neither pods nor
// events nor classes: the cause says what it does not know, and why.
func TestWhatMayNotBeReadIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	few := r.acting(r.as("few", ofNamespace("*")...))
	all := []trouble{
		{deployment("stuck", map[string]string{}, "1h"), "Deployment/stuck", "0 of 1 available (more is not known: pods cannot be read: user " + r.namespace + "-few may not list pods; events cannot be read: …", "may not list events"},
		{object("v1/PersistentVolumeClaim/classy", nil, "spec: {storageClassName: none-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"), "PersistentVolumeClaim/classy",
			"no volume of class none-such yet (more is not known: …", "StorageClass none-such cannot be read: user " + r.namespace + "-few may not get storageclasses"},
	}
	op, err := few.install("plain", use(inTrouble(t, all), func(i *Install) { i.ReadinessTimeout = 2 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	few.run(op, nil).causes(t, all)
}

// TestAggregatedAPIDown installs and uninstalls while an API that somebody else
// serves beside the cluster's own does not answer. It runs alone: Helm itself
// refuses to work on such a cluster.
func TestAggregatedAPIDown(t *testing.T) {
	r := newRig(t)
	api := r.namespace + ".example"
	r.create(object("apiregistration.k8s.io/v1/APIService/v1."+api, nil,
		"spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: "+r.namespace+", name: nowhere}}"))
	t.Cleanup(func() {
		_ = r.client.Dynamic.Resource(apiServiceResource).Delete(context.Background(), "v1."+api, metav1.DeleteOptions{})
	})
	r.client = connected(t, r.namespace) // knows nothing from before
	r.mustRun(r.install("plain", shopLike(t)))
	r.mustRun(r.uninstall())

	// What needs it waits for it, and says what it waits for.
	thing := object(api+"/v1/Thing/x", group("things", "api"))
	var told []string
	needs := func(i *Install) {
		i.ReadinessTimeout = 2 * time.Second
		i.Doing = func(what string) { told = append(told, what) }
	}
	_, err := r.install("plain", use(one(t, thing, configMap("settings", group("api"))), needs))
	down := "APIService/v1." + api + " is not available: ServiceNotFound: "
	var refusal *Refusal
	if !errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), down) || refusal.Because[0].Object.Name != "v1."+api {
		t.Errorf("error %v, want %s", err, down)
	}
	if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, down) && strings.HasSuffix(s, "; waiting") }) {
		t.Errorf("told %q", told)
	}

	// What brings it itself does not wait before it begins; its gate says why.
	if err := r.client.Dynamic.Resource(apiServiceResource).Delete(t.Context(), "v1."+api, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the API is gone", func() bool {
		_, err := r.client.Dynamic.Resource(apiServiceResource).Get(t.Context(), "v1."+api, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	own := one(t, thing, object("apiregistration.k8s.io/v1/APIService/v1."+api, group("api"),
		"spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: "+r.namespace+", name: nowhere}}"))
	for range 2 { // then it is there, and down
		r.client = connected(t, r.namespace)
		op, err := r.install("plain", use(own, needs))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.run(op, nil); out.state.Exit != 1 || out.state.Root == nil || out.state.Root.Kind != "APIService" || !strings.Contains(out.state.Cause, "nowhere") {
			t.Errorf("exit %d: %v: %s (%s)", out.state.Exit, out.state.Root, out.state.Cause, out.state.Message)
		}
	}
}
