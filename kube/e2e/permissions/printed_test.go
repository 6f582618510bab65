package permissions

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/auditlog"
	"lockstep/kube/throwaway/testcluster"
)

// printedRoles returns the objects that lockstep rbac prints for a chart.
func printedRoles(r *rig.Rig, chart string, change func(*kube.Deploy)) []*unstructured.Unstructured {
	r.T.Helper()
	op := r.Must(r.Upgrade(chart, func(u *kube.Deploy) {
		if change != nil {
			change(u)
		}
		u.PlanOnly, u.SkipPreflight, u.Install = true, true, true
	}))
	var text bytes.Buffer
	if err := kube.WriteRoles(&text, kube.Roles{Account: "lockstep", Namespace: r.Namespace, Name: "t"}, op); err != nil {
		r.T.Fatal(err)
	}
	return testcluster.Parse(r.T, text.String())
}

// permission is one verb on one resource, for one object or, if name is "", for all.
type permission struct{ namespace, group, resource, name, verb string }

func (p permission) String() string {
	return fmt.Sprintf("%s %s.%s %q in %q", p.verb, p.resource, p.group, p.name, p.namespace)
}

// permissions returns the permissions that roles grant. It fails the test if one is granted twice.
func permissions(t *testing.T, roles []*unstructured.Unstructured) map[permission]bool {
	t.Helper()
	all := map[permission]bool{}
	for _, u := range roles {
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, name := range names {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						p := permission{u.GetNamespace(), rule.APIGroups[0], resource, name, verb}
						if all[p] {
							t.Errorf("granted twice: %s", p)
						}
						all[p] = true
					}
				}
			}
		}
	}
	return all
}

// permissionsFor returns the permissions that could have allowed a request.
func permissionsFor(e auditlog.Event) (all []permission) {
	need := func(verb, name string) {
		resource := e.Object.Resource
		if e.Object.Subresource != "" {
			resource += "/" + e.Object.Subresource
		}
		for _, namespace := range []string{e.Object.Namespace, ""} {
			all = append(all, permission{namespace, e.Object.APIGroup, resource, name, verb}, permission{namespace, e.Object.APIGroup, resource, "", verb})
		}
	}
	switch {
	case e.Verb == "create": // the path of a POST has no name
		need("create", "")
	case e.Verb == "patch" && e.Code == 201: // an apply of an object that did not exist
		need("create", e.Object.Name)
		fallthrough
	default:
		need(e.Verb, e.Object.Name)
	}
	return all
}

// rolesOfKind returns the objects of some kinds, either the optional or the needed ones.
func rolesOfKind(objects []*unstructured.Unstructured, optional bool, kinds ...string) (out []*unstructured.Unstructured) {
	for _, u := range objects {
		if strings.HasSuffix(u.GetName(), ":optional") == optional && slices.Contains(kinds, u.GetKind()) {
			out = append(out, u)
		}
	}
	return out
}

// withoutOptional returns the needed objects.
func withoutOptional(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(u *unstructured.Unstructured) bool { return strings.HasSuffix(u.GetName(), ":optional") })
}

// accountRequests returns the requests of the account while do runs.
func accountRequests(r *rig.Rig, do func()) auditlog.Log {
	r.T.Helper()
	before := r.Log()
	do()
	log := r.Log()
	return log[len(before):].Where(func(e auditlog.Event) bool {
		return e.Username == "system:serviceaccount:"+r.Namespace+":lockstep" && e.Object.Resource != "" && !strings.HasPrefix(e.Object.Resource, "selfsubject")
	})
}

