package connect

import "strings"

// Target is what a request is about.
type Target struct {
	Group, Version, Resource, Namespace, Name, Subresource string
}

// targetOf reads the path of a request to a server whose address has its own path, "" for none. It
// is zero for a path that is not the API's.
func targetOf(server, path string) Target {
	var t Target
	path, under := strings.CutPrefix(path, server)
	if !under {
		return t
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
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

// isReview reports whether a request to create such an object only asks a question: the API server
// answers it and stores nothing.
func (t Target) isReview() bool {
	return t.Group == "authentication.k8s.io" || t.Group == "authorization.k8s.io"
}

// gate is what the request can be kept from by whoever serves its group alone.
func (t Target) gate() string {
	if t.Resource == "" {
		return wire
	}
	return t.Group + "/" + t.Version
}

// apiService is what says who serves the request's group.
func (t Target) apiService() string { return "APIService/" + t.Version + "." + t.Group }

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
