// Package connect is the connection to a cluster: what a kubeconfig says, the
// clients that are made of it, and the one transport that all requests of an
// operation go through, Helm's own included.
package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
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

// Client is a connection to a cluster. It is complete when it is made, and may
// be used by any number of goroutines.
type Client struct {
	// Getter is what Helm's factory asks for clients, discovery and mappings.
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

// FieldManager is the name under which fields are owned in server-side apply:
// Helm's, so that releases can go back and forth between the two programs.
const FieldManager = "helm"

// nameFieldManager tells Helm, which would take the name of the program.
var nameFieldManager = sync.OnceFunc(func() { helmkube.ManagedFieldsManager = FieldManager })

// New prepares the connection that the settings describe. It sends no request
// yet. The logger and the registry client may be nil.
func New(settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	nameFieldManager()
	flags, ok := settings.RESTClientGetter().(*genericclioptions.ConfigFlags)
	if !ok {
		return nil, fmt.Errorf("connect: unexpected client getter %T", settings.RESTClientGetter())
	}
	return From(flags, settings, log, reg)
}

// From is New with a getter of somebody else's, whose kubeconfig counts; Helm's
// field manager stays what it is.
func From(flags genericclioptions.RESTClientGetter, settings *cli.EnvSettings, log *slog.Logger, reg *registry.Client) (*Client, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	link := newLink()
	c := &Client{Getter: newGetter(context.Background(), flags, link, &Writes{}), link: link, settings: settings, log: log, registry: reg}
	return c, c.dial()
}

// Bind returns the same connection with clients of its own, all of whose
// requests end when ctx does: Helm's client takes no context. Discovery is
// asked again. What is written is noted in writes.
func (c *Client) Bind(ctx context.Context, writes *Writes) (*Client, error) {
	bound := &Client{Getter: newGetter(ctx, c.Getter.flags, c.link, writes), link: c.link, settings: c.settings, log: c.log, registry: c.registry}
	return bound, bound.dial()
}

// dial makes the clients. It sends no request.
func (c *Client) dial() error {
	config, err := c.Getter.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w; set KUBECONFIG or --kubeconfig, or try --sandbox", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	if c.Clientset, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	if c.Metadata, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	c.diagnoser = diagnose.New(c.Clientset, c.Dynamic, c.Getter)
	return nil
}

// Link is what is known of whether the API server answers. All that is bound
// shares it.
func (c *Client) Link() *Link { return c.link }

// Namespace is the namespace that the settings name.
func (c *Client) Namespace() string { return c.settings.Namespace() }

// KubectlFlags are kubectl's flags that lead to the cluster. What kubectl reads from the
// environment by itself is left out.
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

// ContextName is the name of the kubeconfig's context in use, or its server.
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

// Reachable asks the API server for its version. The error says what to look at
// where it does not answer.
func (c *Client) Reachable(ctx context.Context) error {
	err := c.Clientset.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("reach the cluster of context %q: %w", c.ContextName(), context.Cause(ctx))
	case c.noContext():
		return fmt.Errorf("%s: set KUBECONFIG or --kubeconfig, or try --sandbox (kubernetes cluster unreachable: %w)", c.missing(), err)
	}
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the cluster of context %q refused the credentials (%w); log in again, or check the user in the kubeconfig", c.ContextName(), err)
	}
	return fmt.Errorf("cannot reach the cluster of context %[2]q: %[1]w; check that it is running and that this is the right context", err, c.ContextName())
}

// missing says what is wrong with a kubeconfig that names no cluster.
func (c *Client) missing() string {
	files := c.Getter.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence()
	if name := c.Getter.ToRawKubeConfigLoader().ConfigAccess().GetExplicitFile(); name != "" {
		files = []string{name}
	}
	there := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		_, err := os.Stat(name)
		return errors.Is(err, os.ErrNotExist)
	})
	if len(there) == 0 {
		return fmt.Sprintf("no kubeconfig found (%s)", strings.Join(files, ", "))
	}
	return fmt.Sprintf("the kubeconfig selects no cluster (%s has no current-context)", strings.Join(there, ", "))
}

// noContext reports whether the kubeconfig names no cluster, since it is missing
// for instance: the address is then a guess of client-go's.
func (c *Client) noContext() bool {
	raw, err := c.Getter.ToRawKubeConfigLoader().RawConfig()
	return err == nil && raw.CurrentContext == "" && c.settings.KubeContext == "" && c.settings.KubeAPIServer == ""
}

// Leases are those of a namespace.
func (c *Client) Leases(namespace string) coordinationv1.LeaseInterface {
	return c.Clientset.CoordinationV1().Leases(namespace)
}

// Log is where what matters little is told.
func (c *Client) Log() *slog.Logger { return c.log }

// Diagnoser reads from the cluster why objects are not ready.
func (c *Client) Diagnoser() *diagnose.Diagnoser {
	return c.diagnoser
}

// Diagnose says why an object is not ready.
func (c *Client) Diagnose(ctx context.Context, o plan.Object) run.Finding {
	return c.Diagnoser().Object(ctx, o).Finding
}

// StorageDriver is the kind of Helm's release storage, as in HELM_DRIVER.
func StorageDriver() string { return os.Getenv("HELM_DRIVER") }

// Helm is Helm's own configuration of actions for one namespace, undecorated,
// with the parts that decorators are made of.
type Helm struct {
	Config  *action.Configuration
	Client  *helmkube.Client
	Factory cmdutil.Factory
}

// Helm makes a configuration of Helm's actions for a namespace.
func (c *Client) Helm(namespace string) (*Helm, error) {
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(c.log.Handler()))
	if err := cfg.Init(c.Getter, namespace, StorageDriver()); err != nil {
		return nil, fmt.Errorf("prepare Helm: %w", err)
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
