package kube

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
)

// named is a rule for the objects of some names alone.
func named(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
	r := rule(group, resource, verbs...)
	r.ResourceNames = names
	return r
}

// byName are rights to the objects of a chart by their names, and to the records of the
// release as Helm has to have them: a list and a POST have no names.
func byName(lease bool) []rbacv1.PolicyRule {
	verbs := []string{"get", "create", "patch", "delete"}
	rules := []rbacv1.PolicyRule{
		rule("", "secrets", "list", "create"),
		named("", "secrets", []string{"sh.helm.release.v1.t.v1", "sh.helm.release.v1.t.v2", "sh.helm.release.v1.t.v3"}, "get", "update", "delete"),
		named("", "configmaps", []string{"a", "b", "c", "d", "e"}, verbs...),
		named("", "services", []string{"web"}, verbs...),
		named("apps", "deployments", []string{"web"}, verbs...),
	}
	if lease {
		rules = append(rules, rule("coordination.k8s.io", "leases", "create"), named("coordination.k8s.io", "leases", []string{"lockstep.v1.t"}, "get", "update", "delete"))
	}
	return rules
}

// colours is a chart of five ConfigMaps, more than are asked for one by one, a
// Service and a Deployment that waits for them.
func colours(t *testing.T, colour string, more ...string) *charts.Chart {
	docs := []string{deployment("web", group("web", "settings"), "100ms"), object("v1/Service/web", group("web"), "spec: {selector: {app: web}, ports: [{port: 80}]}")}
	for _, name := range append([]string{"a", "b", "c", "d"}, more...) {
		docs = append(docs, configMap(name, group("settings"), "color: "+colour))
	}
	docs[0] = strings.ReplaceAll(docs[0], plan.AnnotationGroupDependsOn, "helm.sh/depends-on-resource-groups") // which Helm takes, too
	return one(t, docs...)
}

// TestRightsByNameAreEnoughForHelm shows what Helm itself needs: what is asked of a
// user of ours must be no more.
func TestRightsByNameAreEnoughForHelm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.as("few", byName(false)...)
	s := cli.New()
	s.KubeConfig, s.KubeAsUser = sandbox.Kubeconfig, r.namespace+"-few"
	s.SetNamespace(r.namespace)
	config := func() *action.Configuration {
		cfg := action.NewConfiguration()
		if err := cfg.Init(s.RESTClientGetter(), r.namespace, "secret"); err != nil {
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
	in.ReleaseName, in.Namespace, in.WaitStrategy = "t", r.namespace, helmkube.HookOnlyStrategy
	if _, err := in.Run(load(colours(t, "red", "e")), nil); err != nil {
		t.Fatal("install:", err)
	}
	up := action.NewUpgrade(config())
	up.Namespace, up.WaitStrategy = r.namespace, helmkube.HookOnlyStrategy
	if _, err := up.Run("t", load(colours(t, "green")), nil); err != nil {
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

// TestRightsByName carries out all four operations as a user whose Role names the
// objects, with and without rights on the Lease.
func TestRightsByName(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]bool{"lease": true, "no lease": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			few := r.acting(r.as("few", byName(lease)...))
			out := few.mustRun(few.install("plain", use(colours(t, "red", "e"), nil)))
			if says := out.says("R51", "leases"); says == lease {
				t.Errorf("warnings %v", out.state.Warnings)
			}
			few.mustRun(few.upgrade("plain", useUp(colours(t, "green"), nil)))
			if got := r.data("a")["color"]; got != "green" {
				t.Errorf("after the upgrade a is %s", got)
			}
			few.mustRun(few.rollback(1))
			if got := r.data("e")["color"]; got != "red" {
				t.Errorf("after the rollback e is %s", got)
			}
			few.mustRun(few.uninstall())
			if left := r.labelled(); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// TestRightsMissingByName names the objects that the user has no rights to, where he
// has some to others of the kind, and writes nothing.
func TestRightsMissingByName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rules := byName(false)
	rules[2].ResourceNames = []string{"a", "b", "d"}
	rules[3].Verbs = slices.DeleteFunc(slices.Clone(rules[3].Verbs), func(v string) bool { return v == "create" })
	few := r.acting(r.as("few", rules...))
	_, err := few.install("plain", use(colours(t, "red", "e"), nil))
	want := "in namespace " + r.namespace + ": configmaps c, e [create get patch], services [create]"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if w := r.writes(); len(w) > 0 {
		t.Errorf("written: %v", w)
	}
}

// TestReferencesAreSeenByName finds what is missing of objects that the user may get by
// their names, though not list.
func TestReferencesAreSeenByName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	names := []string{"m1", "m2", "m3", "m4", "m5"}
	r.create(configMap("m1", nil), configMap("m2", nil), configMap("m3", nil), configMap("m4", nil))
	few := r.acting(r.as("few", rule("batch", "jobs", "*"), rule("", "secrets", "*"), named("", "configmaps", names, "get")))
	from := ""
	for _, n := range names {
		from += "{configMapRef: {name: " + n + "}}, "
	}
	op, err := few.install("plain", use(one(t, object("batch/v1/Job/seed", nil,
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x, envFrom: ["+from+"]}]}}}")), nil))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, w := range op.Warnings() {
		for _, n := range names {
			if strings.Contains(w.Message, "ConfigMap/"+n) {
				told = append(told, n)
			}
		}
	}
	if !slices.Equal(told, []string{"m5"}) {
		t.Errorf("missing are %v, of %v", told, op.Warnings())
	}
}
