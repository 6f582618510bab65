package permissions

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rbacv1 "k8s.io/api/rbac/v1"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// ruleForNames returns a rule for objects with the given names only.
func ruleForNames(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	r := rig.Rule(group, resource, verbs...)
	r.ResourceNames = names
	return r
}

// rulesByName returns permissions for the objects of a chart by name, and for the release records. list and create have no
// names.
func rulesByName(lease bool) []rbacv1.PolicyRule {
	verbs := []string{"get", "create", "patch", "delete"}
	rules := []rbacv1.PolicyRule{
		rig.Rule("", "secrets", "list", "create"),
		ruleForNames("", "secrets", []string{"sh.helm.release.v1.t.v1", "sh.helm.release.v1.t.v2", "sh.helm.release.v1.t.v3"}, "get", "update", "delete"),
		ruleForNames("", "configmaps", []string{"a", "b", "c", "d", "e"}, verbs...),
		ruleForNames("", "services", []string{"web"}, verbs...),
		ruleForNames("apps", "deployments", []string{"web"}, verbs...),
	}
	if lease {
		rules = append(rules, rig.Rule("coordination.k8s.io", "leases", "create"), ruleForNames("coordination.k8s.io", "leases", []string{"lockstep.v1.t"}, "get", "update", "delete"))
	}
	return rules
}

// colourChart returns a chart of a Service, ConfigMaps, with more enough for a list call, and a Deployment that waits for
// the ConfigMaps.
func colourChart(t *testing.T, colour string, more ...string) *charts.Chart {
	docs := []string{rig.Deployment("web", rig.Group("web", "settings"), "100ms"), rig.Object("v1/Service/web", rig.Group("web"), "spec: {selector: {app: web}, ports: [{port: 80}]}")}
	for _, name := range append([]string{"a", "b", "c", "d"}, more...) {
		docs = append(docs, rig.ConfigMap(name, rig.Group("settings"), "color: "+colour))
	}
	docs[0] = strings.ReplaceAll(docs[0], plan.AnnotationGroupDependsOn, "helm.sh/depends-on-resource-groups") // the key that Helm accepts
	return rig.ChartOf(t, docs...)
}

// TestPermissionsByNameAreEnoughForHelm shows that Helm needs no more permissions than TestPermissionsByName gives to lockstep.
func TestPermissionsByNameAreEnoughForHelm(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.ConnectAs("few", rulesByName(false)...)
	s := cli.New()
	s.KubeConfig, s.KubeAsUser = rig.Sandbox.Kubeconfig, r.Namespace+"-few"
	s.SetNamespace(r.Namespace)
	config := func() *action.Configuration {
		cfg := action.NewConfiguration()
		if err := cfg.Init(s.RESTClientGetter(), r.Namespace, "secret"); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	load := func(c *charts.Chart) *chart.Chart {
		out, err := c.Helm()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	in := action.NewInstall(config())
	in.ReleaseName, in.Namespace, in.WaitStrategy = "t", r.Namespace, helmkube.HookOnlyStrategy
	if _, err := in.Run(load(colourChart(t, "red", "e")), nil); err != nil {
		t.Fatal("install:", err)
	}
	up := action.NewUpgrade(config())
	up.Namespace, up.WaitStrategy = r.Namespace, helmkube.HookOnlyStrategy
	if _, err := up.Run("t", load(colourChart(t, "green")), nil); err != nil {
		t.Fatal("upgrade:", err)
	}
	back := action.NewRollback(config())
	back.Version, back.WaitStrategy = 1, helmkube.HookOnlyStrategy
	if err := back.Run("t"); err != nil {
		t.Fatal("rollback:", err)
	}
	un := action.NewUninstall(config())
	un.WaitStrategy = helmkube.HookOnlyStrategy
	if _, err := un.Run("t"); err != nil {
		t.Fatal("uninstall:", err)
	}
}

// TestPermissionsByName runs all four operations as a user whose Role names the objects, with and
// without permissions for the Lease.
func TestPermissionsByName(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]bool{"lease": true, "no lease": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			few := r.WithClient(r.ConnectAs("few", rulesByName(lease)...))
			out := few.MustRun(few.Install("plain", rig.UseChart(colourChart(t, "red", "e"), nil)))
			if says := out.HasWarning("R51", "leases"); says == lease {
				t.Errorf("warnings %v", out.State.Warnings)
			}
			few.MustRun(few.Upgrade("plain", rig.UseChart(colourChart(t, "green"), nil)))
			if got := r.ConfigMapData("a")["color"]; got != "green" {
				t.Errorf("after the upgrade a is %s", got)
			}
			few.MustRun(few.Rollback(1))
			if got := r.ConfigMapData("e")["color"]; got != "red" {
				t.Errorf("after the rollback e is %s", got)
			}
			few.MustRun(few.Uninstall())
			if left := r.Labelled(); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
		})
	}
}

// TestMissingPermissionsByName: a refusal names the objects that the user has no permissions for, if the
// user has permissions for others of the kind. Nothing is written.
func TestMissingPermissionsByName(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	rules := rulesByName(false)
	rules[2].ResourceNames = []string{"a", "b", "d"}
	rules[3].Verbs = slices.DeleteFunc(slices.Clone(rules[3].Verbs), func(v string) bool { return v == "create" })
	few := r.WithClient(r.ConnectAs("few", rules...))
	_, err := few.Install("plain", rig.UseChart(colourChart(t, "red", "e"), nil))
	want := "in namespace " + r.Namespace + ": configmaps c, e [create get patch], services [create]; ask an administrator to grant them (\"lockstep rbac\" prints the roles)"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if w := r.Writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}

// TestReferencesAreSeenByName: references are checked even if the user may only get the objects by name, not list them.
func TestReferencesAreSeenByName(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	names := []string{"m1", "m2", "m3", "m4", "m5"}
	r.Create(rig.ConfigMap("m1", nil), rig.ConfigMap("m2", nil), rig.ConfigMap("m3", nil), rig.ConfigMap("m4", nil))
	few := r.WithClient(r.ConnectAs("few", rig.Rule("batch", "jobs", "*"), rig.Rule("", "secrets", "*"), ruleForNames("", "configmaps", names, "get")))
	from := ""
	for _, n := range names {
		from += "{configMapRef: {name: " + n + "}}, "
	}
	op, err := few.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Object("batch/v1/Job/seed", nil,
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x, envFrom: ["+from+"]}]}}}")), nil))
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, w := range op.Warnings() {
		for _, n := range names {
			if strings.Contains(w.Message, "ConfigMap/"+n) {
				missing = append(missing, n)
			}
		}
	}
	if !slices.Equal(missing, []string{"m5"}) {
		t.Errorf("reported as missing: %v, want [m5]; warnings %v", missing, op.Warnings())
	}
}
