// Package rights derives the rights that an operation needs from its plan (Operation), and the
// rights that a ServiceAccount needs for a release from its objects (Release). It sends no
// requests: preflight checks the result, and "lockstep rbac" prints it. The central types are
// Right, Set and Release. Packages kube, kube/operation and kube/preflight import it.
package rights

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

// Right is a verb on objects of a resource in a namespace, which is "" for cluster scope.
type Right struct {
	Verb      string
	Resource  schema.GroupResource
	Namespace string
	Use       Use
	Why       string // why it is needed if Helm might not need it
}

// Use is what a right is used for.
type Use int

const (
	Objects Use = iota
	Records
	Bindings
	Lock // this and the following ones are optional
	HookWatches
	Watches
	Checks
	Details
	Control
)

// Optional reports whether an operation works without the right.
func (r Right) Optional() bool { return r.Use >= Lock }

// Set maps rights to names of objects, because a Role may grant rights by name. There are no names
// if the request has none (a list or a POST), or if they are unknown.
type Set map[Right][]string

// Add adds a right to the named objects, or without names to all objects of its resource.
func (s Set) Add(right Right, names ...string) {
	switch known, ok := s[right]; {
	case ok && len(known) == 0:
	case len(names) == 0:
		s[right] = nil
	default:
		s[right] = append(known, names...)
	}
}

// Operation describes an operation, to derive the rights that it needs.
type Operation struct {
	Name, Release, Namespace string
	Driver                   string // HELM_DRIVER
	RollbackOnFailure        bool
	ClientSide, Replace      bool
	NoLease                  bool // do not use a Lease
	Phases                   []event.Phase
	// Updated and Deleted are the revisions whose records change, empty if unknown.
	Updated, Deleted []int
	// RollbackTo is the target revision of a rollback, 0 if unknown.
	RollbackTo int
	Presence   map[plan.Object]Presence
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

// Rights returns the rights that the operation needs.
func (op Operation) Rights() Set {
	all := Set{}
	op.storage(all)
	op.lease(all)
	type key struct {
		phase       event.PhaseKind
		plan.Object // without its name
		presence    Presence
	}
	seen := map[key][]Right{}
	for g, o := range event.Objects(op.Phases) {
		k := key{g.Phase.Kind, o, op.Presence[o]}
		k.Name = ""
		needs, known := seen[k]
		if !known {
			if resource, ok := op.Resource(schema.GroupKind{Group: o.Group, Kind: o.Kind}); ok {
				for verb, why := range op.verbs(k.phase, o, k.presence) {
					needs = append(needs, Right{Verb: verb, Resource: resource, Namespace: o.Namespace, Why: why})
				}
			}
			seen[k] = needs
		}
		for _, r := range needs {
			if k.presence == Unnamed || r.Verb == "create" && op.clientSide(k.phase) { // a POST has no name in its path
				all.Add(r)
				continue
			}
			all.Add(r, o.Name)
		}
	}
	return all
}

// whyList is the reason for listing release records.
const whyList = "to list the revisions of the release"

// storage adds the rights on release records.
func (op Operation) storage(to Set) {
	kind := connect.RecordResource(op.Driver)
	if kind == "" {
		return
	}
	verbs := map[string]string{"list": whyList, "create": "", "update": ""}
	switch {
	case op.Name == "test", op.Name == "recover":
		delete(verbs, "create")
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
		to.Add(Right{Verb: verb, Resource: schema.GroupResource{Resource: kind}, Namespace: op.Namespace, Use: Records, Why: why}, release.Keys(op.Release, revisions[verb])...)
	}
}

// lease adds the rights on the Lease of the release.
func (op Operation) lease(to Set) {
	if op.NoLease {
		return
	}
	for verb, names := range map[string][]string{"create": nil, "get": {lease.Name(op.Release)}, "update": {lease.Name(op.Release)}, "delete": {lease.Name(op.Release)}} {
		to.Add(Right{Verb: verb, Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Namespace: op.Namespace, Use: Lock}, names...)
	}
}

// whyRollback is the reason for rights that only a rollback uses.
const whyRollback = "to roll back"

// clientSide reports whether the objects of a phase are applied on the client side. Objects that
// Helm's actions do not send, and hooks of an uninstall, never are.
func (op Operation) clientSide(k event.PhaseKind) bool {
	return op.ClientSide && k != event.PhaseNamespace && k != event.PhaseCRDs && op.Name != "uninstall"
}

// verbs returns the verbs that a phase needs on an object, with reasons that are not obvious. Hooks
// other than CRDs are also deleted, by their delete policy.
//
// The API server authorises a server-side apply as patch, and if the object does not exist also as create. Both
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

// String formats rights by namespace, each resource with its verbs.
func (s Set) String() string {
	type key struct{ namespace, resource, names, why string }
	verbs := map[key][]string{}
	for right, names := range s {
		k := key{right.Namespace, right.Resource.String(), abbreviate(names), right.Why}
		verbs[k] = append(verbs[k], right.Verb)
	}
	keys := slices.SortedFunc(maps.Keys(verbs), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.resource, b.resource), cmp.Compare(a.names, b.names), cmp.Compare(a.why, b.why))
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

// abbreviate lists the first names and the number of others, after a space.
func abbreviate(names []string) string {
	const limit = 3
	names = slices.Sorted(slices.Values(names))
	switch {
	case len(names) == 0:
		return ""
	case len(names) <= limit+1:
		return " " + strings.Join(names, ", ")
	}
	return fmt.Sprintf(" %s and %d others", strings.Join(names[:limit], ", "), len(names)-limit)
}
