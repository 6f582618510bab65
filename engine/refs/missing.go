package refs

import (
	"strings"

	"lockstep/engine/plan"
)

// consequences has the effect of a missing object, by its use.
var consequences = map[Use]string{
	Environment: "pods cannot start without it",
	Volume:      "pods cannot start without it",
	Claim:       "pods stay pending without it",
	Account:     "no pods can be created without it",
	Priority:    "no pods can be created without it",
	Runtime:     "no pods can be created without it",
	Pull:        "images that need it cannot be pulled",
	Class:       "no controller will serve the object",
	Backend:     "requests to it fail",
	TLS:         "the controller serves its default certificate until the Secret exists",
	Target:      "the autoscaler has nothing to scale",
	Role:        "the binding grants no permissions until the role exists",
}

// IfMissing returns what happens if the referenced object is missing: "pods cannot start without it". It returns "" if the
// reference is optional, if every cluster has the object, or if its absence alone is no problem: a claim may be bound to a
// PersistentVolume although its StorageClass does not exist.
func (r Ref) IfMissing() string {
	if r.Optional || builtIn(r.To) {
		return ""
	}
	return consequences[r.Use]
}

// builtIn reports whether every cluster has an object, or creates it in each namespace.
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
