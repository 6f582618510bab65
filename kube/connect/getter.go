package connect

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// Getter is what Helm's factory asks for a client. Other than Helm's own it
// keeps discovery in memory and not on disk, where the answers of another
// cluster at the same address may lie; has no client-side rate limit, since the
// API server's priority and fairness governs; and binds all requests to a
// context, so that a lost API server cannot hang an abort.
type Getter struct {
	flags genericclioptions.RESTClientGetter
	load  func() (*loaded, error)
}

// loaded is what follows from the kubeconfig, made at its first use.
type loaded struct {
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

func newGetter(ctx context.Context, flags genericclioptions.RESTClientGetter, writes *Writes) *Getter {
	return &Getter{flags: flags, load: sync.OnceValues(func() (*loaded, error) {
		config, err := flags.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		config.QPS, config.Burst = -1, 0
		config.UserAgent = "lockstep"
		config.WarningHandler = rest.NoWarnings{}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{ctx, writes, next} })
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, err
		}
		cached := memory.NewMemCacheClient(client)
		return &loaded{config, cached, restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
	})}
}

// ToRESTConfig returns a copy of the connection's configuration.
func (g *Getter) ToRESTConfig() (*rest.Config, error) {
	l, err := g.load()
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(l.config), nil
}

// ToDiscoveryClient returns the shared discovery client.
func (g *Getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	l, err := g.load()
	if err != nil {
		return nil, err
	}
	return l.discovery, nil
}

// ToRESTMapper returns the shared mapper. It asks the server again for a kind
// that it does not know.
func (g *Getter) ToRESTMapper() (meta.RESTMapper, error) {
	l, err := g.load()
	if err != nil {
		return nil, err
	}
	return l.mapper, nil
}

// ToRawKubeConfigLoader returns the kubeconfig's loader.
func (g *Getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return g.flags.ToRawKubeConfigLoader()
}
