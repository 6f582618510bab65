package permissions

import (
	"slices"
	"strings"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/connect"
)

// Release describes a release. Its permissions are those to install, upgrade, roll back, test and uninstall it.
type Release struct {
	Name, Namespace, Driver string
	ClientSide, Replace     bool
	CheckImages             bool // ask the registries for the images
	Objects                 []Object
	WaitFor                 []plan.Object    // the objects outside the release that its groups wait for
	Lookups                 []connect.Target // what the chart's templates read
	// Resource returns the resource of a kind.
	Resource func(schema.GroupKind) schema.GroupResource
}

// Object is an object of a release. Its name is "" if the API server generates it.
type Object struct {
	plan.Object
	Fields map[string]any
	Phase  event.PhaseKind // PhaseCRDs, PhaseHooks or PhaseApply
}

// Grant is a rule of a role in the chart; Namespace is "" for a ClusterRole. RBAC lets only accounts with the
// same permissions create the role.
type Grant struct {
	Namespace, Role string
	Rule            rbacv1.PolicyRule
}

// Permissions returns the permissions that all operations on the release need, and the optional ones.
func (r Release) Permissions() Set {
	all := Set{}
	for _, name := range []string{"install", "upgrade", "uninstall"} {
		all.addAll(r.operation(name).Permissions())
	}
	for _, o := range r.Objects {
		if r.Replace && o.Phase == event.PhaseApply && o.Name != "" {
			// A rollback without --force-replace patches, and so does the return of an object to its owner.
			all.Add(Permission{Verb: "patch", Resource: r.resourceOf(o.Object), Namespace: o.Namespace}, o.Name)
		}
		r.addWatches(all, o)
		r.addBindings(all, o)
		r.addReferences(all, o)
	}
	if r.CheckImages {
		all.Add(Permission{Verb: "list", Resource: schema.GroupResource{Resource: "nodes"}, Use: Checks, Why: "to check images for their architectures"})
	}
	r.addLookups(all)
	r.addOutside(all)
	r.addReads(all)
	return all
}

// operation returns an operation on all objects of the release. The revisions are unknown.
func (r Release) operation(name string) Operation {
	presence := map[plan.Object]Presence{}
	phases := map[event.PhaseKind]*plan.Group{}
	for _, o := range r.Objects {
		kind := o.Phase
		switch {
		case o.Name == "":
			presence[o.Object] = Unnamed
		case name == "install" && !r.ownsNamespace(o):
			presence[o.Object] = Absent
		default:
			presence[o.Object] = Present
		}
		if name == "uninstall" {
			hook, _, _ := unstructured.NestedString(o.Fields, "metadata", "annotations", rel1.HookAnnotation)
			switch {
			case kind == event.PhaseApply:
				kind = event.PhaseRemove
			case kind != event.PhaseHooks || !strings.Contains(hook, "-delete"):
				continue
			}
		}
		if phases[kind] == nil {
			phases[kind] = &plan.Group{}
		}
		phases[kind].Objects = append(phases[kind].Objects, o.Object)
	}
	op := Operation{
		Name: name, Release: r.Name, Namespace: r.Namespace, Driver: r.Driver, RollbackOnFailure: true,
		ClientSide: r.ClientSide, Replace: r.Replace, Presence: presence,
		Resource: func(kind schema.GroupKind) (schema.GroupResource, bool) { return r.Resource(kind), true },
	}
	for kind, group := range phases {
		op.Phases = append(op.Phases, event.Phase{Kind: kind, Groups: []*plan.Group{group}})
	}
	return op
}

// resourceOf returns the resource of an object.
func (r Release) resourceOf(o plan.Object) schema.GroupResource {
	return r.Resource(schema.GroupKind{Group: o.Group, Kind: o.Kind})
}

// ownsNamespace reports whether an object is the namespace of other objects in the release. The
// roles for those objects need the namespace, so it is created with the roles.
func (r Release) ownsNamespace(o Object) bool {
	return o.Group == "" && o.Kind == "Namespace" && slices.ContainsFunc(r.Objects, func(in Object) bool { return in.Namespace == o.Name })
}

// addWatches adds the permissions to watch an object: a hook by its name, other objects by their kind.
func (r Release) addWatches(to Set, o Object) {
	for _, verb := range []string{"list", "watch"} {
		p := Permission{Verb: verb, Resource: r.resourceOf(o.Object), Namespace: o.Namespace, Use: Watches}
		if o.Phase == event.PhaseHooks && o.Name != "" {
			p.Use = HookWatches
			to.Add(p, o.Name)
		} else {
			to.Add(p)
		}
	}
}

// addBindings adds the permissions to bind roles outside the release, and to write a ClusterRole with an
// aggregation rule.
func (r Release) addBindings(to Set, o Object) {
	if o.Group != rbacv1.GroupName {
		return
	}
	if o.Kind == "ClusterRole" && o.Fields["aggregationRule"] != nil {
		names := []string{o.Name}
		if r.ClientSide { // a POST has no name in its path
			names = nil
		}
		to.Add(Permission{Verb: "escalate", Resource: r.resourceOf(o.Object), Use: Bindings}, names...)
	}
	for _, ref := range refs.Find(o.Object, o.Fields) {
		if ref.Use != refs.Role || slices.ContainsFunc(r.Objects, func(own Object) bool { return own.Object == ref.To }) {
			continue
		}
		to.Add(Permission{Verb: "bind", Resource: r.resourceOf(ref.To), Namespace: o.Namespace, Use: Bindings}, ref.To.Name)
	}
}

