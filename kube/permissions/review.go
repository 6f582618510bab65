package permissions

import (
	"maps"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// Lacking returns the permissions of a set in one namespace that the rules of the user there do not grant, for the operation at
// all: not those that it works without. Rules that are limited to names count, because the names may be the right ones.
func (s Set) Lacking(rules authorizationv1.SubjectRulesReviewStatus) Set {
	lacking := Set{}
	if rules.Incomplete { // an authorizer cannot list its rules
		return lacking
	}
	for p, names := range s {
		grants := func(r authorizationv1.ResourceRule) bool {
			return has(r.Verbs, p.Verb) && has(r.APIGroups, p.Resource.Group) && has(r.Resources, p.Resource.Resource)
		}
		if !p.Optional() && !slices.ContainsFunc(rules.ResourceRules, grants) {
			lacking[p] = names
		}
	}
	return lacking
}

// has reports whether a list of a rule has a value, or all.
func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// Verbs returns the verbs of a set, sorted.
func (s Set) Verbs() []string {
	verbs := map[string]bool{}
	for p := range s {
		verbs[p.Verb] = true
	}
	return slices.Sorted(maps.Keys(verbs))
}
