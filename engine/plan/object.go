package plan

import "strings"

// Object names one Kubernetes object. It is comparable and serves as a key.
// Namespace is empty for objects of cluster scope.
type Object struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is the short name people know from kubectl: "Deployment/api".
func (o Object) String() string { return o.Kind + "/" + o.Name }

// Compare orders objects by kind, name, namespace and API group.
func (o Object) Compare(p Object) int {
	for _, c := range []int{
		strings.Compare(o.Kind, p.Kind),
		strings.Compare(o.Name, p.Name),
		strings.Compare(o.Namespace, p.Namespace),
		strings.Compare(o.Group, p.Group),
	} {
		if c != 0 {
			return c
		}
	}
	return 0
}
