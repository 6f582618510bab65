// Package input has the flags for charts, values and helmfiles, and loads and renders what they name. Its central types are
// ChartInput, RenderFlags, HelmfileFlags and StackLoader. Only ui/cli and its packages import it.
package input

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/action"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/registry"
	"k8s.io/client-go/util/homedir"

	"lockstep/kube/charts"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// AddValueFlags adds Helm's flags for values.
func AddValueFlags(f *pflag.FlagSet, v *values.Options) {
	f.StringSliceVarP(&v.ValueFiles, "values", "f", nil, "values from a YAML file or URL (repeatable; the last wins)")
	f.StringArrayVar(&v.Values, "set", nil, "set values: key1=val1,key2=val2 (repeatable)")
	f.StringArrayVar(&v.StringValues, "set-string", nil, "set STRING values: key1=val1,key2=val2 (repeatable)")
	f.StringArrayVar(&v.FileValues, "set-file", nil, "set values from files: key1=path1,key2=path2 (repeatable)")
	f.StringArrayVar(&v.JSONValues, "set-json", nil, `set JSON values: key1=jsonval1,key2=jsonval2 or {"key1": jsonval1} (repeatable)`)
	f.StringArrayVar(&v.LiteralValues, "set-literal", nil, "set a literal STRING value: key=val (repeatable)")
}

// IgnoredValues returns a warning for each argument of --set, --set-string and so on that sets nothing.
func IgnoredValues(cmd *cobra.Command) []string {
	arguments := func(flag string) []string {
		list, _ := cmd.Flags().GetStringArray(flag) // nil if the command does not have the flag
		return list
	}
	return charts.IgnoredValues(values.Options{
		Values: arguments("set"), StringValues: arguments("set-string"), FileValues: arguments("set-file"),
		JSONValues: arguments("set-json"), LiteralValues: arguments("set-literal"),
	})
}

// ChartFlags are Helm's flags for finding a chart.
type ChartFlags struct {
	action.ChartPathOptions
	Devel            bool
	DependencyUpdate bool
	// Progress, which may be nil, is called before each slow step.
	Progress func(step string)
	// Quiet drops the messages of the registry client, which otherwise go to stderr.
	Quiet bool
}

// Add adds the flags to f.
func (c *ChartFlags) Add(f *pflag.FlagSet) {
	f.StringVar(&c.Version, "version", "", "version of the chart, or a range such as ^2.0.0 (default latest)")
	f.BoolVar(&c.Devel, "devel", false, "also use development versions, like --version '>0.0.0-0'")
	f.StringVar(&c.RepoURL, "repo", "", "repository URL of the chart")
	f.StringVar(&c.Username, "username", "", "user name for the repository")
	f.StringVar(&c.Password, "password", "", "password for the repository")
	f.StringVar(&c.CaFile, "ca-file", "", "verify the repository's certificate with this CA bundle")
	f.StringVar(&c.CertFile, "cert-file", "", "client certificate for the repository")
	f.StringVar(&c.KeyFile, "key-file", "", "key of the client certificate")
	f.BoolVar(&c.InsecureSkipTLSVerify, "insecure-skip-tls-verify", false, "skip verification of the repository's certificate")
	f.BoolVar(&c.PlainHTTP, "plain-http", false, "download the chart over HTTP without TLS")
	f.BoolVar(&c.PassCredentialsAll, "pass-credentials", false, "send the credentials to all domains")
	f.BoolVar(&c.Verify, "verify", false, "verify the package's signature")
	f.BoolVar(&c.DependencyUpdate, "dependency-update", false, "download missing dependencies first")
	f.StringVar(&c.Keyring, "keyring", defaultKeyring(), "public keys for --verify")
}

func defaultKeyring() string {
	if dir, ok := os.LookupEnv("GNUPGHOME"); ok {
		return filepath.Join(dir, "pubring.gpg")
	}
	return filepath.Join(homedir.HomeDir(), ".gnupg", "pubring.gpg")
}

// source returns the reference by which the chart can be found again, see event.Operation.
func (c *ChartFlags) source(chart string) string {
	if path, err := filepath.Abs(chart); err == nil && c.RepoURL == "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	if u, err := url.Parse(chart); err != nil || u.User != nil || u.RawQuery != "" || c.RepoURL != "" || c.Username != "" {
		return ""
	}
	return chart
}

// Load finds and loads a chart. Credentials are hidden in its errors.
func (c *ChartFlags) Load(ctx context.Context, chart string, settings *helmcli.EnvSettings) (*charts.Chart, error) {
	loaded, err := command.Load(ctx, "chart "+chart, func(context.Context) (*charts.Chart, error) { return c.load(chart, settings) })
	if err == nil {
		return loaded, nil
	}
	var m mask.Mask
	m.AddSecrets(c.Password)
	m.AddValues(map[string]any{"chart": chart, "repo": c.RepoURL})
	return nil, m.Error(err)
}

