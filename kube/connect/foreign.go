package connect

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// foreignError is a response that is not an API server's, but that of a proxy or a login page in front of it. It says nothing
// about objects: client-go would take any 2xx for a deletion, and any 404 for an object that does not exist.
type foreignError struct {
	reason  string
	refusal bool // 4xx: the proxy may refuse this request for ever
}

func (e *foreignError) Error() string { return e.reason }

// foreign returns an error if a response is not an API server's: a redirect, a web page, a success without an object, or a
// 404 without a Status for a resource that this API server has served before. That of an API group with a
// CustomResourceDefinition is an API server's: the definition may have been deleted. Redirects are not followed, because the
// credentials would go to another server.
func (c *call) foreign(resp *http.Response) error {
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		to := "another address"
		if u, err := url.Parse(resp.Header.Get("Location")); err == nil && u.Host != "" {
			to = u.Host
		}
		return &foreignError{reason: status + ", a redirect to " + to + " instead of the API server's response"}
	case http.StatusUnauthorized, http.StatusTooManyRequests:
		return nil
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return nil
	}
	refusal := resp.StatusCode >= http.StatusBadRequest
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		return &foreignError{status + ", a web page instead of the API server's response", refusal}
	}
	if c.target.Resource == "" || c.target.Subresource != "" || c.streams {
		return nil
	}
	switch {
	case resp.StatusCode == http.StatusOK && len(bytes.TrimSpace(peek(resp))) == 0:
		return &foreignError{reason: status + " without the API server's response"}
	case c.unserved(resp) && c.t.link.serves(c.target.resource()):
		return &foreignError{status + " without the API server's reason", true}
	}
	return nil
}

// unserved reports whether a response has the form with which an API server says that it does not serve a
// resource of Kubernetes at all.
func (c *call) unserved(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") &&
		c.target.Resource != "" && !Aggregated(c.target.Group)
}
