// Package connect is the connection to a cluster: the clients that a kubeconfig describes, and the one transport that
// sends all requests of an operation, including Helm's. The central types are Client, Getter and Link.
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

	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/diagnose"
)

// Client is a connection to a cluster. It may be used by several goroutines.
type Client struct {
	// Getter gives Helm's factory its clients, discovery and mappings.
	Getter    *Getter
	Dynamic   dynamic.Interface
	Clientset kubernetes.Interface
	Metadata  metadata.Interface

	link      *Link
	diagnoser *diagnose.Diagnoser
	settings  *cli.EnvSettings
	log       *slog.Logger
	registry  *registry.Client
}

// FieldManager owns the fields in server-side apply. It is Helm's name, so that a release can be
// managed by either program.
const FieldManager = "helm"

// nameFieldManager sets Helm's field manager, which would be the name of the program.
var nameFieldManager = sync.OnceFunc(func() { helmkube.ManagedFieldsManager = FieldManager })

// New returns the connection that the settings describe. It sends no request. The logger and
// the registry client may be nil.
func New(settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	nameFieldManager()
	flags, ok := settings.RESTClientGetter().(*genericclioptions.ConfigFlags)
	if !ok {
		return nil, fmt.Errorf("connect: unexpected client getter %T", settings.RESTClientGetter())
	}
	return From(flags, settings, log, reg)
}

// From is New for a caller's own getter, whose kubeconfig is used. It does not change Helm's field manager.
func From(flags genericclioptions.RESTClientGetter, settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	link := newLink()
	c := &Client{Getter: newGetter(context.Background(), flags, link, &Writes{}), link: link, settings: settings, log: log, registry: reg}
	return c, c.dial()
}

// Bind returns the same connection with new clients, whose requests end with ctx, because Helm's client takes no
// context. They have their own discovery cache. Writes are recorded in writes.
func (c *Client) Bind(ctx context.Context, writes *Writes) (*Client, error) {
	bound := &Client{Getter: newGetter(ctx, c.Getter.flags, c.link, writes), link: c.link, settings: c.settings, log: c.log, registry: c.registry}
	return bound, bound.dial()
}

// dial makes the clients. It sends no request.
func (c *Client) dial() error {
	config, err := c.Getter.ToRESTConfig()
	if err != nil {
		return c.invalid(err)
	}
	var errs [3]error
	c.Dynamic, errs[0] = dynamic.NewForConfig(config)
	c.Clientset, errs[1] = kubernetes.NewForConfig(config)
	c.Metadata, errs[2] = metadata.NewForConfig(config)
	if err := cmp.Or(errs[:]...); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	c.diagnoser = diagnose.New(c.Clientset, c.Dynamic, c.Getter)
	return nil
}

// Link holds whether the API server responds. All connections made by Bind share it.
func (c *Client) Link() *Link { return c.link }

// Namespace returns the namespace of the settings.
func (c *Client) Namespace() string { return c.settings.Namespace() }

// KubectlFlags returns the flags with which kubectl connects to the same cluster, without those
// that kubectl reads from the environment.
func (c *Client) KubectlFlags() []string {
	flags := []string{}
	if file := c.settings.KubeConfig; file != "" && file != os.Getenv("KUBECONFIG") {
		flags = append(flags, "--kubeconfig", file)
	}
	name := c.settings.KubeContext
	if raw, err := c.Getter.ToRawKubeConfigLoader().RawConfig(); err == nil && name == "" {
		name = raw.CurrentContext
	}
	if name != "" {
		flags = append(flags, "--context", name)
	}
	return flags
}

// ContextName returns the name of the kubeconfig's context, or its server.
func (c *Client) ContextName() string {
	if c.settings.KubeContext != "" {
		return c.settings.KubeContext
	}
	raw, err := c.Getter.ToRawKubeConfigLoader().RawConfig()
	if err == nil && raw.CurrentContext != "" {
		return raw.CurrentContext
	}
	config, err := c.Getter.ToRESTConfig()
	if err != nil {
		return ""
	}
	return config.Host
}

// Reachable asks the API server for its version. The error says what to check.
func (c *Client) Reachable(ctx context.Context) error {
	err := c.Clientset.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("reach the cluster in context %q: %w", c.ContextName(), context.Cause(ctx))
	case c.noContext():
		return c.missing()
	}
	if apierrors.IsUnauthorized(err) {
		return &unreachableError{fmt.Errorf("the cluster in context %q refused the credentials (%w); log in again, or check the user in the kubeconfig", c.ContextName(), err)}
	}
	return &unreachableError{fmt.Errorf("cannot reach the cluster in context %[2]q: %[1]w; %[3]s", err, c.ContextName(), whatToCheck(err))}
}

// Leases returns the client for Leases of a namespace.
func (c *Client) Leases(namespace string) coordinationv1.LeaseInterface {
	return c.Clientset.CoordinationV1().Leases(namespace)
}

// Log returns the logger for debug messages.
func (c *Client) Log() *slog.Logger { return c.log }

// Diagnoser returns the diagnoser, which finds out why objects are not ready.
func (c *Client) Diagnoser() *diagnose.Diagnoser {
	return c.diagnoser
}

// Diagnose finds out why an object is not ready.
func (c *Client) Diagnose(ctx context.Context, o plan.Object) run.Finding {
	return c.Diagnoser().Object(ctx, o).Finding
}

// StorageDriver returns Helm's release storage driver, HELM_DRIVER.
func StorageDriver() string { return os.Getenv("HELM_DRIVER") }

// InitHelm initialises Helm's action configuration for a namespace, or for all if it is empty.
func InitHelm(cfg *action.Configuration, getter genericclioptions.RESTClientGetter, namespace string) error {
	driver := StorageDriver()
	err := cfg.Init(getter, namespace, driver)
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

// RecordResource returns the resource that a storage driver keeps release records in: secrets,
// configmaps, or "" if they are not objects of the cluster.
func RecordResource(driver string) string {
	switch driver {
	case "", "secret", "secrets":
		return "secrets"
	case "configmap", "configmaps":
		return "configmaps"
	}
	return ""
}

// Helm is Helm's own action configuration for a namespace, with the parts that packages wrap.
type Helm struct {
	Config  *action.Configuration
	Client  *helmkube.Client
	Factory cmdutil.Factory
}

// Helm returns Helm's action configuration for a namespace.
func (c *Client) Helm(namespace string) (*Helm, error) {
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(c.log.Handler()))
	if err := InitHelm(cfg, c.Getter, namespace); err != nil {
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
