package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// missing checks the ConfigMaps, Secrets and keys that a pod needs before it can start. It returns a kubelet's
// message about the first missing one, and the container that refers to it ("" for a volume).
func (k *Kubelet) missing(ctx context.Context, p *pass) (what, container string) {
	if p.hasRun() {
		return "", ""
	}
	r := references{k: k, ctx: ctx, namespace: p.pod.Namespace}
	for _, v := range p.pod.Spec.Volumes {
		if c := v.ConfigMap; c != nil && !isTrue(c.Optional) {
			r.volume(v.Name, "configmap", c.Name, c.Items)
		}
		if s := v.Secret; s != nil && !isTrue(s.Optional) {
			r.volume(v.Name, "secret", s.SecretName, s.Items)
		}
		if v.Projected == nil {
			continue
		}
		for _, part := range v.Projected.Sources {
			if c := part.ConfigMap; c != nil && !isTrue(c.Optional) {
				r.volume(v.Name, "configmap", c.Name, c.Items)
			}
			if s := part.Secret; s != nil && !isTrue(s.Optional) {
				r.volume(v.Name, "secret", s.Name, s.Items)
			}
		}
	}
	for _, c := range p.allContainers() {
		if r.what != "" {
			return r.what, container
		}
		container = c.Name
		for _, e := range c.EnvFrom {
			if m := e.ConfigMapRef; m != nil && !isTrue(m.Optional) {
				r.object("configmap", m.Name)
			}
			if s := e.SecretRef; s != nil && !isTrue(s.Optional) {
				r.object("secret", s.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if m := e.ValueFrom.ConfigMapKeyRef; m != nil && !isTrue(m.Optional) {
				r.key("configmap", "ConfigMap", m.Name, m.Key)
			}
			if s := e.ValueFrom.SecretKeyRef; s != nil && !isTrue(s.Optional) {
				r.key("secret", "Secret", s.Name, s.Key)
			}
		}
	}
	if r.what == "" {
		return p.asRoot()
	}
	return r.what, container
}

// asRoot returns a kubelet's message about a container that runs as root although runAsNonRoot forbids it.
func (p *pass) asRoot() (what, container string) {
	for _, c := range p.allContainers() {
		user, not := (*int64)(nil), (*bool)(nil)
		if s := p.pod.Spec.SecurityContext; s != nil {
			user, not = s.RunAsUser, s.RunAsNonRoot
		}
		if s := c.SecurityContext; s != nil {
			user, not = cmp.Or(s.RunAsUser, user), cmp.Or(s.RunAsNonRoot, not)
		}
		if isTrue(not) && user != nil && *user == 0 {
			return fmt.Sprintf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", p.pod.Name+"_"+p.pod.Namespace+"("+string(p.pod.UID)+")", c.Name), c.Name
		}
	}
	return "", ""
}

// pullSecrets warns once about missing pull secrets; the pull continues without them.
func (k *Kubelet) pullSecrets(ctx context.Context, p *pass) {
	if p.pod.Status.StartTime != nil {
		return
	}
	var absent []string
	for _, s := range p.pod.Spec.ImagePullSecrets {
		if _, err := k.client.CoreV1().Secrets(p.pod.Namespace).Get(ctx, s.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			absent = append(absent, s.Name)
		}
	}
	if len(absent) > 0 {
		p.addEvent(event{warning: true, reason: "FailedToRetrieveImagePullSecret",
			message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(absent, ", "))})
	}
}

// references checks references of a pod up to the first missing one.
type references struct {
	k         *Kubelet
	ctx       context.Context
	namespace string
	what      string
}

func (r *references) volume(volume, kind, name string, items []corev1.KeyToPath) {
	if r.what != "" {
		return
	}
	keys := r.object(kind, name)
	for _, i := range items {
		if r.what == "" && !keys[i.Key] {
			r.what = fmt.Sprintf("references non-existent %s key: %s", kind, i.Key)
		}
	}
	if r.what != "" {
		r.what = fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", volume, r.what)
	}
}

func (r *references) key(kind, title, name, key string) {
	if keys := r.object(kind, name); r.what == "" && !keys[key] {
		r.what = fmt.Sprintf("couldn't find key %s in %s %s/%s", key, title, r.namespace, name)
	}
}

// object returns the keys of a ConfigMap or Secret.
func (r *references) object(kind, name string) map[string]bool {
	keys := map[string]bool{}
	if r.what != "" {
		return keys
	}
	var err error
	if kind == "secret" {
		var s *corev1.Secret
		if s, err = r.k.client.CoreV1().Secrets(r.namespace).Get(r.ctx, name, metav1.GetOptions{}); err == nil {
			for key := range s.Data {
				keys[key] = true
			}
		}
	} else {
		var m *corev1.ConfigMap
		if m, err = r.k.client.CoreV1().ConfigMaps(r.namespace).Get(r.ctx, name, metav1.GetOptions{}); err == nil {
			for key := range m.Data {
				keys[key] = true
			}
			for key := range m.BinaryData {
				keys[key] = true
			}
		}
	}
	if apierrors.IsNotFound(err) {
		r.what = fmt.Sprintf("%s %q not found", kind, name)
	}
	return keys
}

func isTrue(b *bool) bool { return b != nil && *b }

func hasInvalidImage(c corev1.Container) bool { return imageNameError(c) != "" }

// imageNameError returns a kubelet's message about an invalid image name, or "".
func imageNameError(c corev1.Container) string {
	if _, err := reference.ParseNormalizedNamed(c.Image); err != nil {
		return fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", c.Image, c.Image, err)
	}
	return ""
}

// failImageName handles a pod with an invalid image name.
func (p *pass) failImageName() {
	before := waitingReasons(&p.pod.Status)
	p.wait(true, func(c corev1.Container) corev1.ContainerStateWaiting {
		if !hasInvalidImage(c) {
			return creating(c)
		}
		return corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: imageNameError(c)}
	})
	for _, c := range p.allContainers() {
		if hasInvalidImage(c) && before[c.Name] == "" {
			p.addEvent(event{c.Name, true, "InspectFailed", imageNameError(c)})
			p.addEvent(event{c.Name, true, "Failed", "Error: InvalidImageName"})
		}
	}
}
