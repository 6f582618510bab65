package connect

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"helm.sh/helm/v4/pkg/action"
)

// WithKinds returns a getter whose cluster also seems to serve the kinds, unless it serves them in another version. Helm's
// .Capabilities.APIVersions then has them.
func WithKinds(getter action.RESTClientGetter, kinds []schema.GroupVersionKind) action.RESTClientGetter {
	return kindsGetter{getter, kinds}
}

type kindsGetter struct {
	action.RESTClientGetter
	kinds []schema.GroupVersionKind
}

func (g kindsGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	d, err := g.RESTClientGetter.ToDiscoveryClient()
	return kindsDiscovery{d, g.kinds}, err
}

type kindsDiscovery struct {
	discovery.CachedDiscoveryInterface
	kinds []schema.GroupVersionKind
}

func (d kindsDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	groups, resources, err := d.CachedDiscoveryInterface.ServerGroupsAndResources()
	served := map[schema.GroupKind]bool{}
	for _, list := range resources {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion) // the API server's
		for _, r := range list.APIResources {
			served[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] = true
		}
	}
	for _, k := range d.kinds {
		if version := k.GroupVersion().String(); !served[k.GroupKind()] {
			groups = append(groups, &metav1.APIGroup{Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: version, Version: k.Version}}})
			resources = append(resources, &metav1.APIResourceList{GroupVersion: version, APIResources: []metav1.APIResource{{Kind: k.Kind}}})
		}
	}
	return groups, resources, err
}

// WithReads returns a getter that calls read with the object or the list that each request of its configuration reads.
// Helm makes the client of the template function lookup from it.
func WithReads(getter action.RESTClientGetter, read func(Target)) action.RESTClientGetter {
	return readsGetter{getter, read}
}

type readsGetter struct {
	action.RESTClientGetter
	read func(Target)
}

func (g readsGetter) ToRESTConfig() (*rest.Config, error) {
	config, err := g.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return reads{next, server.Path, g.read}
	})
	return config, nil
}

type reads struct {
	next   http.RoundTripper
	server string // the path in the server's address
	read   func(Target)
}

func (r reads) RoundTrip(q *http.Request) (*http.Response, error) {
	if t := targetOf(r.server, q.URL.Path); t.Resource != "" && q.Method == http.MethodGet {
		r.read(t)
	}
	return r.next.RoundTrip(q)
}
