package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// WhyInUse returns why an object of the release is kept although it is the release's own: it is a namespace that contains other
// releases, which would be deleted with it. It returns "" if the user may not list their records.
func WhyInUse(ctx context.Context, c *connect.Client, scope manifest.Scope, o plan.Object) (string, error) {
	if o.Kind != "Namespace" || o.Group != "" || scope.Owner() == "" {
		return "", nil
	}
	var others []string
	for _, records := range []string{"secrets", "configmaps"} { // others may use another driver
		list, err := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: records}).Namespace(o.Name).
			List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
		if apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("find other releases in namespace %s: %w", o.Name, err)
		}
		for _, r := range list.Items {
			if name := r.Labels["name"]; name != scope.Release || o.Name != scope.Namespace {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	switch len(others) {
	case 0:
		return "", nil
	case 1:
		return "it contains release " + others[0], nil
	}
	return "it contains releases " + strings.Join(others, ", "), nil
}
