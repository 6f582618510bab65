package infer

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// calls returns the spec of pods that call hosts.
func calls(hosts ...string) string {
	return "{containers: [{env: [{name: HOSTS, value: '" + strings.Join(hosts, ",") + "'}]}]}"
}

// groups formats the groups of a plan with their direct dependencies.
func groups(p *plan.Plan) []string {
	var out []string
	for _, g := range p.Groups {
		var names []string
		for _, o := range g.Objects {
			names = append(names, o.String())
		}
		line := g.ID + ": " + strings.Join(names, " ")
		if after := plan.Reduce(p.Groups)[g.ID]; len(after) > 0 {
			line += " after " + strings.Join(after, " ")
		}
		out = append(out, line)
	}
	return out
}

func checkGroups(t *testing.T, tree *plan.Chart, manifests string, want ...string) *Order {
	t.Helper()
	all := objects(t, manifests)
	o := From("shop", tree, all)
	if got := groups(build(t, o, tree, all)); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return o
}

// TestGroupsOfAChart: a workload and the objects that only it needs form a group. Shared objects come
// first, objects that wait for the group come later (R64).
func TestGroupsOfAChart(t *testing.T) {
	shop := &plan.Chart{Path: "shop"}
	t.Run("nothing to wait for", func(t *testing.T) {
		checkGroups(t, shop, pod("Deployment", "shop-web", "{serviceAccountName: sa}")+object("v1", "ServiceAccount", "sa", ""), "shop:(unsequenced): ServiceAccount/sa Deployment/shop-web")
	})
	t.Run("workloads", func(t *testing.T) {
		checkGroups(t, shop, serviceOf("shop-db")+pod("StatefulSet", "shop-db", "{}")+pod("Deployment", "shop-web", calls("shop-db"))+serviceOf("shop-web")+
			object("autoscaling/v2", "HorizontalPodAutoscaler", "web", "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop-web}}")+
			object("networking.k8s.io/v1", "Ingress", "shop", "spec: {defaultBackend: {service: {name: shop-web}}}"),
			"shop:db: Service/shop-db StatefulSet/shop-db",
			"shop:web: Service/shop-web Deployment/shop-web HorizontalPodAutoscaler/web after shop:db",
			"shop:ingress: Ingress/shop after shop:web")
	})
	t.Run("a shared object and an isolated workload", func(t *testing.T) {
		checkGroups(t, shop, serviceOf("shop-db")+pod("StatefulSet", "shop-db", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}")+
			pod("Deployment", "shop-web", "{containers: [{envFrom: [{secretRef: {name: s}}], env: [{name: DB_HOST, value: shop-db}]}]}")+
			pod("Deployment", "shop-alone", "{}")+object("v1", "Secret", "s", "")+object("v1", "ConfigMap", "nobodys", ""),
			"shop:base: Secret/s ConfigMap/nobodys",
			"shop:alone: Deployment/shop-alone after shop:base",
			"shop:db: Service/shop-db StatefulSet/shop-db after shop:base",
			"shop:web: Deployment/shop-web after shop:db")
	})
	t.Run("isolated objects, and none that is ready on apply", func(t *testing.T) {
		policy := object("image.toolkit.fluxcd.io/v1", "ImageRepository", "repo", "spec: {}") + object("image.toolkit.fluxcd.io/v1", "ImagePolicy", "policy", "spec: {imageRepositoryRef: {name: repo}}")
		tree := &plan.Chart{Path: "shop"}
		for _, alone := range []string{object("image.toolkit.fluxcd.io/v1", "ImageUpdateAutomation", "alone", "spec: {}"), pod("Deployment", "alone", "{}")} {
			all := objects(t, policy+alone)
			o := From("shop", tree, all)
			p := build(t, o, tree, all)
			if len(p.Warnings) > 0 || len(o.Groups) != 2 {
				t.Errorf("groups %q, warnings %v", groups(p), p.Warnings)
			}
		}
	})
	t.Run("an isolated workload with a ServiceAccount", func(t *testing.T) {
		checkGroups(t, shop, serviceOf("shop-db")+pod("StatefulSet", "shop-db", "{}")+pod("Deployment", "shop-web", calls("shop-db"))+
			pod("Deployment", "shop-alone", "{serviceAccountName: sa}")+object("v1", "ServiceAccount", "sa", ""),
			"shop:base: ServiceAccount/sa",
			"shop:alone: Deployment/shop-alone after shop:base",
			"shop:db: Service/shop-db StatefulSet/shop-db after shop:base",
			"shop:web: Deployment/shop-web after shop:db")
	})
	t.Run("objects that no workload needs, in the Namespace of a workload", func(t *testing.T) {
		in := func(text string) string {
			return strings.Replace(text, "metadata: {", "metadata: {namespace: own, ", 1)
		}
		checkGroups(t, shop, object("v1", "Namespace", "own", "")+in(pod("Deployment", "shop-web", calls("shop-db.ns")))+in(object("v1", "ConfigMap", "nobodys", ""))+serviceOf("shop-db")+pod("StatefulSet", "shop-db", "{}"),
			"shop:base: Namespace/own ConfigMap/nobodys",
			"shop:db: Service/shop-db StatefulSet/shop-db after shop:base",
			"shop:web: Deployment/shop-web after shop:db")
	})
	t.Run("a role of a workload and of people", func(t *testing.T) {
		binding := func(name, subject string) string {
			return object("rbac.authorization.k8s.io/v1", "RoleBinding", name, "roleRef: {kind: Role, name: r}\nsubjects: ["+subject+"]")
		}
		checkGroups(t, shop, object("rbac.authorization.k8s.io/v1", "Role", "r", "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]")+binding("of-web", "{kind: ServiceAccount, name: sa}")+
			binding("of-people", "{kind: Group, name: people}")+object("v1", "ServiceAccount", "sa", "")+pod("Deployment", "shop-web", "{serviceAccountName: sa}")+object("networking.k8s.io/v1", "Ingress", "shop", "spec: {defaultBackend: {service: {name: shop-web}}}")+serviceOf("shop-web"),
			"shop:base: Role/r RoleBinding/of-people",
			"shop:web: ServiceAccount/sa RoleBinding/of-web Service/shop-web Deployment/shop-web after shop:base",
			"shop:ingress: Ingress/shop after shop:web")
	})
	t.Run("custom resources", func(t *testing.T) {
		checkGroups(t, shop, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "topics.q.x", "spec: {group: q.x, names: {kind: Topic, plural: topics}}")+
			pod("Deployment", "shop-operator", "{serviceAccountName: sa}")+object("v1", "ServiceAccount", "sa", "")+
			object("rbac.authorization.k8s.io/v1", "Role", "r", "rules: [{apiGroups: [q.x], resources: [topics, topics/status], verbs: ['*']}]")+
			object("rbac.authorization.k8s.io/v1", "RoleBinding", "b", "roleRef: {kind: Role, name: r}\nsubjects: [{kind: ServiceAccount, name: sa}]")+object("q.x/v1", "Topic", "t", ""),
			"shop:crds: CustomResourceDefinition/topics.q.x",
			"shop:operator: ServiceAccount/sa Role/r RoleBinding/b Deployment/shop-operator after shop:crds",
			"shop:topics: Topic/t after shop:operator")
	})
	t.Run("a shared claim", func(t *testing.T) {
		const volume = "volumes: [{persistentVolumeClaim: {claimName: data}}]"
		checkGroups(t, shop, serviceOf("shop-a")+pod("Deployment", "shop-a", "{"+volume+"}")+pod("Deployment", "shop-b", "{"+volume+", containers: [{env: [{name: HOST, value: shop-a}]}]}")+object("v1", "PersistentVolumeClaim", "data", ""),
			"shop:base: PersistentVolumeClaim/data",
			"shop:a: Service/shop-a Deployment/shop-a after shop:base",
			"shop:b: Deployment/shop-b after shop:a")
	})
	t.Run("a claim of a Job and a Deployment", func(t *testing.T) {
		const volume = "volumes: [{persistentVolumeClaim: {claimName: data}}]"
		o := checkGroups(t, shop, pod("Deployment", "shop-web", "{"+volume+"}")+pod("Deployment", "shop-api", calls("cache"))+serviceOf("cache")+pod("Deployment", "cache", "{}")+
			pod("Job", "shop-seeder", "{"+volume+"}")+object("v1", "PersistentVolumeClaim", "data", ""),
			"shop:base: PersistentVolumeClaim/data",
			"shop:cache: Service/cache Deployment/cache after shop:base",
			"shop:seeder: Job/shop-seeder after shop:base",
			"shop:web: Deployment/shop-web after shop:base",
			"shop:api: Deployment/shop-api after shop:cache")
		i := slices.IndexFunc(o.inferred(), func(i plan.Inferred) bool { return i.Objects[0].Kind == "PersistentVolumeClaim" })
		if got := o.inferred()[i].Annotations[plan.AnnotationReadinessSuccess]; got != `["{.phase} != Lost"]` { // it may be bound only once a pod uses it
			t.Error(got)
		}
	})
	t.Run("a Job that others wait for", func(t *testing.T) {
		o := checkGroups(t, shop, pod("Job", "shop-migrate-1-0-0", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}")+pod("Deployment", "shop-web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}"),
			"shop:migrate: Job/shop-migrate-1-0-0", "shop:web: Deployment/shop-web after shop:migrate")
		got := o.inferred()[0].Annotations // of the Job
		if got[plan.AnnotationReadinessSuccess] != `["{.conditions[?(@.type==\"Complete\")].status} == True"]` || got[plan.AnnotationReadinessFailure] == "" {
			t.Error(got)
		}
	})
	t.Run("names", func(t *testing.T) {
		checkGroups(t, shop, serviceOf("db")+pod("StatefulSet", "db", "{}")+pod("Deployment", "db", "{}")+pod("Deployment", "shop", calls("db:80")),
			"shop:base: Service/db",
			"shop:db: Deployment/db after shop:base",
			"shop:db-statefulset: StatefulSet/db after shop:base",
			"shop:shop: Deployment/shop after shop:db shop:db-statefulset")
	})
}

