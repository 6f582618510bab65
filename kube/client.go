package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"helm.sh/helm/v4/pkg/cli"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/registry"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"lockstep/kube/diagnose"
)

// Client is a connection to a cluster. It may be used by one operation at a
// time.
type Client struct {
	settings *cli.EnvSettings
	getter   *restGetter
	log      *slog.Logger
	registry *registry.Client

	dynamic   dynamic.Interface
	clientset kubernetes.Interface
	metadata  metadata.Interface
}

// fieldManager is the name under which fields are owned in server-side apply:
// Helm's, so that releases can go back and forth between the two programs.
const fieldManager = "helm"

// nameFieldManager tells Helm, which would take the name of the program.
var nameFieldManager = sync.OnceFunc(func() { helmkube.ManagedFieldsManager = fieldManager })

// Connect prepares the connection that the settings describe. It sends no
// request yet. The registry client may be nil.
func Connect(settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	nameFieldManager()
	flags, ok := settings.RESTClientGetter().(*genericclioptions.ConfigFlags)
	if !ok {
		return nil, fmt.Errorf("connect: unexpected client getter %T", settings.RESTClientGetter())
	}
	c := &Client{settings: settings, getter: newRESTGetter(flags), log: log, registry: reg}
	if err := c.dial(); err != nil {
		return nil, err
	}
	return c, nil
}

// dial makes the clients. It sends no request.
func (c *Client) dial() error {
	config, err := c.getter.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w; set KUBECONFIG or --kubeconfig, or try --sandbox", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	if c.clientset, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	if c.metadata, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return nil
}

// Namespace is the namespace that the settings name.
func (c *Client) Namespace() string { return c.settings.Namespace() }

// ContextName is the name of the kubeconfig's context in use, or its server.
func (c *Client) ContextName() string {
	if c.settings.KubeContext != "" {
		return c.settings.KubeContext
	}
	raw, err := c.getter.ToRawKubeConfigLoader().RawConfig()
	if err == nil && raw.CurrentContext != "" {
		return raw.CurrentContext
	}
	config, err := c.getter.ToRESTConfig()
	if err != nil {
		return ""
	}
	return config.Host
}

// noContext reports whether the kubeconfig names no cluster, since it is missing
// for instance: the address is then a guess of client-go's.
func (c *Client) noContext() bool {
	raw, err := c.getter.ToRawKubeConfigLoader().RawConfig()
	return err == nil && raw.CurrentContext == "" && c.settings.KubeContext == "" && c.settings.KubeAPIServer == ""
}

// Diagnoser reads from the cluster why objects are not ready.
func (c *Client) Diagnoser() *diagnose.Diagnoser {
	return diagnose.New(c.clientset, c.dynamic, c.getter)
}

// storageDriver is the kind of Helm's release storage, as in HELM_DRIVER.
func storageDriver() string { return os.Getenv("HELM_DRIVER") }

// restGetter is what Helm's factory asks for a client. Other than Helm's own
// it keeps discovery in memory and not on disk, where the answers of another
// cluster at the same address may lie; has no client-side rate limit, since
// the API server's priority and fairness governs; and binds all requests to a
// context, so that a lost API server cannot hang an abort.
type restGetter struct {
	flags genericclioptions.RESTClientGetter
	bound boundContext

	once      sync.Once
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	err       error
}

func newRESTGetter(flags genericclioptions.RESTClientGetter) *restGetter {
	return &restGetter{flags: flags}
}

func (g *restGetter) init() {
	g.once.Do(func() {
		config, err := g.flags.ToRESTConfig()
		if err != nil {
			g.err = err
			return
		}
		config.QPS, config.Burst = -1, 0
		config.UserAgent = "lockstep"
		config.WarningHandler = rest.NoWarnings{}
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &boundTransport{&g.bound, rt} })
		g.config = config
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			g.err = err
			return
		}
		g.discovery = memory.NewMemCacheClient(client)
		g.mapper = restmapper.NewDeferredDiscoveryRESTMapper(g.discovery)
	})
}

// ToRESTConfig returns a copy of the connection's configuration.
func (g *restGetter) ToRESTConfig() (*rest.Config, error) {
	if g.init(); g.err != nil {
		return nil, g.err
	}
	return rest.CopyConfig(g.config), nil
}

// ToDiscoveryClient returns the shared discovery client.
func (g *restGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	g.init()
	return g.discovery, g.err
}

// ToRESTMapper returns the shared mapper. It asks the server again for a kind
// that it does not know.
func (g *restGetter) ToRESTMapper() (meta.RESTMapper, error) {
	g.init()
	return g.mapper, g.err
}

// ToRawKubeConfigLoader returns the kubeconfig's loader.
func (g *restGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return g.flags.ToRawKubeConfigLoader()
}

// boundContext is the context that ends all requests of the connection. Helm's
// client takes no context of its own.
//
// It also knows whether anything was written: what the API server has refused
// was not, what it did not answer may have been.
type boundContext struct {
	now   atomic.Pointer[context.Context]
	wrote atomic.Bool
}

func (b *boundContext) set(ctx context.Context) { b.now.Store(&ctx) }

// boundTransport ends requests when the bound context ends.
type boundTransport struct {
	bound *boundContext
	next  http.RoundTripper
}

func (t *boundTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(r)
	if writes(r) && (err == nil && resp.StatusCode < http.StatusBadRequest || err != nil && !notSent(err)) {
		t.bound.wrote.Store(true)
	}
	return resp, err
}

// writes reports whether a request changes anything in the cluster.
func writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !r.URL.Query().Has("dryRun") && !strings.HasPrefix(r.URL.Path, "/apis/auth")
}

// notSent reports whether a request has surely not come to an API server.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, errEnded)
}

// errEnded is why a request was not made: what it belongs to has ended before.
var errEnded = errors.New("not sent")

func (t *boundTransport) roundTrip(r *http.Request) (*http.Response, error) {
	p := t.bound.now.Load()
	if p == nil {
		return t.next.RoundTrip(r)
	}
	if err := (*p).Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errEnded, err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(*p, cancel)
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	resp.Body = &boundBody{resp.Body, func() { stop(); cancel() }}
	return resp, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *boundTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// boundBody lets go of the bound context once the answer has been read.
type boundBody struct {
	io.ReadCloser
	done func()
}

func (b *boundBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
