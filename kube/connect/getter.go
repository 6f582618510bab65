package connect

import (
	"context"
	"net/http"
	"sync"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clienttransport "k8s.io/client-go/transport"
)

// Getter gives Helm's factory its clients. All requests go through transport, which cancels them with a context and
// retries temporary failures (R53). Unlike Helm's own getter, it caches discovery only in memory, because a cache on disk
// may have responses of another cluster at the same address. It has no client-side rate limit, because the API server
// has its own (priority and fairness).
type Getter struct {
	flags genericclioptions.RESTClientGetter
	// base returns the configuration of the kubeconfig, which is read only once: a later connection of the same run must
	// not fail because a token file is being replaced.
	base func() (*rest.Config, error)
	load func() (*loaded, error)
}

// loaded is made from the kubeconfig at its first use.
type loaded struct {
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	transport *transport
}

func newGetter(ctx context.Context, flags genericclioptions.RESTClientGetter, base func() (*rest.Config, error), link *Link, writes *Writes) *Getter {
	return &Getter{flags: flags, base: base, load: sync.OnceValues(func() (*loaded, error) {
		config, err := base()
		if err != nil {
			return nil, err
		}
		config = rest.CopyConfig(config)
		t := &transport{ctx: ctx, writes: writes, link: link, limits: limitsOf(ctx)}
		if config, err = throughTransport(config, t); err != nil {
			return nil, err
		}
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

// throughTransport returns a configuration whose requests go through t. Below t are client-go's round trippers for config,
// so that a retry can ask for new credentials.
func throughTransport(config *rest.Config, t *transport) (*rest.Config, error) {
	config.UserAgent = t.link.agent
	config.WrapTransport = withoutHelmRetry(config.WrapTransport)
	if t.plugin = config.ExecProvider != nil || config.AuthProvider != nil; t.plugin {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return credentialed{next} })
	}
	var err error
	if t.next, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	if t.plugin || config.BearerTokenFile != "" || config.CertFile != "" {
		t.renew = func() (http.RoundTripper, error) { return renewedTransport(config) }
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	t.server = server.Path
	out := rest.AnonymousClientConfig(config)
	out.Host, out.TLSClientConfig, out.Transport = server.String(), rest.TLSClientConfig{}, t
	out.Dial, out.Proxy, out.Timeout = nil, nil, 0
	out.ContentType = "application/json" // so that the transport can read request bodies; typed clients prefer protobuf
	out.QPS, out.Burst = -1, 0
	out.WarningHandler = rest.NoWarnings{}
	return out, nil
}

// renewedTransport returns the round trippers for config with the credentials that its files and plugins have now. It
// reads a client certificate itself, because client-go would keep the connections that use the old one.
func renewedTransport(config *rest.Config) (http.RoundTripper, error) {
	if config.CertFile != "" {
		config = rest.CopyConfig(config)
		config.CertData, config.KeyData = nil, nil
		if err := rest.LoadTLSFiles(config); err != nil {
			return nil, err
		}
		config.CertFile, config.KeyFile = "", ""
	}
	return rest.TransportFor(config)
}

// withoutHelmRetry removes Helm's own retries, because they resend a request whose body has already been read.
func withoutHelmRetry(wrap clienttransport.WrapperFunc) clienttransport.WrapperFunc {
	if wrap == nil {
		return nil
	}
	return func(next http.RoundTripper) http.RoundTripper {
		wrapped := wrap(next)
		if retrying, ok := wrapped.(*helmkube.RetryingRoundTripper); ok {
			return retrying.Wrapped
		}
		return wrapped
	}
}

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