func (c *ChartFlags) load(chart string, settings *helmcli.EnvSettings) (*charts.Chart, error) {
	step := c.Progress
	if step == nil {
		step = func(string) {}
	}
	opts := c.ChartPathOptions
	if opts.Version == "" && c.Devel {
		opts.Version = ">0.0.0-0"
	}
	client, err := c.Registry(settings)
	if err != nil {
		return nil, err
	}
	step("loading chart " + chart)
	loaded, err := charts.Load(charts.Ref{Chart: chart, ChartPathOptions: opts}, settings, client)
	if err != nil || !c.DependencyUpdate || len(loaded.Missing()) == 0 {
		return loaded, err
	}
	if !IsDir(chart) {
		return nil, fmt.Errorf("chart %s: --dependency-update writes to charts/, so the chart must be a directory", chart)
	}
	step("downloading dependencies of chart " + chart)
	if err := charts.FetchDependencies(chart, action.ChartPathOptions{Verify: c.Verify, Keyring: c.Keyring}, settings, client); err != nil {
		return nil, err
	}
	return charts.LoadPath(chart)
}

// IsDir reports whether path is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Exists reports whether there is a file or directory at path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Registry returns the client for oci:// charts.
func (c *ChartFlags) Registry(settings *helmcli.EnvSettings) (*registry.Client, error) {
	messages := report.Safe(os.Stderr)
	if c.Quiet {
		messages = io.Discard
	}
	opts := []registry.ClientOption{
		registry.ClientOptDebug(settings.Debug), registry.ClientOptEnableCache(true), registry.ClientOptWriter(messages),
		registry.ClientOptCredentialsFile(settings.RegistryConfig), registry.ClientOptBasicAuth(c.Username, c.Password),
	}
	if c.CertFile != "" && c.KeyFile != "" || c.CaFile != "" || c.InsecureSkipTLSVerify {
		config, err := c.tls()
		if err != nil {
			return nil, err
		}
		transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment}
		opts = append(opts, registry.ClientOptHTTPClient(&http.Client{Transport: transport}))
	} else if c.PlainHTTP {
		opts = append(opts, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("registry client: %w", err)
	}
	return client, nil
}

// Credential returns the user's credential for the registry of an oci:// chart, or the zero value if
// there is none. It is for the registry config of a pod, which cannot contain certificates.
func (c *ChartFlags) Credential(ctx context.Context, chart string, settings *helmcli.EnvSettings) (charts.RegistryCredential, error) {
	if c.CertFile != "" || c.CaFile != "" {
		return charts.RegistryCredential{}, errors.New("the chart is too large for Secrets, so the pod has to download it, but it cannot use your CA or client certificate; use a registry whose certificate the pod trusts")
	}
	if c.Username != "" {
		return charts.RegistryCredential{Username: c.Username, Password: c.Password}, nil
	}
	return charts.FindRegistryCredential(ctx, chart, settings)
}

func (c *ChartFlags) tls() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: c.InsecureSkipTLSVerify}
	if c.CertFile != "" || c.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file, --key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if c.CaFile != "" {
		data, err := os.ReadFile(c.CaFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--ca-file: no certificate in %s", c.CaFile)
		}
	}
	return config, nil
}

// NameFlags are Helm's flags for generating the name of a release.
type NameFlags struct {
	Generate bool
	template string
}

func (n *NameFlags) Add(f *pflag.FlagSet) {
	f.BoolVarP(&n.Generate, "generate-name", "g", false, "generate a name; omit the NAME argument")
	f.StringVar(&n.template, "name-template", "", "template for the name")
}

// NameAndChart parses the arguments [NAME] CHART as Helm does.
func (n *NameFlags) NameAndChart(args []string) (name, chart string, err error) {
	if len(args) == 1 && !n.Generate && n.template == "" {
		return "", "", command.UsageError("install needs NAME and CHART (got 1 argument); to omit NAME, add --generate-name")
	}
	if len(args) > 1 && n.Generate {
		return "", "", command.UsageError("--generate-name cannot be combined with NAME")
	}
	if len(args) > 1 && n.template != "" {
		return "", "", command.UsageError("--name-template cannot be combined with NAME")
	}
	i := action.NewInstall(&action.Configuration{})
	i.GenerateName, i.NameTemplate = n.Generate, n.template
	name, chart, err = i.NameAndChart(args)
	if err != nil && templatePosition.MatchString(err.Error()) {
		err = command.UsageError(fmt.Sprintf("invalid --name-template %q: %s", n.template, templatePosition.ReplaceAllString(err.Error(), "")))
	}
	return name, chart, err
}

// templatePosition matches the start of an error about --name-template.
var templatePosition = regexp.MustCompile(`^template: name-template:[\d:]+ `)

// CompleteChart completes the arguments with the indexes first to last as paths of charts.
func CompleteChart(first, last int) command.Completion {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) < first || len(args) > last {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}
