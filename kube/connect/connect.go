// Package connect is the connection to a cluster: the clients for a kubeconfig, and the transport that sends all their
// requests, including Helm's. Its central types are Client, Getter and Link; package kube and the packages below it may
// import it.
package connect

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// Client is a connection to a cluster. It is safe for concurrent use.
type Client struct {
	// Getter gives Helm's factory its clients, discovery and mappings.
	Getter    *Getter
	Dynamic   dynamic.Interface
	Clientset kubernetes.Interface
	Metadata  metadata.Interface

	link     *Link
	settings *cli.EnvSettings
	log      *slog.Logger
	registry *registry.Client
}

// FieldManager is the field manager of server-side apply. It is Helm's, so that either program can manage a release.
const FieldManager = "helm"

// setFieldManager sets Helm's field manager, which by default is the name of the running program.
var setFieldManager = sync.OnceFunc(func() { helmkube.ManagedFieldsManager = FieldManager })

// New returns a connection according to the settings. It sends no request. The logger and the registry client may be nil.
func New(settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	setFieldManager()
	flags, ok := settings.RESTClientGetter().(*genericclioptions.ConfigFlags)
	if !ok {
		return nil, fmt.Errorf("connect: unexpected client getter %T", settings.RESTClientGetter())
	}
	return NewFromGetter(flags, settings, log, reg)
}

// NewFromGetter is like New, but uses the kubeconfig of a getter. It does not change Helm's field manager.
func NewFromGetter(flags genericclioptions.RESTClientGetter, settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	link := newLink()
	server := sync.OnceValues(func() (*server, error) {
		config, err := flags.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		return newServer(config, link.agent)
	})
	c := &Client{Getter: newGetter(context.Background(), flags, server, link, &Writes{}), link: link, settings: settings, log: log, registry: reg}
	return c, c.makeClients()
}

// Bind returns the same connection with new clients, whose requests end with ctx. It exists because Helm's client takes no
// context. The clients have their own discovery cache, and record in writes whether they wrote anything.
func (c *Client) Bind(ctx context.Context, writes *Writes) (*Client, error) {
	bound := &Client{Getter: newGetter(ctx, c.Getter.flags, c.Getter.server, c.link, writes), link: c.link, settings: c.settings, log: c.log, registry: c.registry}
	return bound, bound.makeClients()
}

// makeClients makes the clients. It sends no request.
func (c *Client) makeClients() error {
	config, err := c.Getter.ToRESTConfig()
	if err != nil {
		return c.kubeconfigError(err)
	}
	var errs [3]error
	c.Dynamic, errs[0] = dynamic.NewForConfig(config)
	c.Clientset, errs[1] = kubernetes.NewForConfig(config)
	c.Metadata, errs[2] = metadata.NewForConfig(config)
	if err := cmp.Or(errs[:]...); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return nil
}

// RegistryConfig returns the path of Helm's file with the credentials for registries.
func (c *Client) RegistryConfig() string { return c.settings.RegistryConfig }

// Link returns the state that this connection shares with those that Bind makes from it.
func (c *Client) Link() *Link { return c.link }

// Namespace returns the namespace of the settings.
func (c *Client) Namespace() string { return c.settings.Namespace() }

// KubectlFlags returns the flags that make kubectl connect to the same cluster. It omits --kubeconfig if KUBECONFIG names
// the same file.
func (c *Client) KubectlFlags() []string {
	flags := []string{}
	if file := c.settings.KubeConfig; file != "" && file != os.Getenv("KUBECONFIG") {
		flags = append(flags, "--kubeconfig", file)
	}
	if name := c.selectedContext(); name != "" {
		flags = append(flags, "--context", name)
	}
	return flags
}

// ContextName returns the name of the kubeconfig's context, or the server's address if there is none.
func (c *Client) ContextName() string {
	if name := c.selectedContext(); name != "" {
		return name
	}
	config, err := c.Getter.ToRESTConfig()
	if err != nil {
		return ""
	}
	return config.Host
}

