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

// helmIn returns Helm's configuration for a namespace. Unlike ConnectHelm, it may be called by several goroutines.
func (a *App) helmIn(namespace string) (*action.Configuration, error) {
	config := action.NewConfiguration()
	config.SetLogger(slog.Default().Handler())
	return config, kube.InitHelm(config, newOnceGetter(a.Settings.RESTClientGetter()), namespace)
}

// Releases returns the latest revision of each release in a namespace.
func (a *App) Releases(namespace string) ([]*rel1.Release, error) {
	config, err := a.helmIn(namespace)
	if err != nil {
		return nil, err
	}
	list := action.NewList(config)
	list.All, list.Limit = true, 0
	list.SetStateMask()
	found, err := list.Run()
	if err != nil {
		return nil, err
	}
	return V1Releases(found)
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
func (a *App) History(name string) ([]*rel1.Release, error) { return history(a.Helm, name) }

// HistoryIn is like History for a release in a namespace, and needs no ConnectHelm.
func (a *App) HistoryIn(namespace, name string) ([]*rel1.Release, error) {
	config, err := a.helmIn(namespace)
	if err != nil {
		return nil, err
	}
	return history(config, name)
}

func history(config *action.Configuration, name string) ([]*rel1.Release, error) {
	found, err := action.NewHistory(config).Run(name)
	if err != nil {
		return nil, err
	}
	revisions, err := V1Releases(found)
	releaseutil.SortByRevision(revisions)
	return revisions, err
}
