package manifest

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

	"lockstep/kube/connect"
)

// mostListed is how many objects there may be in a list for each of those that are of
// interest.
const mostListed = 8

// Live reads objects whole, as they are: those of a batch, of one kind and namespace, by
// one list, and says of which an apply would change nothing. It sends nothing but lists,
// and may be used by several goroutines.
type Live struct {
	client   *connect.Client
	mutators func() ([]admissionv1.RuleWithOperations, error) // what is asked before an apply is stored

	mu    sync.Mutex
	lists map[batch]func() map[string]*unstructured.Unstructured
}

// batch is where objects are that are read at once.
type batch struct {
	name string
	place
}

// NewLive returns one that has read nothing yet. ctx ends its questions about webhooks and policies.
func NewLive(ctx context.Context, c *connect.Client) *Live {
	l := &Live{client: c, lists: map[batch]func() map[string]*unstructured.Unstructured{}}
	l.mutators = sync.OnceValues(func() ([]admissionv1.RuleWithOperations, error) { return mutators(ctx, c) })
	return l
}

// Object returns an object of a batch that has n of its kind and namespace, which is asked
// once. It is nil where it is not there, is no object of a Helm release, may not be listed,
// or where a list is not worth it: who has to know asks for the object itself.
func (l *Live) Object(ctx context.Context, name string, n func() int, i *resource.Info) *unstructured.Unstructured {
	b := batch{name, place{i.Mapping.Resource, i.Namespace}}
	l.mu.Lock()
	list := l.lists[b]
	if list == nil {
		list = sync.OnceValue(func() map[string]*unstructured.Unstructured { return l.list(ctx, b.place, n()) })
		l.lists[b] = list
	}
	l.mu.Unlock()
	return list()[i.Name]
}

// list reads the objects of a place where n of them are of interest.
func (l *Live) list(ctx context.Context, p place, n int) map[string]*unstructured.Unstructured {
	if n < worthListing {
		return nil
	}
	found, err := l.client.Dynamic.Resource(p.gvr).Namespace(p.namespace).List(ctx, metav1.ListOptions{
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

// Unchanged reports whether it is proven that the apply of an object, which is live so,
// would change nothing: see the function of that name; neither may a webhook or a policy
// change it, though the apply itself does not.
func (l *Live) Unchanged(i *resource.Info, live *unstructured.Unstructured) bool {
	want, ok := i.Object.(*unstructured.Unstructured)
	if !ok || !Lasting(i) || !Unchanged(want, live) {
		return false
	}
	rules, err := l.mutators()
	gvr := i.Mapping.Resource
	return err == nil && !slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		return names(r.APIGroups, gvr.Group) && names(r.Resources, gvr.Resource)
	})
}

// Lasting reports whether an object stays what it is: a Job or a Pod that has ended may be
// replaced by its apply, whatever that says.
func Lasting(i *resource.Info) bool {
	kind := i.Mapping.GroupVersionKind.Kind
	return kind != "Job" && kind != "Pod"
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