// selectedContext returns --kube-context, else the current context of the kubeconfig, "" if there is none.
func (c *Client) selectedContext() string {
	if c.settings.KubeContext != "" {
		return c.settings.KubeContext
	}
	raw, err := c.Getter.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// Impersonates reports whether requests impersonate another user (--kube-as-user).
func (c *Client) Impersonates() bool {
	config, err := c.Getter.flags.ToRESTConfig()
	return err == nil && config.Impersonate.UserName != ""
}

// CheckReachable asks the API server for its version. The error says what to check.
func (c *Client) CheckReachable(ctx context.Context) error {
	err := c.Clientset.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && noCredentials(err):
		return fmt.Errorf("cannot reach the cluster in context %q: %w, waiting for the credential plugin of the user in the kubeconfig", c.ContextName(), context.Cause(ctx))
	case ctx.Err() != nil:
		return fmt.Errorf("cannot reach the cluster in context %q: %w", c.ContextName(), context.Cause(ctx))
	case c.lacksCluster():
		return c.noClusterError()
	}
	if apierrors.IsUnauthorized(err) {
		return &unreachableError{fmt.Errorf("the cluster in context %q refused the credentials (%w); log in again, or check the user in the kubeconfig", c.ContextName(), err)}
	}
	return &unreachableError{fmt.Errorf("cannot reach the cluster in context %q: %w; %s", c.ContextName(), worded(err), whatToCheck(err))}
}

// Leases returns the client for Leases of a namespace.
func (c *Client) Leases(namespace string) coordinationv1.LeaseInterface {
	return c.Clientset.CoordinationV1().Leases(namespace)
}

// Log returns the logger for debug messages.
func (c *Client) Log() *slog.Logger { return c.log }

// StorageDriver returns Helm's release storage driver, HELM_DRIVER.
func StorageDriver() string { return os.Getenv("HELM_DRIVER") }

// InitHelm initialises Helm's action configuration for a namespace, or for all if it is empty. Its requests end with ctx,
// and are retried as all others are.
func (c *Client) InitHelm(ctx context.Context, cfg *action.Configuration, namespace string) error {
	bound, err := c.Bind(ctx, new(Writes))
	if err != nil {
		return err
	}
	return initHelm(cfg, bound.Getter, namespace)
}

func initHelm(cfg *action.Configuration, getter *Getter, namespace string) error {
	driver := StorageDriver()
	err := initStorage(cfg, getter, namespace, driver)
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), "unknown driver"):
		return fmt.Errorf("HELM_DRIVER=%s is not a storage driver; use secret, configmap or sql", driver)
	case driver != "":
		return fmt.Errorf("prepare Helm with HELM_DRIVER=%s: %w", driver, err)
	}
	return fmt.Errorf("prepare Helm: %w", err)
}

// RecordResource returns the resource in which a storage driver stores release records: secrets, configmaps, or "" if
// they are not in the cluster.
func RecordResource(driver string) string {
	switch driver {
	case "", "secret", "secrets":
		return "secrets"
	case "configmap", "configmaps":
		return "configmaps"
	}
	return ""
}

// Helm is Helm's action configuration for a namespace, with the parts that helmclient and release decorate.
type Helm struct {
	Config  *action.Configuration
	Client  *helmkube.Client
	Factory cmdutil.Factory
}

// Helm returns Helm's action configuration for a namespace.
func (c *Client) Helm(namespace string) (*Helm, error) {
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(c.log.Handler()))
	if err := initHelm(cfg, c.Getter, namespace); err != nil {
		return nil, err
	}
	inner, ok := cfg.KubeClient.(*helmkube.Client)
	if !ok {
		return nil, fmt.Errorf("prepare Helm: unexpected client %T", cfg.KubeClient)
	}
	inner.Namespace = namespace
	factory, ok := inner.Factory.(cmdutil.Factory)
	if !ok {
		return nil, fmt.Errorf("prepare Helm: unexpected factory %T", inner.Factory)
	}
	cfg.RegistryClient = c.registry
	return &Helm{Config: cfg, Client: inner, Factory: factory}, nil
}
