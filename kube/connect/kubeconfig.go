package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// NoClusterError is the error about a kubeconfig that leads to no cluster. It says how to choose one.
type NoClusterError struct{ error }

// unreachableError is the error about a cluster that does not answer or refuses the credentials.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return errors.Unwrap(e.error) }

// IsClusterError reports whether an error is about the whole cluster and not about an object in it.
func IsClusterError(err error) bool {
	var none *NoClusterError
	var unreachable *unreachableError
	return errors.As(err, &none) || errors.As(err, &unreachable)
}

func noCluster(format string, args ...any) error {
	return &NoClusterError{fmt.Errorf(format, args...)}
}

func (e *NoClusterError) Unwrap() error { return errors.Unwrap(e.error) }

// missing explains why the kubeconfig names no cluster.
func (c *Client) missing() error {
	access := c.Getter.ToRawKubeConfigLoader().ConfigAccess()
	explicit := access.GetExplicitFile()
	files := access.GetLoadingPrecedence()
	if explicit != "" {
		files = []string{explicit}
	}
	there := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		_, err := os.Stat(name)
		return errors.Is(err, fs.ErrNotExist)
	})
	all := strings.Join(files, ", ")
	switch {
	case len(there) > 0:
		return noCluster("the kubeconfig selects no cluster (%s has no current-context); set KUBECONFIG, --kubeconfig or --kube-context", strings.Join(there, ", "))
	case explicit != "" || os.Getenv("KUBECONFIG") == "":
		return noCluster("no kubeconfig found (%s); set KUBECONFIG or --kubeconfig", all)
	case len(files) == 1:
		return noCluster("KUBECONFIG points to %s, which does not exist; correct it or pass --kubeconfig", all)
	}
	return noCluster("KUBECONFIG points to %s, none of which exist; correct it or pass --kubeconfig", all)
}

// noContext reports whether the kubeconfig names no cluster, for example because it does not
// exist. client-go then uses a default address, except in a pod.
func (c *Client) noContext() bool {
	raw, err := c.Getter.ToRawKubeConfigLoader().RawConfig()
	return err == nil && raw.CurrentContext == "" && c.settings.KubeContext == "" && c.settings.KubeAPIServer == "" &&
		os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}

// brokenFile matches client-go's error about a kubeconfig that it cannot parse.
var brokenFile = regexp.MustCompile(`(?s)^error loading config file "([^"]*)": (?:yaml: )?(.*)$`)

// invalid explains why the kubeconfig cannot be used.
func (c *Client) invalid(err error) error {
	name := c.settings.KubeContext
	if file := c.settings.KubeConfig; file != "" && errors.Is(err, fs.ErrNotExist) {
		return noCluster("kubeconfig %s does not exist; correct --kubeconfig", file)
	}
	raw, failed := c.Getter.ToRawKubeConfigLoader().RawConfig()
	if broken := brokenFile.FindStringSubmatch(err.Error()); broken != nil {
		return noCluster("cannot read kubeconfig %s: %s; fix the file, or choose another with --kubeconfig", broken[1], broken[2])
	}
	if failed != nil || name == "" || raw.Contexts[name] != nil {
		return noCluster("read the kubeconfig: %w; set KUBECONFIG or --kubeconfig", err)
	}
	if len(raw.Contexts) == 0 {
		return c.missing()
	}
	return fmt.Errorf("kubeconfig has no context %q; list contexts with: kubectl config get-contexts", name)
}
