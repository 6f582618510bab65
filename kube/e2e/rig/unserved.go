package rig

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Things is a kind Thing whose CRD serves the versions v1 and v2.
type Things struct {
	API string // the API group
	rig *Rig
}

// CreateThings creates the CRD and waits until both versions are served.
func (r *Rig) CreateThings() Things {
	r.T.Helper()
	t := Things{r.Namespace + ".example.com", r}
	schemaOf := "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
	r.Create(Object("apiextensions.k8s.io/v1/CustomResourceDefinition/things."+t.API, nil, "spec:", "  group: "+t.API, "  scope: Namespaced",
		"  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}", "  versions:",
		"  - {name: v1, served: true, storage: false, "+schemaOf+"}", "  - {name: v2, served: true, storage: true, "+schemaOf+"}"))
	r.Eventually("both versions are served", func() bool { return t.Served("v1") && t.Served("v2") })
	return t
}

// Served reports whether the cluster serves a version.
func (t Things) Served(version string) bool {
	list, err := t.rig.Cluster.Discovery().ServerResourcesForGroupVersion(t.API + "/" + version)
	return err == nil && len(list.APIResources) > 0
}

// StopServing makes the cluster serve v2 alone, and connects again.
func (t Things) StopServing() {
	r := t.rig
	r.T.Helper()
	stop := []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
	if _, err := r.Client.Dynamic.Resource(CRDResource).Patch(r.T.Context(), "things."+t.API, types.JSONPatchType, stop, metav1.PatchOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.Eventually("v1 is not served", func() bool { return !t.Served("v1") })
	r.Client = Connect(r.T, r.Namespace)
}
