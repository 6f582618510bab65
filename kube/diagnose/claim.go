package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// maxClaims limits how many claims of a pod are checked.
const maxClaims = 3

// podClaimsCause checks the claims of a pod that is not scheduled. The scheduler reports nothing
// while it waits for a volume to be provisioned.
func (d *Diagnoser) podClaimsCause(ctx context.Context, p Pod) finding {
	blamesVolume := p.severity == unschedulable && strings.Contains(strings.ToLower(strings.ReplaceAll(p.Why, " ", "")), "persistentvolume")
	if !blamesVolume && (p.severity != starting || p.Node != "" || p.Phase != "pending") {
		return finding{}
	}
	for _, name := range p.claims[:min(maxClaims, len(p.claims))] {
		if f := d.claimCause(ctx, p.Namespace, name, &p); f.cause != "" {
			f.cause = fmt.Sprintf("pod %s cannot be scheduled: claim %s %s", p.Name, name, f.cause)
			f.evidence = append(f.evidence, p.Why)
			return f
		}
	}
	return finding{}
}

// oldClaim says what to do about a claim without a volume that an earlier StatefulSet or template has made, with another
// StorageClass: a claim keeps its class. It returns "" for others.
func (d *Diagnoser) oldClaim(ctx context.Context, live *unstructured.Unstructured, c *corev1.PersistentVolumeClaim) string {
	if c == nil || c.Spec.VolumeName != "" || c.Spec.StorageClassName == nil || live.GroupVersionKind().GroupKind().String() != "StatefulSet.apps" {
		return ""
	}
	var set appsv1.StatefulSet
	if runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &set) != nil {
		return ""
	}
	for _, t := range set.Spec.VolumeClaimTemplates {
		if !strings.HasPrefix(c.Name, t.Name+"-"+set.Name+"-") {
			continue
		}
		asks, err := ptr.Deref(t.Spec.StorageClassName, ""), error(nil)
		if t.Spec.StorageClassName == nil {
			asks, err = d.defaultClass(ctx)
		}
		if err == nil && asks != *c.Spec.StorageClassName {
			return fmt.Sprintf("; the StatefulSet asks for StorageClass %s now, but a claim keeps its class; this one holds no data, so delete it: kubectl delete pvc %s -n %s",
				cmp.Or(asks, `""`), c.Name, c.Namespace)
		}
	}
	return ""
}

// claimCause finds out why a claim has no volume. The cause is a predicate: "has no volume: …". user is the pod that needs
// the claim, or nil if the claim itself is diagnosed.
func (d *Diagnoser) claimCause(ctx context.Context, namespace, name string, user *Pod) finding {
	c, err := d.kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return finding{cause: "does not exist"}
	case err != nil:
		return finding{cause: "cannot be read", gaps: []string{Unreadable("claim "+name, err)}, symptom: true}
	case c.Status.Phase == corev1.ClaimBound:
		return finding{}
	case c.Status.Phase == corev1.ClaimLost:
		return finding{cause: fmt.Sprintf("lost its volume %s: it was deleted or is bound to another claim", c.Spec.VolumeName)}
	}
	events, err := d.events(ctx, refTo("PersistentVolumeClaim", c))
	f := d.unboundCause(ctx, c, events, user)
	f.pending = c
	for _, e := range slices.Backward(events) {
		f.evidence = append(f.evidence, "claim "+name+": "+e.Reason+": "+e.Message)
	}
	if err != nil {
		f.gaps = append(f.gaps, Unreadable("events", err))
	}
	class := "no class"
	if c.Spec.StorageClassName != nil {
		class = fmt.Sprintf("class %q", *c.Spec.StorageClassName)
	}
	f.evidence = append(f.evidence, fmt.Sprintf("claim %s is %s: %s, %s", name, strings.ToLower(string(c.Status.Phase)), class, claimRequest(c)))
	return f
}

