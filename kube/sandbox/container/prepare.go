package container

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

const (
	// RootEnv names the folder that stands for the container's root: the volume with the mountPath /x is
	// $SANDBOX_ROOT/x.
	RootEnv = "SANDBOX_ROOT"

	// defaultPath is the PATH that container runtimes set if the image sets none.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// containerRun is a container whose process is being prepared.
type containerRun struct {
	*Runtime
	pod    *corev1.Pod
	spec   *corev1.Container
	dir    string
	tokens []token
}

func (c *containerRun) root() string { return filepath.Join(c.dir, "root") }

// prepare writes the volumes and returns the command to start.
func (c *containerRun) prepare(ctx context.Context) (*exec.Cmd, error) {
	tmp := filepath.Join(c.root(), "tmp")
	workdir := filepath.Join(c.root(), path.Clean("/"+c.spec.WorkingDir))
	if err := c.mount(ctx); err != nil {
		return nil, err
	}
	for _, dir := range []string{tmp, workdir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	cluster := map[string]string{"KUBERNETES_SERVICE_HOST": c.host, "KUBERNETES_SERVICE_PORT": c.port, "KUBERNETES_SERVICE_PORT_HTTPS": c.port}
	env := map[string]string{"PATH": defaultPath, "HOME": tmp, "TMPDIR": tmp, "HOSTNAME": c.pod.Name, RootEnv: c.root()}
	maps.Copy(env, cluster)
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return nil, err
	}
	if kubeconfig != "" {
		env[clientcmd.RecommendedConfigPathEnvVar] = kubeconfig
	}
	own, err := c.environment(ctx, cluster)
	if err != nil {
		return nil, err
	}
	paths := c.paths()
	for name, value := range own {
		env[name] = paths.replace(value)
	}
	cmd := c.command(expansion.MappingFuncFor(own, cluster), paths)
	cmd.Dir = workdir
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	return cmd, nil
}

// command returns the command that runs the image's only program with the container's arguments.
func (c *containerRun) command(variables func(string) string, paths pathMap) *exec.Cmd {
	argv := append(slices.Clone(c.spec.Command), c.spec.Args...)
	for i := range argv {
		argv[i] = paths.replace(expansion.Expand(argv[i], variables))
	}
	if len(c.spec.Command) == 0 {
		argv = append([]string{Image}, argv...)
	}
	cmd := &exec.Cmd{Path: c.program, Args: argv}
	if path.Base(argv[0]) != Image {
		cmd.Err = &exec.Error{Name: argv[0], Err: exec.ErrNotFound}
	}
	return cmd
}

// environment returns the variables that the container sets. Later ones override earlier ones and can refer to
// them, and to those of cluster.
func (c *containerRun) environment(ctx context.Context, cluster map[string]string) (map[string]string, error) {
	env := map[string]string{}
	for _, from := range c.spec.EnvFrom {
		var data map[string][]byte
		var err error
		switch {
		case from.ConfigMapRef != nil:
			data, err = c.data(ctx, ConfigMap, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		case from.SecretRef != nil:
			data, err = c.data(ctx, Secret, from.SecretRef.Name, from.SecretRef.Optional)
		}
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			env[from.Prefix+key] = string(value)
		}
	}
	variables := expansion.MappingFuncFor(env, cluster)
	for _, e := range c.spec.Env {
		value, ok, err := expansion.Expand(e.Value, variables), true, error(nil)
		if e.ValueFrom != nil {
			value, ok, err = c.valueFrom(ctx, e.ValueFrom)
		}
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if ok {
			env[e.Name] = value
		}
	}
	return env, nil
}

// valueFrom returns false if an optional key is missing.
func (c *containerRun) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (string, bool, error) {
	switch {
	case from.ConfigMapKeyRef != nil:
		data, err := c.data(ctx, ConfigMap, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)
		value, ok := data[from.ConfigMapKeyRef.Key]
		return string(value), ok, err
	case from.SecretKeyRef != nil:
		data, err := c.data(ctx, Secret, from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
		value, ok := data[from.SecretKeyRef.Key]
		return string(value), ok, err
	case from.FieldRef != nil:
		value, err := c.field(from.FieldRef.FieldPath)
		return value, true, err
	}
	return "", false, fmt.Errorf("the sandbox does not support this kind of valueFrom")
}

func (c *containerRun) field(name string) (string, error) {
	switch name {
	case "spec.nodeName":
		return c.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return c.pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return c.pod.Status.HostIP, nil
	case "status.podIP", "status.podIPs":
		return c.pod.Status.PodIP, nil
	}
	return fieldpath.ExtractFieldPathAsString(c.pod, name)
}

// kubeconfig writes a kubeconfig with the mounted service account token and returns its path, or "" if no token
// is mounted. Without it, client-go would read the token from a fixed path, which does not exist here.
func (c *containerRun) kubeconfig() (string, error) {
	mounted := slices.ContainsFunc(c.spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == serviceAccountPath })
	if !mounted {
		return "", nil
	}
	dir := filepath.Join(c.root(), serviceAccountPath)
	config := clientcmdapi.NewConfig()
	config.Clusters[Image] = &clientcmdapi.Cluster{Server: "https://" + c.host + ":" + c.port, CertificateAuthority: filepath.Join(dir, corev1.ServiceAccountRootCAKey)}
	config.AuthInfos[Image] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(dir, corev1.ServiceAccountTokenKey)}
	config.Contexts[Image] = &clientcmdapi.Context{Cluster: Image, AuthInfo: Image, Namespace: c.pod.Namespace}
	config.CurrentContext = Image
	file := filepath.Join(c.dir, "kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}
