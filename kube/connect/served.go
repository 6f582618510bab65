package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// definable reports whether a CustomResourceDefinition can define kinds of an API group.
func definable(group string) bool {
	return strings.Contains(group, ".") && !scheme.Scheme.IsGroupRegistered(group) && group != crdGroup && group != "apiregistration.k8s.io"
}

// unserved reports whether a response has a form with which an API server says that it does not serve a resource at all.
func (c *call) unserved(resp *http.Response) bool {
	if resp.StatusCode != http.StatusNotFound || c.target.Resource == "" || c.target.Subresource != "" {
		return false
	}
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") || statusOf(resp).Message == "the server could not find the requested resource"
}

const crdGroup = "apiextensions.k8s.io"

// definition is the part of a CustomResourceDefinition that says which versions the API servers serve.
type definition struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		Versions []struct {
			Name   string
			Served bool
		}
	}
	Status struct {
		Conditions []metav1.Condition
	}
}

// serves reports whether each API server serves a version of the kind, or will as soon as it has seen the definition.
func (d *definition) serves(version string) bool {
	if d.Metadata.DeletionTimestamp != nil {
		return false
	}
	established, served := false, false
	for _, c := range d.Status.Conditions {
		established = established || c.Type == "Established" && c.Status == metav1.ConditionTrue
	}
	for _, v := range d.Spec.Versions {
		served = served || v.Name == version && v.Served
	}
	return established && served
}

// notYetServed reports whether an API server has only not yet seen the definition of the resource: where there are several,
// each learns of a new CustomResourceDefinition separately, but reads it from their common database. It then responds with 404,
// which says nothing about the object.
func (c *call) notYetServed(ctx context.Context, resp *http.Response) bool {
	if c.streams || !definable(c.target.Group) || !c.unserved(resp) {
		return false
	}
	url := *c.request.URL
	url.Path = c.t.path + "/apis/" + crdGroup + "/v1/customresourcedefinitions/" + c.target.Resource + "." + c.target.Group
	url.RawPath, url.RawQuery = "", ""
	found := c.get(ctx, &url, "application/json")
	var d definition
	return found != nil && json.Unmarshal(peek(found), &d) == nil && d.serves(c.target.Version)
}

// judgeUnserved is the verdict on a response for which notYetServed is true.
func (c *call) judgeUnserved(resp *http.Response) verdict {
	return verdict{outcome: responded, retry: true, serverError: true, reason: fmt.Sprintf("%d %s: the API server does not serve %s.%s/%s yet",
		resp.StatusCode, http.StatusText(resp.StatusCode), c.target.Resource, c.target.Group, c.target.Version)}
}
