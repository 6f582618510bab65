package permissions

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// rule is a rule of a role, with the reason for it.
type rule struct {
	comment string
	rbacv1.PolicyRule
}

// comments explain the rules of a role to its reader.
var comments = map[Use]string{
	Objects:        "The chart's objects. A server-side apply needs patch and, for a new object, create; both by name.",
	Records:        "The release records. Lists cannot be limited to names, and the names of later revisions are unknown.",
	Bindings:       "Bind is needed for bindings to existing roles, escalate for ClusterRoles with an aggregationRule.",
	Outside:        "Objects outside the release that its groups wait for.",
	Lookups:        "What the chart's templates look up. Without these permissions they fail.",
	Contents:       "The objects of the chart's CRDs. lockstep deletes a CRD only if nobody else has such objects.",
	Control:        "Commands from attach and ctl to a run in the cluster, through a Lease. A run that nobody could control does not start.",
	Approvals:      "The Lease with the approvals of a run with --approval-in-cluster. Its name is random.",
	OutsideWatches: "Watches of objects outside the release, by name. Without these permissions lockstep reads each of them every few seconds.",
	Lock:           "The lock of the release. Without it only Helm's pending status prevents concurrent runs.",
	HookWatches:    "Watches of hooks, by name. Without these permissions lockstep reads each hook every few seconds.",
	Watches:        "Watches, which cannot be limited to names. Without these permissions lockstep reads each object every few seconds.",
	Checks:         "Checks before the first write. Without these permissions lockstep skips the checks.",
	Keep:           "What a run in the cluster keeps for the pod that replaces its own. Without these permissions that pod starts over.",
	JobDeleted:     "Whether the Job of a run in the cluster was deleted. Without this permission its end leaves the release pending.",
	BrokenPods:     "Pods of StatefulSets that were never ready and block a rollout. Without this permission lockstep says how to delete them.",
	Details:        "Logs, and why objects are not ready. Without these permissions lockstep names the objects that it cannot read.",
}

var verbOrder = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

// place is a resource in a namespace.
type place struct{ namespace, group, resource string }

// request is a verb on an object, or on all objects of a resource if the name is "".
type request struct {
	place
	verb, name string
}

// target is an object, or all objects of a resource if the name is "", and the use of the permissions for it.
type target struct {
	place
	use  Use
	name string
}

// makeRules returns the rules that grant permissions, by namespace: those that operations need, including the
// lock, and the optional ones. No two rules grant the same request, apart from those of grants.
func makeRules(all Set, grants []Grant) (needed, optional map[string][]rule) {
	named := func(p Permission) int { return min(len(all[p]), 1) }
	order := slices.SortedFunc(maps.Keys(all), func(a, b Permission) int { // those for all objects first: they cover named objects
		return cmp.Or(cmp.Compare(named(a), named(b)), cmp.Compare(a.Use, b.Use), compareVerbs(a.Verb, b.Verb))
	})
	granted := map[request]bool{}
	grant := func(isOptional bool) map[string][]rule {
		verbs := map[target][]string{}
		for _, p := range order {
			if isOptional != (p.Use > Lock) {
				continue
			}
			names := all[p]
			if len(names) == 0 {
				names = []string{""}
			}
			at := place{p.Namespace, p.Resource.Group, p.Resource.Resource}
			for _, name := range names {
				if !granted[request{at, p.Verb, ""}] && !granted[request{at, p.Verb, name}] {
					granted[request{at, p.Verb, name}] = true
					verbs[target{at, p.Use, name}] = append(verbs[target{at, p.Use, name}], p.Verb)
				}
			}
		}
		return mergeRules(verbs)
	}
	needed, optional = grant(false), grant(true)
	for _, g := range grants {
		needed[g.Namespace] = append(needed[g.Namespace], rule{"Permissions that " + g.Role + " grants. Only an account that has them can create it.", g.Rule})
	}
	return needed, optional
}

// compareVerbs compares verbs by their conventional order.
func compareVerbs(a, b string) int {
	return cmp.Or(cmp.Compare(slices.Index(verbOrder, a), slices.Index(verbOrder, b)), cmp.Compare(a, b))
}

// mergeRules returns as few rules as possible, by namespace: it merges objects with the same verbs,
// then resources with the same names and verbs.
func mergeRules(verbs map[target][]string) map[string][]rule {
	type objects struct {
		place
		use   Use
		verbs string
		all   bool // all objects of the resource
	}
	names := map[objects][]string{}
	for t, v := range verbs {
		slices.SortFunc(v, compareVerbs)
		o := objects{t.place, t.use, strings.Join(v, " "), t.name == ""}
		names[o] = append(names[o], t.name)
	}
	type resources struct {
		use                            Use
		namespace, group, verbs, names string
	}
	same := map[resources][]string{}
	for o, list := range names {
		slices.Sort(list)
		r := resources{o.use, o.namespace, o.group, o.verbs, strings.Join(list, " ")}
		same[r] = append(same[r], o.resource)
	}
	for _, list := range same {
		slices.Sort(list)
	}
	out := map[string][]rule{}
	order := slices.SortedFunc(maps.Keys(same), func(a, b resources) int {
		return cmp.Or(cmp.Compare(a.use, b.use), cmp.Compare(a.group, b.group), slices.Compare(same[a], same[b]),
			cmp.Compare(a.names, b.names), cmp.Compare(a.verbs, b.verbs))
	})
	for _, r := range order {
		out[r.namespace] = append(out[r.namespace], rule{comments[r.use], rbacv1.PolicyRule{
			APIGroups: []string{r.group}, Resources: same[r], Verbs: strings.Fields(r.verbs), ResourceNames: strings.Fields(r.names),
		}})
	}
	return out
}
