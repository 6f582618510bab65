package command

import (
	"fmt"
	"log/slog"
	"sync"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"lockstep/kube"
)

// ConnectHelm connects Helm's actions to a namespace, or to all if it is empty.
func (a *App) ConnectHelm(namespace string) error {
	a.Helm.SetLogger(slog.Default().Handler())
	return kube.InitHelm(a.Helm, newOnceGetter(a.Settings.RESTClientGetter()), namespace)
}

// onceGetter reads the kubeconfig and runs discovery once. Helm's getter does both for each
// object that it prints, which takes 5 s for 1,000 objects.
type onceGetter struct {
	genericclioptions.RESTClientGetter
	config    func() (*rest.Config, error)
	discovery func() (discovery.CachedDiscoveryInterface, error)
	mapper    func() (meta.RESTMapper, error)
}

func newOnceGetter(g genericclioptions.RESTClientGetter) onceGetter {
	return onceGetter{g, sync.OnceValues(g.ToRESTConfig), sync.OnceValues(g.ToDiscoveryClient), sync.OnceValues(g.ToRESTMapper)}
}

// ToRESTConfig returns a copy because callers may change it.
func (g onceGetter) ToRESTConfig() (*rest.Config, error) {
	config, err := g.config()
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(config), nil
}

// ToDiscoveryClient returns the shared discovery client.
func (g onceGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery()
}

// ToRESTMapper returns the shared mapper.
func (g onceGetter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper() }

// V1Release converts a release to v1, currently the only format.
func V1Release(r release.Releaser) (*rel1.Release, error) {
	v1, ok := r.(*rel1.Release)
	if !ok {
		return nil, fmt.Errorf("unsupported release type: %T", r)
	}
	return v1, nil
}

// V1Releases converts releases to v1.
func V1Releases(found []release.Releaser) (all []*rel1.Release, err error) {
	for _, x := range found {
		r, err := V1Release(x)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// History returns the revisions of a release, oldest first.
func (a *App) History(name string) ([]*rel1.Release, error) {
	found, err := action.NewHistory(a.Helm).Run(name)
	if err != nil {
		return nil, err
	}
	revisions, err := V1Releases(found)
	releaseutil.SortByRevision(revisions)
	return revisions, err
}
