package container

import (
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
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// retryToken is the time between two attempts to renew a token.
const retryToken = 10 * time.Second

// token is a service account token in a volume.
type token struct {
	file   string
	source *corev1.ServiceAccountTokenProjection
	renew  time.Time
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
	files, err := c.files(ctx, dir, v)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := write(filepath.Join(dir, path.Clean("/"+name)), data); err != nil {
			return err
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
	if err := os.Symlink(target, at); !os.IsExist(err) {
		return err
	}
	return nil // of an earlier attempt
}

// write replaces a file atomically.
func write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	next := file + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// files returns the files of a volume. Volumes without content (emptyDir, claims, hostPath) are empty folders.
func (c *containerRun) files(ctx context.Context, dir string, v *corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.Secret != nil:
		data, err := c.secret(ctx, v.Secret.SecretName, v.Secret.Optional)
		return selectKeys(data, v.Secret.Items), err
	case v.ConfigMap != nil:
		data, err := c.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Optional)
		return selectKeys(data, v.ConfigMap.Items), err
	case v.DownwardAPI != nil:
		return c.downward(v.DownwardAPI.Items)
	case v.Projected == nil:
		return nil, nil
	}
	all := map[string][]byte{}
	for _, s := range v.Projected.Sources {
		files, err := c.projected(ctx, dir, s)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, files)
	}
	return all, nil
}

func (c *containerRun) projected(ctx context.Context, dir string, s corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case s.Secret != nil:
		data, err := c.secret(ctx, s.Secret.Name, s.Secret.Optional)
		return selectKeys(data, s.Secret.Items), err
	case s.ConfigMap != nil:
		data, err := c.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional)
		return selectKeys(data, s.ConfigMap.Items), err
	case s.DownwardAPI != nil:
		return c.downward(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		t := token{file: filepath.Join(dir, path.Clean("/"+s.ServiceAccountToken.Path)), source: s.ServiceAccountToken}
		err := c.writeToken(ctx, &t)
		c.tokens = append(c.tokens, t)
		return nil, err
	}
	return nil, fmt.Errorf("the sandbox supports no such projection")
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

// selectKeys returns the keys that items name, renamed, or all keys without items. Required keys were checked
// before.
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

// secret returns the data of a Secret in the pod's namespace, or nothing if it is optional and missing.
func (c *containerRun) secret(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	s, err := c.client.CoreV1().Secrets(c.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, optional)
	}
	return s.Data, nil
}

func (c *containerRun) configMap(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	m, err := c.client.CoreV1().ConfigMaps(c.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, optional)
	}
	data := maps.Clone(m.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range m.Data {
		data[key] = []byte(value)
	}
	return data, nil
}

func unlessOptional(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
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
	answer, err := c.client.CoreV1().ServiceAccounts(c.pod.Namespace).CreateToken(ctx, c.serviceAccount(), request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// After four fifths of its life, as a kubelet does.
	t.renew = time.Now().Add(time.Until(answer.Status.ExpirationTimestamp.Time) * 4 / 5)
	return write(t.file, []byte(answer.Status.Token))
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
			t.renew = time.Now().Add(retryToken)
		}
	}
}
