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

	"lockstep/kube/sandbox/container"
)

// findObstacle checks the ConfigMaps, Secrets and keys that a pod needs before it can start, then the users of its
// containers (rootViolation). It returns a kubelet's message about the first problem and the container that has it,
// "" for a volume.
func (k *Kubelet) findObstacle(ctx context.Context, p *pass) (what, in string) {
	if p.hasRun() {
		return "", ""
	}
	r := references{k: k, ctx: ctx, namespace: p.pod.Namespace}
	mounted := p.mountedVolumes()
	for i := range p.pod.Spec.Volumes {
		v := &p.pod.Spec.Volumes[i]
		if !mounted[v.Name] {
			continue
		}
		for _, part := range container.Sources(v) {
			if c := part.ConfigMap; c != nil && !isTrue(c.Optional) {
				r.checkVolume(v.Name, container.ConfigMap, c.Name, c.Items)
			}
			if s := part.Secret; s != nil && !isTrue(s.Optional) {
				r.checkVolume(v.Name, container.Secret, s.Name, s.Items)
			}
		}
	}
	for _, c := range p.allContainers() {
		if r.what != "" {
			return r.what, in
		}
		in = c.Name
		for _, e := range c.EnvFrom {
			if m := e.ConfigMapRef; m != nil && !isTrue(m.Optional) {
				r.checkObject(container.ConfigMap, m.Name)
			}
			if s := e.SecretRef; s != nil && !isTrue(s.Optional) {
				r.checkObject(container.Secret, s.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if m := e.ValueFrom.ConfigMapKeyRef; m != nil && !isTrue(m.Optional) {
				r.checkKey(container.ConfigMap, "ConfigMap", m.Name, m.Key)
			}
			if s := e.ValueFrom.SecretKeyRef; s != nil && !isTrue(s.Optional) {
				r.checkKey(container.Secret, "Secret", s.Name, s.Key)
			}
		}
	}
	if r.what == "" {
		return p.rootViolation()
	}
	return r.what, in
}

// mountedVolumes returns the names of the volumes that a container mounts. A kubelet skips the others.
func (p *pass) mountedVolumes() map[string]bool {
	mounted := map[string]bool{}
	for _, c := range p.allContainers() {
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
		}
	}
	return mounted
}

// rootViolation returns a kubelet's message about a container that runs as root although runAsNonRoot forbids it,
// and the container.
func (p *pass) rootViolation() (what, in string) {
	for _, c := range p.allContainers() {
		var user *int64
		var nonRoot *bool
		if s := p.pod.Spec.SecurityContext; s != nil {
			user, nonRoot = s.RunAsUser, s.RunAsNonRoot
		}
		if s := c.SecurityContext; s != nil {
			user, nonRoot = cmp.Or(s.RunAsUser, user), cmp.Or(s.RunAsNonRoot, nonRoot)
		}
		if isTrue(nonRoot) && user != nil && *user == 0 {
			return fmt.Sprintf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", p.pod.Name+"_"+p.pod.Namespace+"("+string(p.pod.UID)+")", c.Name), c.Name
		}
	}
	return "", ""
}

// warnPullSecrets adds an event about missing pull secrets on the first pass. The pull continues without them.
func (k *Kubelet) warnPullSecrets(ctx context.Context, p *pass) {
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

// references checks references of a pod. After the first missing one, described in what, it checks no more.
type references struct {
	k         *Kubelet
	ctx       context.Context
	namespace string
	what      string
}

func (r *references) checkVolume(volume, kind, name string, items []corev1.KeyToPath) {
	if r.what != "" {
		return
	}
	keys := r.checkObject(kind, name)
	for _, i := range items {
		if _, ok := keys[i.Key]; r.what == "" && !ok {
			r.what = fmt.Sprintf("references non-existent %s key: %s", kind, i.Key)
		}
	}
	if r.what != "" {
		r.what = fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", volume, r.what)
	}
}

func (r *references) checkKey(kind, title, name, key string) {
	if _, ok := r.checkObject(kind, name)[key]; r.what == "" && !ok {
		r.what = fmt.Sprintf("couldn't find key %s in %s %s/%s", key, title, r.namespace, name)
	}
}

// checkObject returns the data of an object.
func (r *references) checkObject(kind, name string) map[string][]byte {
	if r.what != "" {
		return nil
	}
	data, err := container.Data(r.ctx, r.k.client, kind, r.namespace, name)
	if apierrors.IsNotFound(err) {
		r.what = fmt.Sprintf("%s %q not found", kind, name)
	}
	return data
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
	p.setPending(true, func(c corev1.Container) corev1.ContainerStateWaiting {
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
