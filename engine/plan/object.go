package plan

import (
	"cmp"
	"strings"
)

// Object names one Kubernetes object. It is comparable and serves as a key.
// Namespace is empty for objects of cluster scope.
type Object struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns the short name people know from kubectl: "Deployment/api".
func (o Object) String() string { return o.Kind + "/" + o.Name }

// Compare orders objects by kind, name, namespace and API group.
func (o Object) Compare(p Object) int { return o.compare(&p) }

// compare returns Compare without copies: most of planning is sorting.
func (o *Object) compare(p *Object) int {
	if c := strings.Compare(o.Kind, p.Kind); c != 0 {
		return c
	}
	if c := strings.Compare(o.Name, p.Name); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(o.Namespace, p.Namespace), strings.Compare(o.Group, p.Group))
}
