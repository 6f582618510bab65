package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

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
		return fmt.Errorf("the kubeconfig selects no cluster (%s has no current-context): set KUBECONFIG, --kubeconfig or --kube-context, or try --sandbox", strings.Join(there, ", "))
	case explicit != "" || os.Getenv("KUBECONFIG") == "":
		return fmt.Errorf("no kubeconfig found (%s): set KUBECONFIG or --kubeconfig, or try --sandbox", all)
	case len(files) == 1:
		return fmt.Errorf("KUBECONFIG points to %s, which does not exist; correct it, pass --kubeconfig, or try --sandbox", all)
	}
	return fmt.Errorf("KUBECONFIG points to %s, none of which exist; correct it, pass --kubeconfig, or try --sandbox", all)
}

// noContext reports whether the kubeconfig names no cluster, for example because it does not
// exist. client-go then uses a default address, except in a pod.
func (c *Client) noContext() bool {
	raw, err := c.Getter.ToRawKubeConfigLoader().RawConfig()
	return err == nil && raw.CurrentContext == "" && c.settings.KubeContext == "" && c.settings.KubeAPIServer == "" &&
		os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}

// invalid explains why the kubeconfig cannot be used.
func (c *Client) invalid(err error) error {
	name := c.settings.KubeContext
	if file := c.settings.KubeConfig; file != "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kubeconfig %s does not exist; correct --kubeconfig, or try --sandbox", file)
	}
	raw, failed := c.Getter.ToRawKubeConfigLoader().RawConfig()
	if failed != nil || name == "" || raw.Contexts[name] != nil {
		return fmt.Errorf("read the kubeconfig: %w; set KUBECONFIG or --kubeconfig, or try --sandbox", err)
	}
	if len(raw.Contexts) == 0 {
		return c.missing()
	}
	return fmt.Errorf("kubeconfig has no context %q; list contexts with: kubectl config get-contexts", name)
}
