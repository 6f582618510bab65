package charts

import "lockstep/engine"

// annotationHost is part of all annotations that order things.
const annotationHost = "helm.sh/"

// sequencing holds the annotations that are made strings, in both spellings
// (R1, R3, R19).
var sequencing = bothSpellings(
	engine.AnnotationGroup, engine.AnnotationGroupDependsOn, engine.AnnotationSubchartDependsOn,
	engine.AnnotationLayer, engine.AnnotationLayerDependsOn, engine.AnnotationLayerChart,
	engine.AnnotationWeight, engine.AnnotationInstallBefore,
	engine.AnnotationReadinessSuccess, engine.AnnotationReadinessFailure,
)

func bothSpellings(keys ...string) map[string]bool {
	set := map[string]bool{}
	for _, key := range keys {
		set[key] = true
		set[engine.StoredKey(key)] = true
	}
	return set
}
