package connect

import "strings"

// Target is the object or resource of a request.
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

// isReview reports whether creating such an object is only a query, which the API server does not store.
func (t Target) isReview() bool {
	return t.Group == "authentication.k8s.io" || t.Group == "authorization.k8s.io"
}

func (t Target) gate() string {
	if t.Resource == "" {
		return wire
	}
	return t.Group + "/" + t.Version
}

// apiService returns the name of the APIService of the request's group.
func (t Target) apiService() string { return "APIService/" + t.Version + "." + t.Group }

// aggregatedTries limits discovery of an aggregated API: many clusters have one that has not responded for months.
const aggregatedTries = 3

// aggregated reports whether the request is discovery of a possibly aggregated API.
func (t Target) aggregated() bool { return t.Resource == "" && Aggregated(t.Group) }

// Aggregated reports whether an API group may be served by another server than the API server.
func Aggregated(group string) bool {
	return strings.Contains(group, ".") && (!strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, "metrics.k8s.io"))
}
