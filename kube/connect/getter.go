package connect

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// Getter gives Helm's factory its clients. All requests go through transport, which cancels them with a context and
// retries temporary failures (R53). Unlike Helm's own getter, it caches discovery only in memory, because a cache on disk
// may have responses of another cluster at the same address. It has no client-side rate limit, because the API server
// has its own (priority and fairness).
type Getter struct {
	flags genericclioptions.RESTClientGetter
	// server returns the API server of the kubeconfig, which is read only once: a later connection of the same run must
	// not fail because a token file is being replaced.
	server func() (*server, error)
	load   func() (*loaded, error)
}

// loaded is made from the kubeconfig at its first use.
type loaded struct {
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	transport *transport
}

func newGetter(ctx context.Context, flags genericclioptions.RESTClientGetter, server func() (*server, error), link *Link, writes *Writes) *Getter {
	return &Getter{flags: flags, server: server, load: sync.OnceValues(func() (*loaded, error) {
		s, err := server()
		if err != nil {
			return nil, err
		}
		t := &transport{server: s, ctx: ctx, writes: writes, link: link, limits: limitsOf(ctx)}
		config := s.throughTransport(t)
		withTimeout := rest.CopyConfig(config)
		withTimeout.Timeout = discoveryTimeout
		client, err := discovery.NewDiscoveryClientForConfig(withTimeout)
		if err != nil {
			return nil, err
		}
		cached := memory.NewMemCacheClient(client)
		return &loaded{config, helmDiscovery{cached, t}, restmapper.NewDeferredDiscoveryRESTMapper(mapperDiscovery{cached, t}), t}, nil
	})}
}

// mapperDiscovery is the discovery client of the mapper. Once a kind has not been found, it reads kinds from the cluster.
type mapperDiscovery struct {
	discovery.CachedDiscoveryInterface
	t *transport
}

// Invalidate makes the connection bypass the shared cache from now on.
func (m mapperDiscovery) Invalidate() {
	m.t.bypassCache.Store(true)
	m.CachedDiscoveryInterface.Invalidate()
}

// helmDiscovery is the discovery client of Helm, which invalidates it whenever it asks for the capabilities.
type helmDiscovery struct {
	discovery.CachedDiscoveryInterface
	t *transport
}

// Invalidate does nothing on a connection that still keeps its kinds.
func (h helmDiscovery) Invalidate() {
	if !h.t.kinds.isOn() {
		h.CachedDiscoveryInterface.Invalidate()
	}
}

// discoveryTimeout replaces client-go's timeout of 32 s. The transport's context and limits end discovery much earlier.
const discoveryTimeout = time.Hour

// ToRESTConfig returns a copy of the connection's configuration.
func (g *Getter) ToRESTConfig() (*rest.Config, error) {
	l, err := g.load()
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(l.config), nil
}

// StreamConfig returns a configuration that bypasses transport, because streams such as those of exec cannot be retried.
func (g *Getter) StreamConfig() (*rest.Config, error) {
	config, err := g.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "lockstep"
	config.WrapTransport = withoutHelmRetry(config.WrapTransport)
	return config, nil
}

// ToDiscoveryClient returns the shared discovery client.
func (g *Getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	l, err := g.load()
	if err != nil {
		return nil, err
	}
	return l.discovery, nil
}

// ToRESTMapper returns the shared mapper. If it does not know a kind, it runs discovery again.
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