// Grants returns the rules of the release's roles.
func (r Release) Grants() (grants []Grant) {
	for _, o := range r.Objects {
		if o.Group != rbacv1.GroupName {
			continue
		}
		var role rbacv1.ClusterRole // also decodes the rules of a Role
		if (o.Kind != "Role" && o.Kind != "ClusterRole") || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Fields, &role) != nil {
			continue
		}
		for _, rule := range role.Rules {
			grants = append(grants, Grant{o.Namespace, o.String(), rule})
		}
	}
	return grants
}

// addLookups adds the permissions to read what the chart's templates look up.
func (r Release) addLookups(to Set) {
	for _, t := range r.Lookups {
		p := Permission{Verb: "get", Resource: schema.GroupResource{Group: t.Group, Resource: t.Resource}, Namespace: t.Namespace, Use: Lookups}
		if t.Name != "" {
			to.Add(p, t.Name)
			continue
		}
		p.Verb = "list"
		to.Add(p)
	}
}

// addReferences adds the permissions to read the objects outside the release that preflight looks up because an object
// refers to them.
func (r Release) addReferences(to Set, o Object) {
	for _, ref := range refs.Find(o.Object, o.Fields) {
		own := slices.ContainsFunc(r.Objects, func(own Object) bool { return own.Object == ref.To })
		if own || ref.IfMissing() == "" {
			continue
		}
		to.Add(Permission{Verb: "get", Resource: r.resourceOf(ref.To), Namespace: ref.To.Namespace, Use: Checks}, ref.To.Name)
	}
}

// addOutside adds the permissions to read and watch the objects outside the release.
func (r Release) addOutside(to Set) {
	for _, outside := range r.WaitFor {
		p := Permission{Verb: "get", Resource: r.resourceOf(outside), Namespace: outside.Namespace, Use: Outside}
		to.Add(p, outside.Name)
		for _, p.Verb = range []string{"list", "watch"} {
			p.Use = OutsideWatches
			to.Add(p, outside.Name)
		}
	}
}

// addReads adds the permissions to read the other objects that the preflight checks and the diagnosis read.
func (r Release) addReads(to Set) {
	read := func(use Use, namespace, group, resource string, verbs ...string) {
		for _, verb := range verbs {
			to.Add(Permission{Verb: verb, Resource: schema.GroupResource{Group: group, Resource: resource}, Namespace: namespace, Use: use})
		}
	}
	const admission, discovery, networking, storage = "admissionregistration.k8s.io", "discovery.k8s.io", "networking.k8s.io", "storage.k8s.io"
	read(Checks, "", admission, "mutatingwebhookconfigurations", "list")
	read(Checks, "", admission, "validatingwebhookconfigurations", "list")
	namespaces := map[string]bool{r.Namespace: true}
	for _, o := range r.Objects {
		if o.Namespace != "" {
			namespaces[o.Namespace] = true
		}
		if _, ok := refs.FindPods(o.Object, o.Fields); ok {
			read(Details, o.Namespace, "", "pods", "list", "watch")
			read(Details, o.Namespace, "", "pods/log", "get")
			read(Details, o.Namespace, "", "events", "list", "watch")
		}
		if connect.Aggregated(o.Group) {
			apiVersion, _ := o.Fields["apiVersion"].(string)
			gv, _ := schema.ParseGroupVersion(apiVersion)
			apiServices := schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
			to.Add(Permission{Verb: "get", Resource: apiServices, Use: Checks}, gv.Version+"."+o.Group)
		}
		if o.Kind == "CustomResourceDefinition" && o.Phase == event.PhaseApply {
			defined := schema.ParseGroupResource(o.Name)
			read(Contents, "", defined.Group, defined.Resource, "list")
		}
		if o.Kind == "StatefulSet" {
			read(BrokenPods, o.Namespace, "", "pods", "delete")
		}
		switch spec, _ := o.Fields["spec"].(map[string]any); {
		case o.Kind == "Deployment":
			read(Details, o.Namespace, "apps", "replicasets", "list")
		case o.Kind == "CronJob":
			read(Details, o.Namespace, "batch", "jobs", "list")
		case o.Kind == "Service" && spec["type"] == "LoadBalancer":
			read(Details, "", "", "services", "list")
		case o.Kind == "Service" && spec["selector"] == nil:
			read(Details, o.Namespace, discovery, "endpointslices", "list")
		case o.Kind == "Ingress":
			read(Details, "", networking, "ingressclasses", "list")
			read(Details, "", networking, "ingresses", "list")
			read(Details, o.Namespace, "", "services", "get")
			read(Details, o.Namespace, discovery, "endpointslices", "list")
		case o.Kind == "PersistentVolumeClaim", o.Kind == "StatefulSet" && spec["volumeClaimTemplates"] != nil:
			read(Checks, "", storage, "storageclasses", "list")
			read(Details, o.Namespace, "", "persistentvolumeclaims", "get")
			read(Details, "", storage, "storageclasses", "get")
			read(Details, "", storage, "csidrivers", "get")
			read(Details, "", "", "persistentvolumes", "get", "list")
		}
	}
	for ns := range namespaces {
		to.Add(Permission{Verb: "get", Resource: schema.GroupResource{Resource: "namespaces"}, Namespace: ns, Use: Checks}, ns)
		read(Checks, ns, "", "limitranges", "list")
		read(Checks, ns, "", "resourcequotas", "list")
	}
}