// chartWithRoles returns a chart with crds/, roles, cluster-scoped objects, a generateName and, in long tests, a namespace.
func chartWithRoles(r *rig.Rig, class, web string) *charts.Chart {
	const rbac = "rbac.authorization.k8s.io/v1/"
	role := func(kind, name string) string {
		return "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: " + kind + ", name: " + name + "}\nsubjects: [{kind: ServiceAccount, name: app, namespace: " + r.Namespace + "}]"
	}
	wide, away := r.Namespace+"-app", r.Namespace+"-extra"
	kinds := rig.LateKinds(r.Namespace + ".example")
	docs := []string{
		rig.Object("v1/ServiceAccount/app", nil),
		rig.Job("hook", map[string]string{"helm.sh/hook": "pre-install,pre-upgrade,pre-rollback,pre-delete,test"}, "10ms"),
		rig.Object(rbac+"Role/app", nil, "rules: [{apiGroups: [''], resources: [endpoints], verbs: [get]}]"),
		rig.Object(rbac+"RoleBinding/app", nil, role("Role", "app")),
		rig.Object(rbac+"RoleBinding/view", nil, role("ClusterRole", "view")),
		rig.Object(rbac+"ClusterRole/"+wide, nil, "rules: [{apiGroups: [''], resources: [nodes], verbs: [list]}, {nonResourceURLs: [/metrics], verbs: [get]}]"),
		rig.Object(rbac+"ClusterRoleBinding/"+wide, nil, role("ClusterRole", wide)),
		rig.Object(rbac+"ClusterRole/"+wide+"-all", nil, "aggregationRule: {clusterRoleSelectors: [{matchLabels: {none: such}}]}"),
		rig.WithGenerateName(rig.ConfigMap("gen-", nil)), kinds[0].Object(map[string]string{}),
		kinds[1].CRD(rig.Group("kind")), kinds[1].Object(rig.Group("data", "kind")),
		rig.Object("v1/PersistentVolumeClaim/data", rig.Group("claim"), "spec: {"+class+"accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"), rig.ConfigMap("last", rig.Group("last", "claim")),
		rig.Object("v1/ConfigMap/looks", nil, `data: {found: '{{ len (lookup "v1" "Namespace" "" "kube-system") }}, {{ len (lookup "v1" "Pod" .Release.Namespace "other") }},
  {{ len (lookup "v1" "LimitRange" .Release.Namespace "") }}'}`),
		web, rig.Object("v1/Service/web", nil, "spec: {selector: {app: web}, ports: [{port: 80}]}"),
	}
	if rig.Long { // controllers take seconds to delete a namespace
		docs = append(docs, rig.Object("v1/Namespace/"+away, rig.Group("away")),
			strings.Replace(rig.ConfigMap("inside", rig.Group("inside", "away")), "name: inside\n", "name: inside\n  namespace: "+away+"\n", 1))
	}
	return rig.MakeChart(r.T, rig.Files{"crds/kind.yaml": kinds[0].CRD(nil), "templates/all.yaml": strings.Join(docs, "\n---\n")})
}

// notRequested reports whether a permission is needed only to create the chart's roles and bindings, so that no request uses
// it, or only to explain a claim that has a volume or a provisioner and is not bound yet, which lasts for milliseconds.
func notRequested(p permission) bool {
	return slices.Contains([]string{"get persistentvolumes", "get csidrivers"}, p.verb+" "+p.resource) || p.verb == "bind" || p.verb == "escalate" || slices.Contains([]string{"endpoints", "nodes"}, p.resource)
}

// usedOnFailure are the permissions that explain failures.
var usedOnFailure = []string{"list pods", "list events", "list replicasets", "get storageclasses", "list persistentvolumes", "get persistentvolumeclaims",
	"list ingresses", "list ingressclasses", "get services", "list endpointslices"}

// mayBeRefused reports whether a request may be refused although all printed roles are granted: such requests only make
// messages more precise.
func mayBeRefused(r *rig.Rig, e auditlog.Event) bool {
	switch o := e.Object; {
	case o.Resource == "events" && o.Namespace == "default": // events of cluster-scoped objects
		return true
	case o.Resource == "nodes": // nodes that a pod cannot be scheduled to
		return true
	case o.Namespace == r.Namespace+"-extra": // its roles were deleted with the namespace
		return true
	}
	return false
}

