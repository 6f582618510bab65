package charts

import "lockstep/engine/plan"

// What keys of annotations begin with that order things, and of those among them
// that have two slashes.
var (
	orderingHints = []string{"helm.sh/resource-group", "helm.sh/dep", "helm.sh/layer", "helm.sh/weight", "helm.sh/install-before", "helm.sh/readiness-"}
	twoSlashHints = []string{"helm.sh/dep"}
)

// sequencing holds the annotations that are made strings, in both spellings
// (R1, R3, R19).
var sequencing = bothSpellings(
	plan.AnnotationGroup, plan.AnnotationGroupDependsOn, plan.AnnotationSubchartDependsOn,
	plan.AnnotationLayer, plan.AnnotationLayerDependsOn, plan.AnnotationLayerChart,
	plan.AnnotationWeight, plan.AnnotationInstallBefore,
	plan.AnnotationReadinessSuccess, plan.AnnotationReadinessFailure,
)

func bothSpellings(keys ...string) map[string]bool {
	set := map[string]bool{}
	for _, key := range keys {
		set[key] = true
		set[plan.StoredKey(key)] = true
	}
	return set
}