// unboundCause looks for the cause in the claim's events, in the volume that it names, and in its StorageClass. The
// controller emits events only every 15 s, so there may be none yet.
func (d *Diagnoser) unboundCause(ctx context.Context, c *corev1.PersistentVolumeClaim, events []Event, user *Pod) finding {
	if e := newestOf(events, "VolumeMismatch", "ProvisioningFailed"); e != nil && !strings.Contains(e.Message, "not found") {
		return finding{cause: "has no volume: " + e.Message}
	}
	if c.Spec.VolumeName != "" {
		_, err := d.kube.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return finding{cause: fmt.Sprintf("has no volume: volume %s does not exist", c.Spec.VolumeName)}
		}
		return finding{cause: fmt.Sprintf("is not bound to volume %s yet", c.Spec.VolumeName), symptom: true}
	}
	if c.Spec.StorageClassName == nil {
		return d.noClassCause(ctx)
	}
	if *c.Spec.StorageClassName == "" {
		return finding{cause: fmt.Sprintf("has no volume: it requests no StorageClass (storageClassName: \"\"), and no existing volume fits %s", claimRequest(c))}
	}
	class, err := d.kube.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return finding{cause: fmt.Sprintf("has no volume: StorageClass %s does not exist, and no volume of that class fits %s", *c.Spec.StorageClassName, claimRequest(c))}
	case err != nil:
		return finding{cause: "has no volume of class " + *c.Spec.StorageClassName + " yet", gaps: []string{Unreadable("StorageClass "+*c.Spec.StorageClassName, err)}, symptom: true}
	}
	return d.unprovisionedCause(ctx, c, class, user)
}

// noClassCause explains a claim that names no StorageClass: the cluster should assign the default one.
func (d *Diagnoser) noClassCause(ctx context.Context) finding {
	const noClass = "has no volume: it names no StorageClass"
	switch name, err := d.defaultClass(ctx); {
	case err != nil:
		return finding{cause: noClass, gaps: []string{Unreadable("StorageClasses", err)}}
	case name != "":
		return finding{cause: noClass + fmt.Sprintf("; the default StorageClass %s has not been assigned to it yet", name), symptom: true}
	}
	return finding{cause: noClass + ", and there is no default"}
}

// defaultClass returns the name of the default StorageClass, "" if there is none.
func (d *Diagnoser) defaultClass(ctx context.Context) (string, error) {
	list, err := d.kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, c := range list.Items {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return c.Name, nil
		}
	}
	return "", nil
}

// unprovisionedCause finds out why the claim's StorageClass has not provided a volume.
func (d *Diagnoser) unprovisionedCause(ctx context.Context, c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, user *Pod) finding {
	byHand := class.Provisioner == "kubernetes.io/no-provisioner"
	waitsForPod := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer &&
		c.Annotations["volume.kubernetes.io/selected-node"] == ""
	switch {
	case waitsForPod && user == nil:
		verb := "provisions"
		if byHand {
			verb = "binds"
		}
		return finding{cause: fmt.Sprintf("has no volume: StorageClass %s %s one only once a pod that uses it is scheduled (WaitForFirstConsumer); put the claim into that pod's group", class.Name, verb)}
	case waitsForPod && (!byHand || user.severity != unschedulable):
		return finding{} // the claim waits for the scheduler to choose a node for the pod
	case byHand:
		return finding{cause: fmt.Sprintf("has no volume: StorageClass %s does not provision volumes, and no existing volume fits %s", class.Name, claimRequest(c))}
	}
	f := finding{cause: fmt.Sprintf("has no volume: provisioner %s of StorageClass %s has not created one", class.Provisioner, class.Name)}
	if strings.Contains(class.Provisioner, "/") { // such as rancher.io/local-path: no name of a CSIDriver
		return f
	}
	switch _, err := d.kube.StorageV1().CSIDrivers().Get(ctx, class.Provisioner, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		f.cause += ", and no CSIDriver with that name is installed"
	case err != nil:
		f.gaps = append(f.gaps, Unreadable("CSIDriver "+class.Provisioner, err))
	}
	return f
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