// TestGroupNamesStay: the names of groups do not depend on the name of the release (R64).
func TestGroupNamesStay(t *testing.T) {
	for release, prefix := range map[string]string{"shop": "shop-", "prod": "prod-shop-", "other": "renamed-"} {
		all := objects(t, serviceOf(prefix+"db")+pod("StatefulSet", prefix+"db", "{}")+pod("Deployment", prefix+"web", calls(prefix+"db"))+pod("Job", prefix+"seed-2-1-0", calls(prefix+"web")))
		var names []string
		for _, g := range From(release, &plan.Chart{Path: "shop"}, all).Groups {
			names = append(names, g.Name)
		}
		if want := []string{"db", "seed", "web"}; !slices.Equal(names, append([]string{"base"}, want...)) && !slices.Equal(names, want) {
			t.Errorf("%s: %q", release, names)
		}
	}
}

// TestCycles: all edges of the weakest strength on a cycle are dropped, with a warning. A cycle of hard
// edges is an error (R66).
func TestCycles(t *testing.T) {
	shop := &plan.Chart{Path: "shop"}
	o := checkGroups(t, shop, serviceOf("a")+serviceOf("b")+serviceOf("c")+pod("Deployment", "a", calls("b"))+pod("Deployment", "b", calls("a"))+pod("Deployment", "c", calls("a")),
		"shop:base: Service/b", "shop:a: Service/a Deployment/a after shop:base", "shop:b: Deployment/b after shop:base", "shop:c: Service/c Deployment/c after shop:a")
	warnings := o.Warnings()
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0].Message, "they wait for each other: Deployment/a → Deployment/b → Deployment/a; ignored: Deployment/a waits for Deployment/b") || o.Check() != nil {
		t.Error(warnings, o.Check())
	}

	softer := objects(t, serviceOf("web")+pod("Job", "migrate", "{initContainers: [{command: [nslookup, api]}], containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}")+
		serviceOf("api")+pod("Deployment", "api", calls("web"))+pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}"))
	o = From("shop", shop, softer)
	if len(o.Dropped) != 1 || o.Dropped[0].Strength != Soft || o.Dropped[0].From.Name != "web" {
		t.Errorf("%v", o.Dropped)
	}

	hard := objects(t, object("v1", "PersistentVolumeClaim", "c", "spec: {volumeName: v}")+object("v1", "ServiceAccount", "a", "imagePullSecrets: [{name: s}]")+object("v1", "Secret", "s", ""))
	if o = From("shop", shop, hard); o.Check() != nil || len(o.Dropped) > 0 {
		t.Error(o.Check(), o.Dropped)
	}
	r := newReader(hard)
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 0}} {
		r.add(r.nodes[pair[0]], r.nodes[pair[1]], Hard, Reason{Text: "it does"})
	}
	_, dropped := r.acyclic()
	if len(dropped) != 3 || !dropped[0].Error {
		t.Error(dropped)
	}

	// Each of two monitors needs the workload that it configures.
	needs := func(name string) string {
		return pod("Deployment", name, "{containers: [{args: [--pod-monitor="+name+"]}]}") +
			object("monitoring.coreos.com/v1", "PodMonitor", name, "spec: {selector: {matchLabels: {app: "+name+"}}}")
	}
	err := From("app", shop, objects(t, needs("d")+needs("e"))).Check()
	want := "shop: objects need each other to exist first, in a cycle: Deployment/d → PodMonitor/d → Deployment/d; remove one of these references (R66)"
	if err == nil || err.Error() != want+"\n"+strings.ReplaceAll(want, "/d", "/e") {
		t.Errorf("%v, want %s and the same for e", err, want)
	}
}

