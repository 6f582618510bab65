// Package permissions derives the permissions that an operation needs from its plan (Operation), and
// those that a ServiceAccount needs from the objects of a release (Release, Roles). It sends no requests:
// preflight checks an operation's permissions, and "lockstep rbac" prints Roles. Packages kube,
// kube/operation and kube/preflight import it.
package permissions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/release"
)

// Permission is a verb on objects of a resource in a namespace, which is "" for cluster scope.
type Permission struct {
	Verb      string
	Resource  schema.GroupResource
	Namespace string
	Use       Use
	Why       string // shown in messages; "" if it is obvious
}

// Use is what a permission is used for.
type Use int

const (
	Objects Use = iota
	Records
	Bindings
	Outside
	Lookups
	Contents
	Control
	Approvals
	Lock // an operation works without this and the following ones
	HookWatches
	OutsideWatches
	Watches
	Checks
	Details
	Keep
	JobDeleted
	BrokenPods
)

// Optional reports whether an operation works without the permission.
func (p Permission) Optional() bool { return p.Use >= Lock }

// Set maps permissions to the names of objects, because a Role can limit a permission to names. An empty list
// means all objects: the request has no name (a list or a POST), or the names are unknown.
type Set map[Permission][]string

// Add adds a permission for the named objects, or without names for all objects of its resource.
func (s Set) Add(p Permission, names ...string) {
	switch known, ok := s[p]; {
	case ok && len(known) == 0: // it is for all objects
	case len(names) == 0:
		s[p] = nil
	default:
		s[p] = append(known, names...)
	}
}

// addAll adds all permissions of another set.
func (s Set) addAll(other Set) {
	for p, names := range other {
		s.Add(p, names...)
	}
}

// Commands returns the permissions with which a run in the cluster reads its commands: through a Lease in the namespace of its
// account. Without the name of the Lease, which is random, they are for all.
func Commands(namespace string, lease ...string) Set {
	all := Set{}
	for _, verb := range []string{"get", "watch", "patch"} {
		all.Add(Permission{Verb: verb, Resource: leases, Namespace: namespace, Use: Control}, lease...)
	}
	return all
}

// ForApprovals returns the permissions with which a run outside of the cluster reads approvals from the cluster: through a Lease beside
// the release, whose name is random.
func ForApprovals(namespace string) Set {
	all := Set{}
	for _, verb := range []string{"get", "list", "watch", "create", "delete"} {
		all.Add(Permission{Verb: verb, Resource: leases, Namespace: namespace, Use: Approvals})
	}
	return all
}

// Operation describes the operation whose permissions are derived.
type Operation struct {
	Name, Release, Namespace string
	Driver                   string // HELM_DRIVER
	RollbackOnFailure        bool
	ClientSide, Replace      bool
	NoLease                  bool // the operation takes no Lease
	Phases                   []event.Phase
	// Updated and Deleted are the revisions whose records change, empty if unknown.
	Updated, Deleted []int
	// RollbackTo is the target revision of a rollback, 0 if unknown.
	RollbackTo int
	Presence   map[plan.Object]Presence
	// Taken are the objects of others that failed revisions have taken over. A removal gives them back.
	Taken map[plan.Object]bool
	// Resource returns the resource of a kind. Kinds without one are skipped.
	Resource func(schema.GroupKind) (schema.GroupResource, bool)
}

// Presence says whether an object exists in the cluster.
type Presence int

const (
	Unknown Presence = iota
	Absent
	Present
	Unnamed // the API server generates its name, so it never exists yet
)

// Permissions returns the permissions that the operation needs.
func (op Operation) Permissions() Set {
	all := Set{}
	op.addRecords(all)
	op.addLease(all)
	type key struct {
		phase       event.PhaseKind
		plan.Object // without its name
		presence    Presence
		givesBack   bool
	}
	seen := map[key][]Permission{}
	for g, o := range event.Objects(op.Phases) {
		k := key{g.Phase.Kind, o, op.Presence[o], g.Phase.Kind == event.PhaseRemove && op.Taken[o]}
		k.Name = ""
		needs, known := seen[k]
		if !known {
			if resource, ok := op.Resource(schema.GroupKind{Group: o.Group, Kind: o.Kind}); ok {
				verbs := op.verbs(k.phase, o, k.presence)
				if k.givesBack {
					verbs = map[string]string{"get": "to watch its deletion", "patch": "to give it back to its owner"}
				}
				for verb, why := range verbs {
					needs = append(needs, Permission{Verb: verb, Resource: resource, Namespace: o.Namespace, Why: why})
				}
			}
			seen[k] = needs
		}
		for _, p := range needs {
			if k.presence == Unnamed || p.Verb == "create" && op.clientSide(k.phase) { // a POST has no name in its path
				all.Add(p)
			} else {
				all.Add(p, o.Name)
			}
		}
	}
	op.addOutside(all)
	return all
}

// addOutside adds the permissions to read the objects outside the release that groups wait for (R22d).
func (op Operation) addOutside(to Set) {
	for g := range event.Groups(op.Phases) {
		for _, o := range g.WaitFor {
			if resource, ok := op.Resource(schema.GroupKind{Group: o.Group, Kind: o.Kind}); ok {
				to.Add(Permission{Verb: "get", Resource: resource, Namespace: o.Namespace, Use: Outside, Why: "to wait for " + o.String()}, o.Name)
			}
		}
	}
}

