package connect

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Target is the object or resource of a request.
type Target struct {
	Group, Version, Resource, Namespace, Name, Subresource string
}

// targetOf parses the path of a request. server is the path in the server's address, or "". The result is zero if the
// path is not one of the Kubernetes API.
func targetOf(server, path string) Target {
	var t Target
	path, ok := strings.CutPrefix(path, server)
	if !ok {
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
	// namespaces/NAME is the namespace itself, and so are its subresources.
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

// resource returns the resource of the request.
func (t Target) resource() metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: t.Resource}
}

// isReview reports whether the request creates a review: a query that the API server answers but does not store.
func (t Target) isReview() bool {
	return t.Group == "authentication.k8s.io" || t.Group == "authorization.k8s.io"
}

// gate returns the key of the request's gate: its group version, or serverGate for discovery and the like.
func (t Target) gate() string {
	if t.Resource == "" {
		return serverGate
	}
	return t.Group + "/" + t.Version
}

// apiService returns the name of the APIService of the request's group.
func (t Target) apiService() string { return "APIService/" + t.Version + "." + t.Group }

// maxDiscoveryTries limits discovery of an aggregated API: many clusters have one that has not responded for months.
const maxDiscoveryTries = 3

// isAggregatedDiscovery reports whether the request is discovery of a group that may be an aggregated API.
func (t Target) isAggregatedDiscovery() bool { return t.Resource == "" && Aggregated(t.Group) }

// Aggregated reports whether an API group may be an aggregated API: one served by a server other than the API server.
func Aggregated(group string) bool {
	return strings.Contains(group, ".") && (!strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, "metrics.k8s.io"))
}
