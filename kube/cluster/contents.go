package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// WhyInUse returns why an object of the release is kept although it is the release's own: others would be deleted with it. It is
// a namespace that contains anything from outside the release, or a CRD of which there are objects that the release does not delete.
func WhyInUse(ctx context.Context, c *connect.Client, scope manifest.Scope, claims manifest.Claims, o plan.Object) (string, error) {
	switch kind := o.GroupKind(); {
	case scope.Owner() == "":
		return "", nil
	case kind == plan.GroupKind{Kind: "Namespace"}:
		if why, err := otherReleases(ctx, c, scope, o.Name); err != nil || why != "" {
			return why, err
		}
		return (&contents{client: c, scope: scope, claims: claims, namespace: o.Name, leftover: !claims.Unmarked[o]}).whyInUse(ctx)
	case kind == plan.GroupKind{Group: crds.Group, Kind: "CustomResourceDefinition"}:
		if claims.DeleteCRDs {
			return "", nil
		}
		return CRDContents(ctx, c, scope, o.Name)
	}
	return "", nil
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// otherReleases names the other releases in a namespace, as far as the user may list their records.
func otherReleases(ctx context.Context, c *connect.Client, scope manifest.Scope, namespace string) (string, error) {
	var others []string
	for _, records := range []string{"secrets", "configmaps"} { // others may use another driver
		list, err := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: records}).Namespace(namespace).
			List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
		if apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("find other releases in namespace %s: %w", namespace, err)
		}
		for _, r := range list.Items {
			if name := r.Labels["name"]; name != scope.Release || namespace != scope.Namespace {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	if others = slices.Compact(others); len(others) == 0 {
		return "", nil
	}
	return "it contains " + text.Named("release", others), nil
}

// CRDContents counts the objects of a CRD that the release does not delete: those of others, and those with
// helm.sh/resource-policy: keep. It names some; "" if there are none.
func CRDContents(ctx context.Context, c *connect.Client, scope manifest.Scope, crd string) (string, error) {
	return objectsOf(ctx, c, crd, func(o *metav1.PartialObjectMetadata) bool {
		seen := manifest.SeenAs(o)
		return (seen.Owner != scope.Owner() || seen.Keep) && o.DeletionTimestamp == nil
	})
}

// CRDWarning says whether a removed CRD that has objects is deleted; contents are CRDContents.
func CRDWarning(o plan.Object, contents string, deletes bool) plan.Warning {
	message := fmt.Sprintf("%s stays: %s; --delete-crds deletes it with all of them", o, contents)
	if deletes {
		message = fmt.Sprintf("%s is deleted with all its objects (--delete-crds): %s", o, contents)
	}
	return plan.Warning{Rule: "R31b", Object: &o, Message: message}
}

// objectsOf counts the objects of a CRD for which counts is true, and names some.
func objectsOf(ctx context.Context, c *connect.Client, crd string, counts func(*metav1.PartialObjectMetadata) bool) (string, error) {
	resource, served, err := storedResource(ctx, c, crd)
	if err != nil || !served {
		return "", err
	}
	var names []string
	namespaces := map[string]bool{}
	err = connect.EachObject(ctx, c.Metadata.Resource(resource), "", func(o *metav1.PartialObjectMetadata) {
		if counts(o) {
			namespaces[o.Namespace] = true
			names = append(names, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
		}
	})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err):
		return "you may not list its objects, which would be deleted with it", nil
	case err != nil:
		return "", fmt.Errorf("find objects of %s: %w", crd, err)
	}
	return inUseText(names, namespaces), nil
}

// inUseText says how many objects a CRD has: "it has 4 objects in 2 namespaces: a/x, a/y, b/z and 1 more".
func inUseText(names []string, namespaces map[string]bool) string {
	if len(names) == 0 {
		return ""
	}
	where := ""
	if !namespaces[""] {
		where = " in " + text.Count(len(namespaces), "namespace")
	}
	return "it has " + text.Count(len(names), "object") + where + ": " + FirstThree(names)
}

// FirstThree lists at most three names, and counts the others.
func FirstThree(names []string) string {
	const most = 3
	more := ""
	if n := len(names) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names[:min(len(names), most)], ", ") + more
}

// storedResource returns the resource of a CRD in the version in which its objects are stored, which needs no conversion by a
// webhook, or else in another version that it serves. served is false if the CRD does not exist or serves none.
func storedResource(ctx context.Context, c *connect.Client, name string) (resource schema.GroupVersionResource, served bool, err error) {
	crd, err := c.Dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return resource, false, nil
	}
	if err != nil {
		return resource, false, fmt.Errorf("read CustomResourceDefinition/%s: %w", name, err)
	}
	resource.Resource, resource.Group, _ = strings.Cut(name, ".")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["served"] == true && (!served || v["storage"] == true) {
			resource.Version, _ = v["name"].(string)
			served = true
		}
	}
	return resource, served, nil
}