// addRecords adds the permissions for release records.
func (op Operation) addRecords(to Set) {
	resource := connect.RecordResource(op.Driver)
	if resource == "" { // the records are not in the cluster
		return
	}
	verbs := map[string]string{"list": "to list the revisions of the release", "create": "", "update": ""}
	switch {
	case op.Name == "test", op.Name == "recover":
		delete(verbs, "create")
	case op.Name == "repair":
		delete(verbs, "create")
		delete(verbs, "update")
	case op.Name == "uninstall":
		delete(verbs, "create")
		verbs["delete"] = ""
	case op.Name == "install" && op.RollbackOnFailure:
		verbs["delete"] = whyRollback
	case op.Name == "rollback", op.Name == "upgrade" && op.RollbackOnFailure:
		verbs["get"] = whyRollback
	}
	revisions := map[string][]int{"update": op.Updated, "delete": op.Deleted}
	if op.RollbackTo > 0 {
		revisions["get"] = []int{op.RollbackTo}
	}
	for verb, why := range verbs {
		p := Permission{Verb: verb, Resource: schema.GroupResource{Resource: resource}, Namespace: op.Namespace, Use: Records, Why: why}
		to.Add(p, release.Keys(op.Release, revisions[verb])...)
	}
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// addLease adds the permissions for the Lease of the release.
func (op Operation) addLease(to Set) {
	if op.NoLease {
		return
	}
	name := lease.Name(op.Release)
	for verb, names := range map[string][]string{"create": nil, "get": {name}, "update": {name}, "delete": {name}} {
		to.Add(Permission{Verb: verb, Resource: leases, Namespace: op.Namespace, Use: Lock}, names...)
	}
}

// whyRollback is the reason for permissions that only a rollback needs.
const whyRollback = "to roll back"

// clientSide reports whether the objects of a phase are applied on the client side. The namespace, crds/ and
// the hooks of an uninstall always use server-side apply.
func (op Operation) clientSide(k event.PhaseKind) bool {
	return op.ClientSide && k != event.PhaseNamespace && k != event.PhaseCRDs && op.Name != "uninstall"
}

// verbs returns the verbs that a phase needs for an object, with the reasons that are not obvious. Hooks other
// than CRDs are also deleted, according to their delete policies.
//
// The API server authorizes a server-side apply as patch and, if the object does not exist, also as create. Both
// checks include the object's name, so a Role can limit both to it. For a POST that is impossible.
func (op Operation) verbs(k event.PhaseKind, o plan.Object, presence Presence) map[string]string {
	sends := func(presence Presence) map[string]string {
		switch {
		case presence == Unnamed:
			return map[string]string{"create": ""}
		case !op.clientSide(k) && presence == Present:
			return map[string]string{"patch": ""}
		case !op.clientSide(k):
			return map[string]string{"create": "", "patch": ""}
		case presence == Absent:
			return map[string]string{"create": ""}
		case op.Replace:
			return map[string]string{"update": ""}
		}
		return map[string]string{"patch": ""}
	}
	switch k {
	case event.PhaseNamespace:
		return map[string]string{"create": "", "patch": ""}
	case event.PhaseCRDs, event.PhaseApply:
		verbs := sends(presence)
		verbs["get"] = ""
		if k == event.PhaseApply && op.Name == "install" && op.RollbackOnFailure {
			verbs["delete"] = whyRollback
		}
		return verbs
	case event.PhaseHooks:
		verbs := sends(Absent)
		if presence == Unnamed {
			verbs = sends(Unnamed)
		}
		verbs["get"] = ""
		if o.Kind != "CustomResourceDefinition" {
			verbs["delete"] = ""
		}
		return verbs
	case event.PhaseRemove:
		verbs := map[string]string{"get": "to watch its deletion", "delete": ""}
		if presence == Unnamed {
			verbs["list"] = "to find it by its labels"
		}
		return verbs
	}
	return nil
}

// String formats the permissions by namespace, each resource with its verbs.
func (s Set) String() string {
	type key struct{ namespace, resource, names, why string }
	verbs := map[key][]string{}
	for p, names := range s {
		k := key{p.Namespace, p.Resource.String(), abbreviate(names), p.Why}
		verbs[k] = append(verbs[k], p.Verb)
	}
	keys := slices.SortedFunc(maps.Keys(verbs), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.names, b.names), cmp.Compare(a.why, b.why))
	})
	var text strings.Builder
	for i, k := range keys {
		switch {
		case i > 0 && keys[i-1].namespace == k.namespace:
			text.WriteString(", ")
		case i > 0:
			text.WriteString("; ")
			fallthrough
		default:
			text.WriteString(location(k.namespace) + ": ")
		}
		slices.Sort(verbs[k])
		verbs[k] = slices.Compact(verbs[k])
		fmt.Fprintf(&text, "%s%s [%s]", k.resource, k.names, strings.Join(verbs[k], " "))
		if k.why != "" {
			text.WriteString(" (" + k.why + ")")
		}
	}
	return text.String()
}

// location describes a namespace, or the whole cluster.
func location(namespace string) string {
	if namespace == "" {
		return "in the whole cluster"
	}
	return "in namespace " + namespace
}

// abbreviate lists names after a space, without duplicates: all of them, or the first ones and the number of others.
func abbreviate(names []string) string {
	const limit = 3
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	switch {
	case len(names) == 0:
		return ""
	case len(names) <= limit+1:
		return " " + strings.Join(names, ", ")
	}
	return fmt.Sprintf(" %s and %d others", strings.Join(names[:limit], ", "), len(names)-limit)
}
