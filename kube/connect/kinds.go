package connect

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

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
