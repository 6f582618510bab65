package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"lockstep/kube/documents"
)

// NoClusterError means that the kubeconfig is missing, invalid, or selects no cluster. It says how to fix that.
type NoClusterError struct{ error }

func (e *NoClusterError) Unwrap() error { return errors.Unwrap(e.error) }

// unreachableError means that the cluster does not respond or refuses the credentials.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return errors.Unwrap(e.error) }

// IsClusterError reports whether an error is about the cluster as a whole and not about an object in it.
func IsClusterError(err error) bool {
	var none *NoClusterError
	var unreachable *unreachableError
	return errors.As(err, &none) || errors.As(err, &unreachable)
}

func noCluster(format string, args ...any) error {
	return &NoClusterError{fmt.Errorf(format, args...)}
}

// noClusterError explains why the kubeconfig selects no cluster.
func (c *Client) noClusterError() error {
	files := c.kubeconfigFiles()
	existing := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		_, err := os.Stat(name)
		return errors.Is(err, fs.ErrNotExist)
	})
	all := strings.Join(files, ", ")
	switch name := c.settings.KubeContext; {
	case len(existing) > 0 && name != "":
		return noCluster("kubeconfig %s has no contexts, so --kube-context %s cannot select one; choose another file with KUBECONFIG or --kubeconfig", strings.Join(existing, ", "), name)
	case len(existing) > 0:
		return noCluster("the kubeconfig selects no cluster (%s has no current-context); set KUBECONFIG, --kubeconfig or --kube-context", strings.Join(existing, ", "))
	case c.settings.KubeConfig != "" || os.Getenv("KUBECONFIG") == "":
		return noCluster("no kubeconfig found (%s); set KUBECONFIG or --kubeconfig", all)
	case len(files) == 1:
		return noCluster("KUBECONFIG points to %s, which does not exist; correct it or pass --kubeconfig", all)
	}
	return noCluster("KUBECONFIG points to %s, none of which exist; correct it or pass --kubeconfig", all)
}

// kubeconfigFiles returns the file of --kubeconfig, else the files that client-go merges.
func (c *Client) kubeconfigFiles() []string {
	access := c.Getter.ToRawKubeConfigLoader().ConfigAccess()
	if explicit := access.GetExplicitFile(); explicit != "" {
		return []string{explicit}
	}
	return access.GetLoadingPrecedence()
}

// Kubeconfig returns a KUBECONFIG with which programs use the context of the connection as the current one, also if somebody selects
// another one meanwhile. For that it writes a file to a folder. It returns "" if there is no context, as in a pod.
func (c *Client) Kubeconfig(folder string) (string, error) {
	name := c.selectedContext()
	if name == "" {
		return "", nil
	}
	first, selects := filepath.Join(folder, "kubeconfig"), api.NewConfig()
	selects.CurrentContext = name
	if err := clientcmd.WriteToFile(*selects, first); err != nil {
		return "", fmt.Errorf("write a kubeconfig that selects context %q: %w", name, err)
	}
	files := []string{first} // kubectl takes the context of the first file that has one
	for _, file := range c.kubeconfigFiles() {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		files = append(files, absolute)
	}
	return strings.Join(files, string(filepath.ListSeparator)), nil
}

// lacksCluster reports whether neither the kubeconfig nor a flag selects a cluster, outside a pod. client-go then uses a
// default address.
func (c *Client) lacksCluster() bool {
	raw, err := c.Getter.ToRawKubeConfigLoader().RawConfig()
	return err == nil && raw.CurrentContext == "" && c.settings.KubeContext == "" && c.settings.KubeAPIServer == "" &&
		os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}

// parseError matches client-go's error about a kubeconfig that it cannot parse.
var parseError = regexp.MustCompile(`(?s)^error loading config file "([^"]*)": (.*)$`)

// kubeconfigError explains why the kubeconfig cannot be used.
func (c *Client) kubeconfigError(err error) error {
	name := c.settings.KubeContext
	if file := c.settings.KubeConfig; file != "" && errors.Is(err, fs.ErrNotExist) {
		return noCluster("kubeconfig %s does not exist; correct --kubeconfig", file)
	}
	raw, rawErr := c.Getter.ToRawKubeConfigLoader().RawConfig()
	if broken := parseError.FindStringSubmatch(err.Error()); broken != nil {
		reason := fmt.Errorf("%s: %s", broken[1], broken[2])
		if data, readErr := os.ReadFile(broken[1]); readErr == nil {
			reason = documents.Invalid(broken[1], data, errors.New(broken[2]))
		}
		return noCluster("cannot read kubeconfig %w; fix the file, or choose another with --kubeconfig", reason)
	}
	current, files := raw.CurrentContext, strings.Join(c.kubeconfigFiles(), ", ")
	kubectl := func(command string) string {
		if c.settings.KubeConfig != "" {
			command += " --kubeconfig " + files
		}
		return "kubectl config " + command
	}
	switch {
	case rawErr == nil && name == "" && current != "" && raw.Contexts[current] == nil:
		return noCluster("the kubeconfig's current-context %q does not exist; pass --kube-context, or run: %s", current, kubectl("use-context NAME"))
	case rawErr != nil || name == "" || raw.Contexts[name] != nil:
		return noCluster("cannot use kubeconfig %s: %w; correct it, or choose another with KUBECONFIG or --kubeconfig", files, err)
	case len(raw.Contexts) == 0:
		return c.noClusterError()
	}
	return fmt.Errorf("kubeconfig %s has no context %q; list contexts with: %s", files, name, kubectl("get-contexts"))
}
