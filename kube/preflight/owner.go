package preflight

import (
	"errors"
	"iter"

	helmkube "helm.sh/helm/v4/pkg/kube"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// TakeAdvice says how to take over objects of others.
func (c Common) TakeAdvice() manifest.TakeAdvice {
	if c.Provided != nil { // a release of a helmfile
		one := "set takeOwnership: true for release " + c.Release
		return manifest.TakeAdvice{One: one, Many: one}
	}
	return manifest.TakeAdvice{One: "take it over with --take-ownership", Many: "take them over with --take-ownership"}
}

// CheckOwners returns a conflict for each existing object of list that the release may not write to.
// Helm reports only the first conflict.
func CheckOwners(b *manifest.Builder, list helmkube.ResourceList, claims manifest.Claims) (conflicts []plan.Warning) {
	for f := range distinctFacts(b, list) {
		if f.Late || f.Generated {
			continue
		}
		if notOwned := (*manifest.NotOwned)(nil); errors.As(claims.Check(b.Scope(), f), &notOwned) {
			o := f.Resource.Object
			conflicts = append(conflicts, plan.Warning{Chart: f.Resource.Chart, Object: &o, Message: notOwned.Error(), Shared: notOwned.Shared()})
		}
	}
	return conflicts
}

// distinctFacts returns the fact of each object of list, once if a chart renders the object several times.
func distinctFacts(b *manifest.Builder, list helmkube.ResourceList) iter.Seq[*manifest.Fact] {
	return func(yield func(*manifest.Fact) bool) {
		seen := map[plan.Object]bool{}
		for _, i := range list {
			f := b.Fact(i)
			if f == nil || seen[f.Resource.Object] {
				continue
			}
			seen[f.Resource.Object] = true
			if !yield(f) {
				return
			}
		}
	}
}