// TestPrintedPermissions installs, upgrades, rolls back, tests and uninstalls charts as a ServiceAccount with the roles that
// lockstep rbac prints, without the optional ones and with them. A request uses each permission, and with all roles no
// request is refused.
func TestPrintedPermissions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		chart          string
		optional, long bool
	}{
		{"own", false, false}, {"own", true, false}, {"own client-side", false, true},
		{"hooks", false, true}, {"hooks", true, true}, {"shop", false, true}, {"shop", true, true},
	} {
		t.Run(fmt.Sprintf("%s optional %v", tt.chart, tt.optional), func(t *testing.T) {
			if tt.long && !rig.Long {
				t.Skip("make chaos")
			}
			t.Parallel()
			p := printedTest{r: rig.New(t), chart: tt.chart}
			if strings.HasPrefix(tt.chart, "own") {
				clientSide := tt.chart == "own client-side"
				p.clientSide = clientSide
				web := rig.Deployment("web", rig.Group("web", "kind"), "0s")
				c := chartWithRoles(p.r, "", web)
				p.change = rig.UseChart(c, func(i *kube.Deploy) { i.ServerSide = strconv.FormatBool(!clientSide) })
				p.changeUp = rig.UseChart(c, func(u *kube.Deploy) { u.ServerSide = strconv.FormatBool(!clientSide) })
				p.chart = "plain"
				broken := chartWithRoles(p.r, "storageClassName: none-such, ", strings.Replace(web, "sandbox/ready-delay: 0s", `sandbox/ready-delay: 1h, sandbox/run-duration: 10ms, sandbox/exit-code: "3"`, 1))
				p.fails = rig.UseChart(broken, func(i *kube.Deploy) {
					i.ReadinessTimeout, i.RollbackOnFailure, i.ServerSide = 8*time.Second, true, strconv.FormatBool(!clientSide)
				})
			}
			objects := printedRoles(p.r, p.chart, p.changeUp)
			given := objects
			if !tt.optional {
				given = withoutOptional(objects)
			}
			rig.Sandbox.Apply(t, given...)
			p.account = p.r.WithClient(p.r.ConnectAsServiceAccount("lockstep"))
			p.assertUsed(objects, tt.optional, func() {
				if p.lifetime(); p.fails == nil || !tt.optional {
					return
				}
				rig.Sandbox.Apply(t, objects...) // the uninstall deleted a namespace with its roles
				op := p.account.Must(p.account.Install(p.chart, p.fails))
				if out := p.account.Run(op, nil); !strings.Contains(out.State.Message, "exited with code 3") || !strings.Contains(out.State.Message, "none-such") {
					t.Errorf("the failure is not explained: %s", out.State.Message)
				}
			})
		})
	}
}

// printedTest deploys a chart with an account that has the printed roles.
type printedTest struct {
	r, account *rig.Rig
	chart      string
	change     func(*kube.Deploy)
	changeUp   func(*kube.Deploy)
	fails      func(*kube.Deploy) // makes an install fail; nil for none
	clientSide bool               // an upgrade without changes then sends no patch
}

// lifetime runs all operations on a release.
func (p printedTest) lifetime() {
	r := p.account
	r.MustRun(r.Install(p.chart, func(i *kube.Deploy) {
		if p.change != nil {
			p.change(i)
		}
		i.Lease.Duration = time.Second // so that the run renews it
	}))
	r.MustRun(r.Upgrade(p.chart, p.changeUp))
	r.MustRun(r.Rollback(1))
	r.MustRun(r.Client.PrepareTest(r.T.Context(), kube.ReleaseTest{Common: r.Common()}))
	r.MustRun(r.Uninstall())
	if p.chart == "hooks" { // what its hooks left behind is deleted before they run again
		r.MustRun(r.Install(p.chart, nil))
		r.MustRun(r.Client.PrepareTest(r.T.Context(), kube.ReleaseTest{Common: r.Common()}))
	}
}

// assertUsed checks that do uses each permission of the needed roles, or of the optional ones, and that nothing is refused
// if the optional ones are granted.
func (p printedTest) assertUsed(objects []*unstructured.Unstructured, optional bool, do func()) {
	t := p.r.T
	t.Helper()
	used := map[permission]bool{}
	for _, e := range accountRequests(p.r, do) {
		for _, granting := range permissionsFor(e) {
			used[granting] = true
		}
		if optional && e.Code == http.StatusForbidden && !mayBeRefused(p.r, e) {
			t.Errorf("refused: %s %s", e.Verb, e.RequestURI)
		}
	}
	for of := range permissions(t, rolesOfKind(objects, optional, "Role", "ClusterRole")) {
		if !used[of] && !notRequested(of) && !(p.clientSide && of.verb == "patch") && (p.fails != nil || of.name != "" || !slices.Contains(usedOnFailure, of.verb+" "+of.resource)) {
			t.Errorf("never used: %s", of)
		}
	}
}

