package kubelet

import (
	"fmt"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

func misnamed(c corev1.Container) bool { return badName(c) != "" }

// badName is what a kubelet says of an image whose name is none, else "".
func badName(c corev1.Container) string {
	if _, err := reference.ParseNormalizedNamed(c.Image); err != nil {
		return fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", c.Image, c.Image, err)
	}
	return ""
}

// noName is a pod with an image whose name is none.
func (p *pass) noName() {
	before := waitingReasons(&p.pod.Status)
	p.wait(true, func(c corev1.Container) corev1.ContainerStateWaiting {
		if !misnamed(c) {
			return creating(c)
		}
		return corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: badName(c)}
	})
	for _, c := range p.allContainers() {
		if misnamed(c) && before[c.Name] == "" {
			p.say(event{c.Name, true, "InspectFailed", badName(c)})
			p.say(event{c.Name, true, "Failed", "Error: InvalidImageName"})
		}
	}
}
