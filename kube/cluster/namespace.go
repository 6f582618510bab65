package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
)

// contents are the objects in a namespace that a removal of the namespace would delete with it.
type contents struct {
	client    *connect.Client
	scope     manifest.Scope
	claims    manifest.Claims
	namespace string
	// leftover is set if no deployed revision has the namespace: Helm would not delete it, so it stays if it may have anything of others.
	leftover bool

	mu       sync.Mutex
	releases map[string]bool // other releases of objects
	names    []string        // objects from outside the release
	unknown  string          // why there may be more, "" if there are not
}

// whyInUse returns why the namespace is kept, "" if it is not. Without the permission to list everything, a leftover is kept.
func (c *contents) whyInUse(ctx context.Context) (string, error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.client.Clientset.Discovery())
	if discovery.IsGroupDiscoveryFailedError(err) {
		c.unknown = fmt.Sprintf("it may have objects of an API that is not available (%v)", err)
	} else if err != nil {
		return "", fmt.Errorf("find the objects in namespace %s: %w", c.namespace, err)
	}
	c.releases = map[string]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return "", err
		}
		for _, r := range list.APIResources {
			group.Go(func() error { return c.list(ctx, version.WithResource(r.Name), r.Kind) })
		}
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	slices.Sort(c.names)
	switch {
	case len(c.releases) > 0:
		return "it contains objects of " + text.Named("release", slices.Sorted(maps.Keys(c.releases))), nil
	case len(c.names) > 0:
		return "it contains " + text.Count(len(c.names), "object") + " not of this release: " + FirstThree(c.names), nil
	case c.leftover:
		return c.unknown, nil
	}
	return "", nil
}

// list reads the objects of a kind.
func (c *contents) list(ctx context.Context, resource schema.GroupVersionResource, kind string) error {
	if resource.Resource == "events" || resource.Resource == "endpoints" { // written by the cluster about other objects
		return nil
	}
	err := connect.EachObject(ctx, c.client.Metadata.Resource(resource).Namespace(c.namespace), "", func(o *metav1.PartialObjectMetadata) {
		c.add(plan.Object{Group: resource.Group, Kind: kind, Namespace: o.Namespace, Name: o.Name}, o)
	})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err):
		return nil
	case apierrors.IsForbidden(err):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unknown = "you may not list its " + resource.Resource + ", which would be deleted with it"
		return nil
	case err != nil:
		return fmt.Errorf("find %s in namespace %s: %w", resource.Resource, c.namespace, err)
	}
	return nil
}

// add adds an object if it is from outside the release.
func (c *contents) add(o plan.Object, m *metav1.PartialObjectMetadata) {
	seen := manifest.SeenAs(m)
	if m.DeletionTimestamp != nil || len(m.OwnerReferences) > 0 { // an owner is in the namespace, too, or makes it again
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.scope.OwnedByOther(seen.Owner):
		c.releases[seen.Marks.Release] = true
	case seen.Marks.Release == c.scope.Release && seen.Marks.Namespace == c.scope.Namespace && !seen.Keep:
	case seen.Marks.Hook != "" && c.claims.MadeByHook != nil && c.claims.MadeByHook(o):
	case seen.Marks.Hook != "" && !seen.Keep && !c.leftover && holdsNothing(o): // an uninstalled release leaves those of its hooks
	case madeByCluster(o, m), c.isRecord(o, m):
	default:
		c.names = append(c.names, o.String())
	}
}

// holdsNothing reports whether an object of a hook only was for the run of the hook. Any other, such as a claim or a Secret with a
// generated password, may be what an installed release works with: hooks create those so that they outlast upgrades.
func holdsNothing(o plan.Object) bool {
	switch o.GroupKind() {
	case plan.GroupKind{Group: "batch", Kind: "Job"}, plan.GroupKind{Kind: "Pod"}, plan.GroupKind{Kind: "ServiceAccount"},
		plan.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "Role"}, plan.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:
		return true
	}
	return false
}

// madeByCluster reports whether each namespace has the object, or an account whose token it is, or whether it is a Lease: programs make
// these to lock something while they run, and nothing is lost with them.
func madeByCluster(o plan.Object, m metav1.Object) bool {
	switch o.Kind {
	case "Lease":
		return o.Group == "coordination.k8s.io"
	case "ConfigMap":
		return o.Name == "kube-root-ca.crt"
	case "ServiceAccount":
		return o.Name == "default"
	case "Secret":
		return m.GetAnnotations()["kubernetes.io/service-account.name"] != ""
	}
	return false
}

// isRecord reports whether an object is a record of the release, or its lock.
func (c *contents) isRecord(o plan.Object, m metav1.Object) bool {
	if o.Namespace != c.scope.Namespace {
		return false
	}
	l := m.GetLabels()
	return l["owner"] == "helm" && l["name"] == c.scope.Release || o.Kind == "Lease" && o.Name == lease.Name(c.scope.Release)
}
