package container

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"k8s.io/utils/ptr"
)

// tokenRetry is the time between two attempts to renew a token.
const tokenRetry = 10 * time.Second

// token is a service account token in a volume.
type token struct {
	file   string
	source *corev1.ServiceAccountTokenProjection
	renew  time.Time // when to replace it
}

// mount writes the volumes of the container and links them to their mount paths. Outer mounts come first.
func (c *containerRun) mount(ctx context.Context) error {
	mounts := slices.Clone(c.spec.VolumeMounts)
	slices.SortStableFunc(mounts, func(a, b corev1.VolumeMount) int { return len(a.MountPath) - len(b.MountPath) })
	for _, m := range mounts {
		for i := range c.pod.Spec.Volumes {
			v := &c.pod.Spec.Volumes[i]
			if v.Name != m.Name {
				continue
			}
			if err := c.mountVolume(ctx, m, v); err != nil {
				return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
			}
		}
	}
	return nil
}

func (c *containerRun) mountVolume(ctx context.Context, m corev1.VolumeMount, v *corev1.Volume) error {
	dir := filepath.Join(c.dir, "volumes", v.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, s := range Sources(v) {
		files, err := c.files(ctx, dir, s)
		if err != nil {
			return err
		}
		for name, data := range files {
			if err := writeFile(filepath.Join(dir, path.Clean("/"+name)), data); err != nil {
				return err
			}
		}
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		env, err := c.environment(ctx, nil)
		if err != nil {
			return err
		}
		sub = expansion.Expand(m.SubPathExpr, expansion.MappingFuncFor(env))
	}
	target := filepath.Join(dir, path.Clean("/"+sub))
	if _, err := os.Stat(target); os.IsNotExist(err) {
		if err := os.MkdirAll(target, 0o700); err != nil {
			return err
		}
	}
	at := filepath.Join(c.root(), path.Clean("/"+m.MountPath))
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	if err := os.Symlink(target, at); err != nil && !os.IsExist(err) { // an earlier attempt may have made the link
		return err
	}
	return nil
}

// writeFile replaces a file atomically.
func writeFile(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	next := file + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// Sources returns the sources of a volume's files. Volumes without sources (emptyDir, claims, hostPath) are empty
// folders.
func Sources(v *corev1.Volume) []corev1.VolumeProjection {
	switch {
	case v.Secret != nil:
		return []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional}}}
	case v.ConfigMap != nil:
		return []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional}}}
	case v.DownwardAPI != nil:
		return []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}
	case v.Projected != nil:
		return v.Projected.Sources
	}
	return nil
}

// files returns the content of a source by path. It writes tokens itself, into dir, because they are renewed.
func (c *containerRun) files(ctx context.Context, dir string, s corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case s.Secret != nil:
		data, err := c.data(ctx, Secret, s.Secret.Name, s.Secret.Optional)
		return selectKeys(data, s.Secret.Items), err
	case s.ConfigMap != nil:
		data, err := c.data(ctx, ConfigMap, s.ConfigMap.Name, s.ConfigMap.Optional)
		return selectKeys(data, s.ConfigMap.Items), err
	case s.DownwardAPI != nil:
		return c.downward(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		t := token{file: filepath.Join(dir, path.Clean("/"+s.ServiceAccountToken.Path)), source: s.ServiceAccountToken}
		err := c.writeToken(ctx, &t)
		c.tokens = append(c.tokens, t)
		return nil, err
	}
	return nil, fmt.Errorf("the sandbox does not support this kind of projection")
}

func (c *containerRun) downward(items []corev1.DownwardAPIVolumeFile) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, i := range items {
		if i.FieldRef == nil {
			return nil, fmt.Errorf("the sandbox does not support resourceFieldRef")
		}
		value, err := c.field(i.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		files[i.Path] = []byte(value)
	}
	return files, nil
}

// selectKeys returns the keys that items name, under their paths, or all keys if there are no items. A pod with
// missing required keys does not get here.
func selectKeys(data map[string][]byte, items []corev1.KeyToPath) map[string][]byte {
	if len(items) == 0 {
		return data
	}
	files := map[string][]byte{}
	for _, i := range items {
		if value, ok := data[i.Key]; ok {
			files[i.Path] = value
		}
	}
	return files
}

// Kinds for Data, as they appear in a kubelet's messages.
const (
	ConfigMap = "configmap"
	Secret    = "secret"
)

// Data returns the data of a ConfigMap or Secret.
func Data(ctx context.Context, client kubernetes.Interface, kind, namespace, name string) (map[string][]byte, error) {
	if kind == Secret {
		s, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		return s.Data, err
	}
	m, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	data := map[string][]byte{}
	maps.Copy(data, m.BinaryData)
	for key, value := range m.Data {
		data[key] = []byte(value)
	}
	return data, err
}

// data returns the data of an object in the pod's namespace, or nothing if it is optional and missing.
func (c *containerRun) data(ctx context.Context, kind, name string, optional *bool) (map[string][]byte, error) {
	data, err := Data(ctx, c.client, kind, c.pod.Namespace, name)
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil, nil
	}
	return data, err
}

// writeToken writes a new token that is bound to the pod.
func (c *containerRun) writeToken(ctx context.Context, t *token) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: t.source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: c.pod.Name, UID: c.pod.UID},
	}}
	if t.source.Audience != "" {
		request.Spec.Audiences = []string{t.source.Audience}
	}
	response, err := c.client.CoreV1().ServiceAccounts(c.pod.Namespace).CreateToken(ctx, cmp.Or(c.pod.Spec.ServiceAccountName, "default"), request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A kubelet renews tokens after four fifths of their life.
	t.renew = time.Now().Add(time.Until(response.Status.ExpirationTimestamp.Time) * 4 / 5)
	return writeFile(t.file, []byte(response.Status.Token))
}

// refresh renews the tokens until done is closed.
func (c *containerRun) refresh(done <-chan struct{}) {
	for len(c.tokens) > 0 {
		t := &c.tokens[0]
		for i := range c.tokens {
			if c.tokens[i].renew.Before(t.renew) {
				t = &c.tokens[i]
			}
		}
		select {
		case <-done:
			return
		case <-time.After(time.Until(t.renew)):
		}
		if err := c.writeToken(context.Background(), t); err != nil {
			klog.ErrorS(err, "Token not renewed", "pod", klog.KObj(c.pod))
			t.renew = time.Now().Add(tokenRetry)
		}
	}
}
