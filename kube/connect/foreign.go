package connect

import (
	"bytes"
	"encoding/json"
	"errors"
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
	damaged bool // the body cannot be decoded: an API server's response that was cut off or damaged on its way
}

func (e *foreignError) Error() string { return e.reason }

// foreign returns an error if a response is not an API server's: a redirect, a web page, JSON that cannot be decoded, a success
// without an object, or a 404 without a Status for a resource that this API server has served before. That of an API group with a
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
		return &foreignError{reason: status + ", a web page instead of the API server's response", refusal: refusal}
	}
	if c.streams {
		return nil
	}
	body := bytes.TrimSpace(peek(resp))
	var object struct{ Kind any }
	isJSON := len(body) > 0 && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")
	if isJSON {
		var syntax *json.SyntaxError
		if err := json.Unmarshal(body, &object); errors.As(err, &syntax) {
			return &foreignError{reason: fmt.Sprintf("%s with a response that cannot be decoded: %v", status, err), refusal: refusal, damaged: true}
		}
	}
	if c.target.Resource == "" || c.target.Subresource != "" {
		return nil
	}
	switch {
	case resp.StatusCode == http.StatusOK && (len(body) == 0 || isJSON && object.Kind == nil):
		return &foreignError{reason: status + " without the API server's response"}
	case !definable(c.target.Group) && c.unserved(resp) && c.t.link.serves(c.target.resource()):
		return &foreignError{reason: status + " without the API server's reason", refusal: true}
	}
	return nil
}
