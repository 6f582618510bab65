package connect

import "strings"

// Target is what a request is about.
type Target struct {
	Group, Version, Resource, Namespace, Name, Subresource string
}

// targetOf reads a path of the API, zero for others.
func targetOf(path string) Target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var t Target
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		t.Version, parts = parts[1], parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		t.Group, t.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return t
	}
	// namespaces/NAME is a namespace itself, so are its status and finalize.
	if len(parts) >= 3 && parts[0] == "namespaces" && !(len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
		t.Namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&t.Resource, &t.Name, &t.Subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return t
}

// gate is what the request can be kept from by whoever serves its group alone.
func (t Target) gate() string {
	if t.Resource == "" {
		return wire
	}
	return t.Group + "/" + t.Version
}

// aggregatedTries is how often somebody else's API is asked for its kinds: many
// a cluster has one that has not answered for months.
const aggregatedTries = 3

// aggregated reports whether an API is asked for its kinds that may be served by
// somebody else than the API server.
func (t Target) aggregated() bool { return t.Resource == "" && Aggregated(t.Group) }

// Aggregated reports whether a group of the API may be served by somebody else than
// the API server.
func Aggregated(group string) bool {
	return strings.Contains(group, ".") && (!strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, "metrics.k8s.io"))
}
