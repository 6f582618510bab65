// Package rights derives the rights that an operation on a release needs from its plan
// (Operation), and those of a ServiceAccount that looks after a release from its objects
// (Release). It is pure: preflight asks the cluster for the result, and "lockstep rbac"
// prints it. The central types are Right, Set and Release.
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
	"lockstep/kube/lease"
	"lockstep/kube/release"
)

// Right is a verb on objects of a resource in a namespace, which is "" for cluster scope.
type Right struct {
	Verb      string
	Resource  schema.GroupResource
	Namespace string
	Use       Use
	Why       string // where Helm might do without it
}

// Use is what a right is used for.
type Use int

const (
	Objects Use = iota
	Records
	Bindings
	Lock // an operation can do without this and what follows
	HookWatches
	Watches
	Checks
	Details
	Orders
)

// Optional reports whether an operation can do without the right.
func (r Right) Optional() bool { return r.Use >= Lock }

// Set are rights with object names, because a Role may grant them by name. There are no
// names if the request has none (a list, a POST) or they are unknown.
type Set map[Right][]string

// Add adds a right to the named objects, or to all of its resource, which covers these.
func (s Set) Add(to Right, names ...string) {
	switch known, there := s[to]; {
	case there && len(known) == 0:
	case len(names) == 0:
		s[to] = nil
	default:
		s[to] = append(known, names...)
	}
}

// Operation is what the rights of an operation derive from.
type Operation struct {
	Name, Release, Namespace string
	Driver                   string // HELM_DRIVER
	RollbackOnFailure        bool
	ClientSide, Replace      bool
	Unlocked                 bool // Leases are not used
	Phases                   []event.Phase
	// Updated and Deleted are the revisions whose records change, none if unknown.
	Updated, Deleted []int
	// Back is the revision that is rolled back to, 0 if unknown.
	Back     int
	Presence map[plan.Object]Presence
	// Resource is the resource of a kind. Kinds without one are skipped.
	Resource func(schema.GroupKind) (schema.GroupResource, bool)
}

// Presence says whether an object exists in the cluster, as far as known.
type Presence int

const (
	Unknown Presence = iota
	Absent
	Present
	Unnamed // the API server makes its name, so that it is always new
)

// Rights returns the rights that the operation needs.
func (op Operation) Rights() Set {
	all := Set{}
	op.storage(all)
	op.lease(all)
	type asked struct {
		plan.Object // without its name
		there       Presence
	}
	for _, phase := range op.Phases {
		seen := map[asked][]Right{}
		for _, g := range phase.Groups {
			for _, o := range g.Objects {
				as := asked{o, op.Presence[o]}
				as.Name = ""
				needs, known := seen[as]
				if !known {
					if resource, ok := op.Resource(schema.GroupKind{Group: o.Group, Kind: o.Kind}); ok {
						for verb, why := range op.verbs(phase.Kind, o, as.there) {
							needs = append(needs, Right{Verb: verb, Resource: resource, Namespace: o.Namespace, Why: why})
						}
					}
					seen[as] = needs
				}
				for _, r := range needs {
					if as.there == Unnamed || r.Verb == "create" && op.clientSide(phase.Kind) { // the path of a POST has no name
						all.Add(r)
						continue
					}
					all.Add(r, o.Name)
				}
			}
		}
	}
	return all
}

// whyListed is why a release cannot be operated on without its history.
const whyListed = "to list the revisions of the release"

// storage adds the rights for the release records.
func (op Operation) storage(to Set) {
	kind := "secrets"
	switch d := op.Driver; {
	case strings.HasPrefix(d, "configmap"):
		kind = "configmaps"
	case d != "" && !strings.HasPrefix(d, "secret"):
		return
	}
	verbs := map[string]string{"list": whyListed, "create": "", "update": ""}
	switch {
	case op.Name == "test", op.Name == "recover":
		delete(verbs, "create")
	case op.Name == "uninstall":
		delete(verbs, "create")
		verbs["delete"] = ""
	case op.Name == "install" && op.RollbackOnFailure:
		verbs["delete"] = whyUndone
	case op.Name == "rollback", op.Name == "upgrade" && op.RollbackOnFailure:
		verbs["get"] = whyUndone
	}
	of := map[string][]int{"update": op.Updated, "delete": op.Deleted}
	if op.Back > 0 {
		of["get"] = []int{op.Back}
	}
	for verb, why := range verbs {
		to.Add(Right{Verb: verb, Resource: schema.GroupResource{Resource: kind}, Namespace: op.Namespace, Use: Records, Why: why}, release.Keys(op.Release, of[verb])...)
	}
}