// tree returns the chart shop with subcharts.
func tree(names ...string) *plan.Chart {
	c := &plan.Chart{Path: "shop"}
	for _, name := range names {
		c.Subcharts = append(c.Subcharts, plan.Subchart{Name: name, Chart: &plan.Chart{Path: "shop/" + name}})
	}
	return c
}

// in moves manifests to a subchart.
func in(chart, manifests string) string {
	return strings.ReplaceAll(manifests, "---\n", "---\n# chart: shop/"+chart+"\n")
}

// TestOrderBetweenCharts: whole subcharts wait for each other (R65).
func TestOrderBetweenCharts(t *testing.T) {
	db := in("db", serviceOf("db")+pod("StatefulSet", "db", "{}"))
	t.Run("subcharts", func(t *testing.T) {
		o := checkGroups(t, tree("api", "db"), db+in("api", pod("Deployment", "api", calls("db"))),
			"shop/db:(unsequenced): Service/db StatefulSet/db", "shop/api:(unsequenced): Deployment/api after shop/db:(unsequenced)")
		if got := o.Charts[0].Subcharts["api"]; !slices.Equal(got, []string{"db"}) {
			t.Error(got)
		}
	})
	t.Run("own objects", func(t *testing.T) {
		o := checkGroups(t, tree("db"), db+pod("Deployment", "web", calls("db")), "shop/db:(unsequenced): Service/db StatefulSet/db", "shop:(unsequenced): Deployment/web after shop/db:(unsequenced)")
		if got := o.Charts[0]; !slices.Equal(got.DependsOn, []string{"db"}) || got.Layers {
			t.Errorf("%+v", got)
		}
	})
	t.Run("own objects of which some wait", func(t *testing.T) {
		o := checkGroups(t, tree("db"), db+pod("Deployment", "web", calls("db"))+pod("Deployment", "static", "{}")+object("v1", "ConfigMap", "c", ""),
			"shop/db:(unsequenced): Service/db StatefulSet/db",
			"shop:base: ConfigMap/c",
			"shop:static: Deployment/static after shop:base",
			"shop:web: Deployment/web after shop/db:(unsequenced) shop:base")
		if !o.Charts[0].Layers {
			t.Errorf("%+v", o.Charts)
		}
	})
	t.Run("an object of the parent that needs no readiness", func(t *testing.T) {
		o := checkGroups(t, tree("db"), in("db", serviceOf("db")+pod("StatefulSet", "db", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}"))+
			pod("Deployment", "web", "{containers: [{envFrom: [{secretRef: {name: s}}], env: [{name: HOST, value: db}]}]}")+object("v1", "Secret", "s", ""),
			"shop/db:(unsequenced): Service/db StatefulSet/db", "shop:base: Secret/s", "shop:web: Deployment/web after shop/db:(unsequenced) shop:base")
		if len(o.Dropped) > 0 {
			t.Error(o.Dropped)
		}
	})
	t.Run("a workload of the parent", func(t *testing.T) {
		o := checkGroups(t, tree("agent"), in("agent", pod("DaemonSet", "agent", calls("web")))+serviceOf("web")+pod("Deployment", "web", "{}"),
			"shop/agent:(unsequenced): DaemonSet/agent", "shop:(unsequenced): Service/web Deployment/web")
		if w := o.Warnings(); len(w) != 1 || !strings.Contains(w[0].Message, "a subchart cannot wait for objects of its parent, shop") {
			t.Error(w)
		}
	})
	t.Run("a cycle", func(t *testing.T) {
		checkGroups(t, tree("a", "b"), in("a", serviceOf("a")+pod("Deployment", "a", calls("b")))+in("b", serviceOf("b")+pod("Deployment", "b", "{containers: [{envFrom: [{configMapRef: {name: c}}]}]}"))+in("a", object("v1", "ConfigMap", "c", "")),
			"shop/a:(unsequenced): ConfigMap/c Service/a Deployment/a", "shop/b:(unsequenced): Service/b Deployment/b")
	})
}

// TestDeclaredOrderIsKept: a declared order is kept, and the inferred one is added to it (R67).
func TestDeclaredOrderIsKept(t *testing.T) {
	const late = "metadata: {name: late, annotations: {helm.sh/resource-group: late, helm.sh/depends-on/resource-groups: '[\"first\"]'}}"
	written := "\n---\napiVersion: v1\nkind: ConfigMap\n" + late + "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: first, annotations: {helm.sh/resource-group: first}}"
	t.Run("groups", func(t *testing.T) {
		checkGroups(t, &plan.Chart{Path: "shop"}, written+serviceOf("db")+pod("StatefulSet", "db", "{}")+pod("Deployment", "web", "{containers: [{envFrom: [{configMapRef: {name: late}}], env: [{name: HOST, value: db}]}]}"),
			"shop:db: Service/db StatefulSet/db", "shop:first: ConfigMap/first", "shop:late: ConfigMap/late after shop:first", "shop:web: Deployment/web after shop:db shop:late")
	})
	t.Run("a contradiction", func(t *testing.T) {
		o := checkGroups(t, &plan.Chart{Path: "shop"}, serviceOf("db")+pod("StatefulSet", "db", "{containers: [{envFrom: [{configMapRef: {name: c}}]}]}")+
			"\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {helm.sh/resource-group: c, helm.sh/depends-on/resource-groups: '[\"x\"]'}}"+
			"\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x, annotations: {helm.sh/resource-group: x}}\nspec: {template: {metadata: {labels: {app: x}}, spec: "+calls("db")+"}}",
			"shop:x: Deployment/x", "shop:c: ConfigMap/c after shop:x", "shop:db: Service/db StatefulSet/db after shop:c")
		if w := o.Warnings(); len(w) != 1 || !strings.Contains(w[0].Message, "Deployment/x waits for StatefulSet/db") {
			t.Error(w)
		}
	})
	t.Run("subcharts", func(t *testing.T) {
		c := tree("a", "b")
		c.Subcharts[0].DependsOn = []string{"b"}
		checkGroups(t, c, in("a", serviceOf("a")+pod("Deployment", "a", "{}"))+in("b", pod("Deployment", "b", calls("a"))),
			"shop/b:(unsequenced): Deployment/b", "shop/a:(unsequenced): Service/a Deployment/a after shop/b:(unsequenced)")
	})
	t.Run("weights", func(t *testing.T) {
		checkGroups(t, &plan.Chart{Path: "shop"}, "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {helm.sh/weight: '1'}}"+serviceOf("db")+pod("StatefulSet", "db", "{}")+pod("Deployment", "web", calls("db")),
			"shop:0: Service/db Deployment/web StatefulSet/db", "shop:1: ConfigMap/c after shop:0")
	})
}