// withoutPermission returns copies of roles without a verb on a resource.
func withoutPermission(t *testing.T, roles []*unstructured.Unstructured, verb, resource string) (out []*unstructured.Unstructured) {
	t.Helper()
	found := false
	for _, u := range roles {
		u = u.DeepCopy()
		rules, _, _ := unstructured.NestedSlice(u.Object, "rules")
		for _, r := range rules {
			rule := r.(map[string]any)
			if rule["resources"] != nil && slices.Contains(rule["resources"].([]any), any(resource)) {
				before := rule["verbs"].([]any)
				after := slices.DeleteFunc(slices.Clone(before), func(v any) bool { return v == verb })
				rule["verbs"], found = after, found || len(after) < len(before)
			}
		}
		rules = slices.DeleteFunc(rules, func(r any) bool { return len(r.(map[string]any)["verbs"].([]any)) == 0 })
		if err := unstructured.SetNestedSlice(u.Object, rules, "rules"); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	if !found {
		t.Fatalf("nothing grants %s %s", verb, resource)
	}
	return out
}

// TestPrintedPermissionsAreNeeded removes one permission at a time: the run fails, if possible before it writes anything, or it
// warns about the missing permission.
func TestPrintedPermissionsAreNeeded(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	const rbac = "rbac.authorization.k8s.io/v1/"
	role := func(kind, name string) string {
		return "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: " + kind + ", name: " + name + "}\nsubjects: [{kind: ServiceAccount, name: default}]"
	}
	c := rig.ChartOf(t, rig.Object("v1/Service/web", nil, "spec: {ports: [{port: 80}]}"), rig.Object(rbac+"Role/app", nil, "rules: [{apiGroups: [''], resources: [endpoints], verbs: [get]}]"),
		rig.Object(rbac+"RoleBinding/view", nil, role("ClusterRole", "view")), rig.Object(rbac+"RoleBinding/app", nil, role("Role", "app")))
	objects := printedRoles(r, "plain", rig.UseChart(c, nil))
	needed := withoutOptional(objects)
	rig.Sandbox.Apply(t, needed...)
	few := r.WithClient(r.ConnectAsServiceAccount("lockstep"))
	// remove runs do without a permission.
	remove := func(of permission, do func()) {
		rig.Sandbox.Apply(t, withoutPermission(t, rolesOfKind(needed, false, "Role"), of.verb, of.resource)...)
		awaitAccess(r, of, false)
		do()
		rig.Sandbox.Apply(t, rolesOfKind(needed, false, "Role")...)
		awaitAccess(r, of, true)
	}
	for of := range permissions(t, rolesOfKind(needed, false, "Role")) {
		if notRequested(of) || of.verb+of.resource == "getsecrets" {
			continue // tested below
		}
		remove(of, func() {
			op, err := few.Install("plain", rig.UseChart(c, func(i *kube.Deploy) { i.RollbackOnFailure = true }))
			said := fmt.Sprint(err)
			if err == nil {
				said = fmt.Sprint(op.Warnings())
			}
			if (err == nil) != (of.resource == "leases") || !strings.Contains(said, of.resource) || !strings.Contains(said, of.verb) {
				t.Errorf("without %s: %s", of, said)
			}
		})
	}
	for _, of := range []permission{{r.Namespace, "", "endpoints", "", "get"}, {r.Namespace, rbacv1.GroupName, "clusterroles", "view", "bind"}} {
		remove(of, func() {
			op, err := few.Install("plain", rig.UseChart(c, nil))
			if err == nil {
				err = few.Run(op, nil).Err
			}
			if err == nil || !strings.Contains(err.Error(), "attempting to grant RBAC permissions not currently held") {
				t.Errorf("without %s: %v", of, err)
			}
		})
	}
	remove(permission{r.Namespace, "coordination.k8s.io", "leases", "", "create"}, func() {
		out := few.MustRun(few.Install("plain", rig.UseChart(c, nil)))
		unlisted := slices.ContainsFunc(out.State.Warnings, func(e event.Event) bool { return strings.Contains(e.Message, "no permission to list services") })
		if !out.HasWarning("R51", "leases") || !unlisted {
			t.Errorf("no warnings about the missing lock and lists: %v", out.State.Warnings)
		}
	})
	few.MustRun(few.Upgrade("plain", rig.UseChart(c, nil)))
	remove(permission{r.Namespace, "", "secrets", "", "get"}, func() {
		if _, err := few.Rollback(1); err == nil || !strings.Contains(err.Error(), "secrets") {
			t.Errorf("a rollback that cannot read its target revision: %v", err)
		}
	})
}

// awaitAccess waits until a change of the roles is in effect.
func awaitAccess(r *rig.Rig, of permission, want bool) {
	r.T.Helper()
	asked := &authv1.ResourceAttributes{Namespace: of.namespace, Verb: of.verb, Group: of.group, Resource: of.resource, Name: of.name}
	r.Eventually(fmt.Sprintf("the account may %s: %v", of, want), func() bool {
		review, err := r.Cluster.AuthorizationV1().SubjectAccessReviews().Create(r.T.Context(),
			&authv1.SubjectAccessReview{Spec: authv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + r.Namespace + ":lockstep", ResourceAttributes: asked}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed == want
	})
}