// lease adds the rights for the Lease of the release, if Leases are used.
func (op Operation) lease(to Set) {
	if op.Unlocked {
		return
	}
	for verb, names := range map[string][]string{"create": nil, "get": {lease.Name(op.Release)}, "update": {lease.Name(op.Release)}, "delete": {lease.Name(op.Release)}} {
		to.Add(Right{Verb: verb, Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Namespace: op.Namespace, Use: Lock}, names...)
	}
}

// whyUndone is the reason for delete rights on objects that are only created.
const whyUndone = "to roll back"

// clientSide reports whether objects of a phase are applied on the client. Those that Helm's
// actions do not send, and the hooks of an uninstall, never are.
func (op Operation) clientSide(k event.PhaseKind) bool {
	return op.ClientSide && k != event.PhaseNamespace && k != event.PhaseCRDs && op.Name != "uninstall"
}

// verbs returns the verbs a phase needs on an object, with the reason if it is not obvious. A
// hook is deleted before it is created, or afterwards, by its policy; a CRD is not.
//
// The API server authorises a server-side apply as patch, and if the object does not exist
// also as create. Both checks have the object's name, so that a Role may name it for create,
// too, which it cannot for a POST.
func (op Operation) verbs(k event.PhaseKind, o plan.Object, there Presence) map[string]string {
	sends := func(there Presence) map[string]string {
		switch {
		case there == Unnamed:
			return map[string]string{"create": ""}
		case !op.clientSide(k) && there == Present:
			return map[string]string{"patch": ""}
		case !op.clientSide(k):
			return map[string]string{"create": "", "patch": ""}
		case there == Absent:
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
		verbs := sends(there)
		verbs["get"] = ""
		if k == event.PhaseApply && op.Name == "install" && op.RollbackOnFailure {
			verbs["delete"] = whyUndone
		}
		return verbs
	case event.PhaseHooks:
		verbs := sends(Absent)
		if there == Unnamed {
			verbs = sends(Unnamed)
		}
		verbs["get"] = ""
		if o.Kind != "CustomResourceDefinition" {
			verbs["delete"] = ""
		}
		return verbs
	case event.PhaseRemove:
		verbs := map[string]string{"get": "to watch its deletion", "delete": ""}
		if there == Unnamed {
			verbs["list"] = "to find it by its labels"
		}
		return verbs
	}
	return nil
}

// String prints rights as kubectl auth can-i --list does: a kind with its verbs, by
// namespace.
func (s Set) String() string {
	type key struct{ namespace, resource, names, why string }
	verbs := map[key][]string{}
	for of, names := range s {
		k := key{of.Namespace, of.Resource.String(), few(names), of.Why}
		verbs[k] = append(verbs[k], of.Verb)
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
			text.WriteString(in(k.namespace) + ": ")
		}
		slices.Sort(verbs[k])
		fmt.Fprintf(&text, "%s%s [%s]", k.resource, k.names, strings.Join(verbs[k], " "))
		if k.why != "" {
			text.WriteString(" (" + k.why + ")")
		}
	}
	return text.String()
}

// in names the place of rights.
func in(namespace string) string {
	if namespace == "" {
		return "in the whole cluster"
	}
	return "in namespace " + namespace
}

// few lists the first names, each after a space, and the number of others.
func few(names []string) string {
	const most = 3
	names = slices.Sorted(slices.Values(names))
	switch {
	case len(names) == 0:
		return ""
	case len(names) <= most+1:
		return " " + strings.Join(names, ", ")
	}
	return fmt.Sprintf(" %s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}
