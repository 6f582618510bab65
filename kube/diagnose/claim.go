package diagnose

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxClaims is the maximum number of a pod's claims that are checked.
const maxClaims = 3

// checkClaims checks the claims of a pod that is not scheduled. The scheduler reports nothing
// while it waits for a volume to be provisioned.
func (d *Diagnoser) checkClaims(ctx context.Context, p Pod) lead {
	claimed := p.severity == unschedulable && strings.Contains(strings.ToLower(strings.ReplaceAll(p.Why, " ", "")), "persistentvolume")
	if !claimed && (p.severity != starting || p.Node != "" || p.Phase != "pending") {
		return lead{}
	}
	for _, name := range p.claims[:min(maxClaims, len(p.claims))] {
		if l := d.claim(ctx, p.Namespace, name); l.cause != "" {
			l.cause = fmt.Sprintf("pod %s cannot be scheduled: claim %s %s", p.Name, name, l.cause)
			l.evidence = append(l.evidence, p.Why)
			return l
		}
	}
	return lead{}
}

// claim finds out why a claim has no volume: from its class, the volume that it names, and
// its events, in this order. Events come last, because the controller emits them only every 15 s.
func (d *Diagnoser) claim(ctx context.Context, namespace, name string) lead {
	c, err := d.kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lead{cause: "does not exist"}
	case err != nil:
		return lead{cause: "cannot be read", gaps: []string{unreadable("claim "+name, err)}, symptom: true}
	case c.Status.Phase == corev1.ClaimBound:
		return lead{}
	case c.Status.Phase == corev1.ClaimLost:
		return lead{cause: fmt.Sprintf("lost its volume %s, which was deleted", c.Spec.VolumeName)}
	}
	events, err := d.events(ctx, refTo("PersistentVolumeClaim", c))
	l := d.unbound(ctx, c, events)
	for _, e := range slices.Backward(events) {
		l.evidence = append(l.evidence, "claim "+name+": "+e.Reason+": "+e.Message)
	}
	if err != nil {
		l.gaps = append(l.gaps, unreadable("events", err))
	}
	class := "no class"
	if c.Spec.StorageClassName != nil {
		class = fmt.Sprintf("class %q", *c.Spec.StorageClassName)
	}
	l.evidence = append(l.evidence, fmt.Sprintf("claim %s is %s: %s, %s", name, strings.ToLower(string(c.Status.Phase)), class, claimRequest(c)))
	return l
}

func (d *Diagnoser) unbound(ctx context.Context, c *corev1.PersistentVolumeClaim, events []Event) lead {
	if e := newestOf(events, "VolumeMismatch", "ProvisioningFailed"); e != nil && !strings.Contains(e.Message, "not found") {
		return lead{cause: "has no volume: " + e.Message}
	}
	if c.Spec.VolumeName != "" {
		_, err := d.kube.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return lead{cause: fmt.Sprintf("has no volume: volume %s does not exist", c.Spec.VolumeName)}
		}
		return lead{cause: fmt.Sprintf("is not bound to volume %s yet", c.Spec.VolumeName), symptom: true}
	}
	if c.Spec.StorageClassName == nil {
		return d.withoutClass(ctx)
	}
	if *c.Spec.StorageClassName == "" {
		return lead{cause: fmt.Sprintf("has no volume: it requests no StorageClass (storageClassName: \"\"), and no existing volume fits %s", claimRequest(c))}
	}
	class, err := d.kube.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lead{cause: fmt.Sprintf("has no volume: StorageClass %s does not exist, and no volume of that class fits %s", *c.Spec.StorageClassName, claimRequest(c))}
	case err != nil:
		return lead{cause: "has no volume of class " + *c.Spec.StorageClassName + " yet", gaps: []string{unreadable("StorageClass "+*c.Spec.StorageClassName, err)}, symptom: true}
	}
	return d.notProvisioned(ctx, c, class)
}

// withoutClass is the lead for a claim without a class, which should get the default one.
func (d *Diagnoser) withoutClass(ctx context.Context) lead {
	const none = "has no volume: it names no StorageClass"
	list, err := d.kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return lead{cause: none, gaps: []string{unreadable("StorageClasses", err)}}
	}
	for _, c := range list.Items {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return lead{cause: none + fmt.Sprintf("; the default StorageClass %s has not been assigned to it yet", c.Name), symptom: true}
		}
	}
	return lead{cause: none + ", and there is no default"}
}

// notProvisioned finds out why an existing class has not provided a volume.
func (d *Diagnoser) notProvisioned(ctx context.Context, c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) lead {
	bindsLate := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	switch {
	case bindsLate && c.Annotations["volume.kubernetes.io/selected-node"] == "":
		return lead{cause: fmt.Sprintf("has no volume: StorageClass %s provisions one only once a pod that uses it is scheduled (WaitForFirstConsumer); put the claim into that pod's group", class.Name)}
	case class.Provisioner == "kubernetes.io/no-provisioner":
		return lead{cause: fmt.Sprintf("has no volume: StorageClass %s does not provision volumes, and no existing volume fits %s", class.Name, claimRequest(c))}
	}
	l := lead{cause: fmt.Sprintf("has no volume: provisioner %s of StorageClass %s has not created one", class.Provisioner, class.Name)}
	switch _, err := d.kube.StorageV1().CSIDrivers().Get(ctx, class.Provisioner, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		l.cause += ", and no CSIDriver with that name is installed"
	case err != nil:
		l.gaps = append(l.gaps, unreadable("CSIDriver "+class.Provisioner, err))
	}
	return l
}

// claimRequest returns the size and access modes that a claim requests, "10Gi, ReadWriteMany".
func claimRequest(c *corev1.PersistentVolumeClaim) string {
	size := c.Spec.Resources.Requests[corev1.ResourceStorage]
	parts := []string{size.String()}
	for _, m := range c.Spec.AccessModes {
		parts = append(parts, string(m))
	}
	return strings.Join(parts, ", ")
}
