package refs

import (
	"strings"

	"lockstep/engine/plan"
)

// consequences maps the use of a reference to the effect of a missing object.
var consequences = map[Use]string{
	Environment: "pods cannot start without it",
	Volume:      "pods cannot start without it",
	Claim:       "pods stay pending without it",
	Account:     "no pods can be created without it",
	Priority:    "no pods can be created without it",
	Runtime:     "no pods can be created without it",
	Pull:        "images that need it cannot be pulled",
	Class:       "no controller will handle the Ingress",
	Backend:     "requests to it fail",
	TLS:         "the controller serves its default certificate until the Secret exists",
	Target:      "the autoscaler has nothing to scale",
	Role:        "the binding grants no permissions until the role exists",
}

// IfMissing returns what happens if the referenced object is missing: "pods cannot start without it". It returns "" if the
// reference is optional, if builtIn reports true for the object, or if consequences has no entry for its use. Storage has none,
// because a claim can bind to an existing PersistentVolume even if its StorageClass does not exist.
func (r Ref) IfMissing() string {
	if r.Optional || builtIn(r.To) {
		return ""
	}
	return consequences[r.Use]
}

// builtIn reports whether Kubernetes or OpenShift provides an object that pods refer to.
func builtIn(o plan.Object) bool {
	switch o.Kind {
	case "ServiceAccount":
		return o.Name == "default"
	case "ConfigMap":
		return o.Name == "kube-root-ca.crt" || o.Name == "openshift-service-ca.crt"
	case "PriorityClass":
		return strings.HasPrefix(o.Name, "system-")
	}
	return false
}
