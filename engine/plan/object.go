package plan

import (
	"cmp"
	"strings"
)

// Object identifies a Kubernetes object. Namespace is empty for cluster-scoped objects.
type Object struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns kind and name: "Deployment/api".
func (o Object) String() string { return o.Kind + "/" + o.Name }

// GroupKind returns the kind with its API group.
func (o Object) GroupKind() GroupKind { return GroupKind{o.Group, o.Kind} }

// Compare orders objects by kind, name, namespace and API group.
func (o Object) Compare(p Object) int { return o.compare(&p) }

// compare is Compare without copying, because planning spends most of its time sorting.
func (o *Object) compare(p *Object) int {
	if c := strings.Compare(o.Kind, p.Kind); c != 0 {
		return c
	}
	if c := strings.Compare(o.Name, p.Name); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(o.Namespace, p.Namespace), strings.Compare(o.Group, p.Group))
}
