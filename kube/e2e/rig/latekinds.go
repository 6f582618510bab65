package rig

import (
	"fmt"
	"strings"

	"lockstep/engine/plan"
)

// LateKind is a kind that a CRD defines during a run. Its resource cannot be guessed from the kind.
type LateKind struct {
	Kind, Plural, Scope string
	API                 string // the API group, unique to the test
}

// CRD returns the CustomResourceDefinition.
func (k LateKind) CRD(annotations map[string]string) string {
	return Object("apiextensions.k8s.io/v1/CustomResourceDefinition/"+k.Plural+"."+k.API, annotations,
		fmt.Sprintf("spec:\n  group: %s\n  scope: %s\n  names: {kind: %s, listKind: %sList, plural: %s, singular: %s}", k.API, k.Scope, k.Kind, k.Kind, k.Plural, strings.ToLower(k.Kind)),
		"  versions:\n  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}")
}

// Object returns an object of the kind that becomes ready after 500 ms.
func (k LateKind) Object(annotations map[string]string) string {
	annotations["sandbox/ready-after"], annotations["sandbox/status"] = "500ms", `{"phase":"Ready"}`
	annotations[plan.AnnotationReadinessSuccess], annotations[plan.AnnotationReadinessFailure] = `["{.phase} == Ready"]`, `["{.phase} == Broken"]`
	return Object(k.API+"/v1/"+k.Kind+"/late", annotations, "spec: {size: x}")
}

// LateKinds returns one kind for each way to guess its resource wrong.
func LateKinds(api string) []LateKind {
	return []LateKind{
		{"Gateway", "gateways", "Namespaced", api}, // the guess is "gatewaies"
		{"Data", "data", "Namespaced", api},        // the guess is "datas"
		{"Zone", "zones", "Cluster", api},          // the guess is a namespaced resource
	}
}
