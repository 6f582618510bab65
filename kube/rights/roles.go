package rights

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

// comments explain rights, by their use.
var comments = map[Use]string{
	Objects:     "The chart's objects. A server-side apply needs patch and, for a new object, create; both by name.",
	Records:     "The release records. Lists cannot be limited to names, and the names of later revisions are unknown.",
	Bindings:    "Bind is needed for bindings to existing roles, escalate for roles that collect others' rules.",
	Lock:        "The lock of the release. Without it only Helm's pending status prevents concurrent runs.",
	HookWatches: "Hooks are watched by name. Without it lockstep reads them every few seconds.",
	Watches:     "Watches cannot be limited to names. Without them lockstep reads each object every few seconds.",
	Checks:      "Checks before the first write. Without these permissions lockstep skips the checks.",
	Control:     "Commands from attach and ctl to a run in the cluster, through a Lease. Without these permissions nobody can control it.",
	Details:     "Causes of objects that are not ready, and logs. Without these permissions lockstep lists the objects that it cannot read.",
}

var verbOrder = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

// place is a resource in a namespace.
type place struct{ namespace, group, resource string }

// request is a verb on an object, or on all objects of a resource if the name is "".
type request struct {
	place
	verb, name string
}

// target is an object, or all objects of a resource if the name is "", and the use of the rights.
type target struct {
	place
	use  Use
	name string
}

// makeRules returns the rules that grant rights, by namespace: those that operations need, including
// the lock, and the optional ones. Each right is granted by only one rule.
func makeRules(all Set, grants []Grant) (needed, optional map[string][]rule) {
	granted := map[request]bool{}
	part := func(optional bool) map[string][]rule {
		order := slices.SortedFunc(maps.Keys(all), func(a, b Right) int {
			whole := func(r Right) int { return min(len(all[r]), 1) } // rights on all objects first, because they cover named ones
			return cmp.Or(cmp.Compare(whole(a), whole(b)), cmp.Compare(a.Use, b.Use), compareVerbs(a.Verb, b.Verb))
		})
		verbs := map[target][]string{}
		for _, r := range order {
			if optional != (r.Use > Lock) {
				continue
			}
			names := all[r]
			if len(names) == 0 {
				names = []string{""}
			}
			at := place{r.Namespace, r.Resource.Group, r.Resource.Resource}
			for _, name := range names {
				if !granted[request{at, r.Verb, ""}] && !granted[request{at, r.Verb, name}] {
					granted[request{at, r.Verb, name}] = true
					verbs[target{at, r.Use, name}] = append(verbs[target{at, r.Use, name}], r.Verb)
				}
			}
		}
		return mergeRules(verbs)
	}
	needed, optional = part(false), part(true)
	for _, g := range grants {
		needed[g.Namespace] = append(needed[g.Namespace], rule{"Rights that " + g.Role + " grants. Only an account that has them can create it.", g.Rule})
	}
	return needed, optional
}

// compareVerbs orders verbs in the usual order.
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
		whole bool
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
	out := map[string][]rule{}
	order := slices.SortedFunc(maps.Keys(same), func(a, b resources) int {
		return cmp.Or(cmp.Compare(a.use, b.use), cmp.Compare(a.group, b.group), slices.Compare(slices.Sorted(slices.Values(same[a])), slices.Sorted(slices.Values(same[b]))), cmp.Compare(a.names, b.names), cmp.Compare(a.verbs, b.verbs))
	})
	for _, r := range order {
		out[r.namespace] = append(out[r.namespace], rule{comments[r.use], rbacv1.PolicyRule{
			APIGroups: []string{r.group}, Resources: slices.Sorted(slices.Values(same[r])), Verbs: strings.Fields(r.verbs), ResourceNames: strings.Fields(r.names),
		}})
	}
	return out
}
