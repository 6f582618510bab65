package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// unreadPullSecrets captures the names of the pull secrets that the kubelet could not read.
var unreadPullSecrets = regexp.MustCompile(`^Unable to retrieve some image pull secrets \(([^)]+)\)`)

// imagePullFailed reports whether the container is waiting because of its image.
func (c Container) imagePullFailed() bool {
	if c.State != "waiting" {
		return false
	}
	switch c.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable":
		return true
	}
	return false
}

// imagePullCause describes why the image cannot be pulled, according to the container's status.
func (c Container) imagePullCause() string {
	why := lastError(c.Message)
	if c.Reason == "InvalidImageName" {
		return fmt.Sprintf("%s cannot start: invalid image name %s: %s", c.title(), c.Image, cmp.Or(why, c.Reason))
	}
	return joinColon(fmt.Sprintf("%s cannot start: image %s cannot be pulled", c.title(), c.Image), why)
}

// imagePullCauseWithEvents adds details from the pod's events: the registry's error, which older kubelets
// drop from the status once they back off, and a missing pull secret.
func (b *reportBuilder) imagePullCauseWithEvents(p Pod) string {
	text, c := p.Why, p.container(p.culprit)
	if e := b.warningAbout(p, "Failed"); e != nil && c.Reason != "InvalidImageName" && lastError(c.Message) == "" {
		text += ": " + lastError(e.Message)
	}
	if e := b.warningAbout(p, "FailedToRetrieveImagePullSecret"); e != nil {
		if m := unreadPullSecrets.FindStringSubmatch(e.Message); m != nil {
			text += "; pull secret " + m[1] + " could not be read"
		}
	}
	return text
}

// lastError returns the innermost error of a chain, such as "not found". It returns "" if the
// message only says that the kubelet will pull again.
func lastError(message string) string {
	last := strings.TrimSpace(message[strings.LastIndex(message, ": ")+1:])
	if strings.HasPrefix(last, "Back-off pulling image") {
		return ""
	}
	return last
}
