package charts

import (
	"strings"

	"lockstep/engine"
)

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

// Respell writes the annotation keys with two slashes under their stored
// spelling with one, which an API server takes (R3).
func Respell(manifest string) string {
	if !strings.Contains(manifest, "helm.sh/dep") {
		return manifest
	}
	for _, key := range engine.TwoSlashKeys() {
		manifest = strings.ReplaceAll(manifest, key+":", engine.StoredKey(key)+":")
		manifest = strings.ReplaceAll(manifest, key+`":`, engine.StoredKey(key)+`":`)
		manifest = strings.ReplaceAll(manifest, key+`':`, engine.StoredKey(key)+`':`)
	}
	return manifest
}
