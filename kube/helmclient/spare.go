package helmclient

import (
	"context"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// worthSparing is how many objects of one kind and namespace a group has to have
// before it is worth a list to see which of them need no apply, and mostListed how
// many objects there may be in that list for each of them.
const (
	worthSparing = 4
	mostListed   = 8
)

// sparer finds the objects whose apply would change nothing, so that it need not be
// sent. What it goes by is read after the group has started: what the groups before
// it have changed, it sees. It sends nothing but lists.
type sparer struct {
	client    *connect.Client
	builder   *manifest.Builder
	rewritten func(*resource.Info) bool                        // the revision that is deployed has it otherwise
	mutators  func() ([]admissionv1.RuleWithOperations, error) // what is asked before an apply is stored

	mu    sync.Mutex
	lists map[place]func() map[string]*unstructured.Unstructured
}

// place is where a group has objects of one kind.
type place struct {
	group     string
	resource  schema.GroupVersionResource
	namespace string
}

func newSparer(ctx context.Context, c *connect.Client, b *manifest.Builder, rewritten func(*resource.Info) bool) *sparer {
	s := &sparer{client: c, builder: b, rewritten: rewritten, lists: map[place]func() map[string]*unstructured.Unstructured{}}
	s.mutators = sync.OnceValues(func() ([]admissionv1.RuleWithOperations, error) { return mutators(ctx, c) })
	return s
}

// spare reports whether an object of a group is proven to be as it is to be; it takes
// then the place of the answer to its apply. A Job or a Pod that has ended may be
// replaced by its apply, so they are never spared. For what the chart has otherwise than
// the deployed revision nothing is listed.
func (s *sparer) spare(ctx context.Context, g *plan.Group, i *resource.Info) bool {
	want, ok := i.Object.(*unstructured.Unstructured)
	f := s.builder.Fact(i)
	if !ok || f == nil || s.rewritten(i) || f.Late || f.Generated || f.Before().Version == "" || want.GetKind() == "Job" || want.GetKind() == "Pod" {
		return false
	}
	live := s.live(ctx, g, i)
	if live == nil || !manifest.Unchanged(want, live) || s.mutated(i) {
		return false
	}
	f.Seen(live.GetResourceVersion())
	return i.Refresh(live, true) == nil
}

// live is an object as it is, nil where it is not there or not worth asking.
func (s *sparer) live(ctx context.Context, g *plan.Group, i *resource.Info) *unstructured.Unstructured {
	p := place{g.ID, i.Mapping.Resource, i.Namespace}
	s.mu.Lock()
	list := s.lists[p]
	if list == nil {
		n := 0
		for _, o := range g.Objects {
			if o.Kind == i.Mapping.GroupVersionKind.Kind && o.Namespace == i.Namespace {
				n++
			}
		}
		list = sync.OnceValue(func() map[string]*unstructured.Unstructured { return s.list(ctx, p, n) })
		s.lists[p] = list
	}
	s.mu.Unlock()
	return list()[i.Name]
}

// list reads the objects of a place where n of them are of interest.
func (s *sparer) list(ctx context.Context, p place, n int) map[string]*unstructured.Unstructured {
	if n < worthSparing {
		return nil
	}
	found, err := s.client.Dynamic.Resource(p.resource).Namespace(p.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/managed-by=Helm", Limit: int64(n) * mostListed,
	})
	if err != nil || found.GetContinue() != "" {
		return nil
	}
	out := make(map[string]*unstructured.Unstructured, len(found.Items))
	for i := range found.Items {
		out[found.Items[i].GetName()] = &found.Items[i]
	}
	return out
}

// mutated reports whether somebody may change the object when it is applied, though
// the apply itself changes nothing.
func (s *sparer) mutated(i *resource.Info) bool {
	rules, err := s.mutators()
	gvr := i.Mapping.Resource
	return err != nil || slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		return names(r.APIGroups, gvr.Group) && names(r.Resources, gvr.Resource)
	})
}

func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return s == name || s == "*" || s == "*/*" })
}

// mutators are the rules of all webhooks and policies that change what is applied,
// whatever else they depend on. Who may not see them knows nothing.
func mutators(ctx context.Context, c *connect.Client) (rules []admissionv1.RuleWithOperations, err error) {
	api := c.Clientset.AdmissionregistrationV1()
	hooks, err := api.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, h := range hooks.Items {
		for _, w := range h.Webhooks {
			rules = append(rules, w.Rules...)
		}
	}
	everything := []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{"*"}, Resources: []string{"*"}}}}
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		policies := schema.GroupVersionResource{Group: admissionv1.GroupName, Version: version, Resource: "mutatingadmissionpolicybindings"}
		found, err := c.Dynamic.Resource(policies).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err): // the cluster has none of this version
		case err != nil:
			return nil, err
		case len(found.Items) > 0:
			return everything, nil
		}
	}
	return rules, nil
}
