package charts

import (
	"strings"

	"lockstep/engine/plan"
)

// annotationHost is part of all annotations that order things.
const annotationHost = "helm.sh/"

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

// Respell writes the annotation keys with two slashes under their stored
// spelling with one, which an API server takes (R3).
func Respell(manifest string) string {
	if !strings.Contains(manifest, "helm.sh/dep") {
		return manifest
	}
	for _, key := range plan.TwoSlashKeys() {
		manifest = strings.ReplaceAll(manifest, key+":", plan.StoredKey(key)+":")
		manifest = strings.ReplaceAll(manifest, key+`":`, plan.StoredKey(key)+`":`)
		manifest = strings.ReplaceAll(manifest, key+`':`, plan.StoredKey(key)+`':`)
	}
	return manifest
}
