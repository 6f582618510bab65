// Package cloud simulates a cloud provider and a storage driver: it provisions volumes for claims of a default
// StorageClass, and assigns addresses to LoadBalancer Services and Ingresses.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"lockstep/kube/sandbox/annotation"
	"lockstep/kube/sandbox/loop"
)

const (
	storageClass  = "standard"
	provisioner   = "sandbox/volumes"
	selectedNode  = "volume.kubernetes.io/selected-node"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

type cloud struct {
	client    kubernetes.Interface
	addresses atomic.Uint32
	seen      sync.Map // types.UID to time.Time: delayed objects
}

// Run simulates the cloud until ctx is done.
func Run(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisioner,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("storage class: %w", err)
	}
	c := &cloud{client: client}
	f := informers.NewSharedInformerFactory(client, 0)
	err = errors.Join(
		loop.Each(ctx, f.Core().V1().PersistentVolumeClaims().Informer(), 1, c.syncClaim),
		loop.Each(ctx, f.Core().V1().PersistentVolumes().Informer(), 1, c.syncVolume),
		loop.Each(ctx, f.Core().V1().Services().Informer(), 1, c.syncService),
		loop.Each(ctx, f.Networking().V1().Ingresses().Informer(), 1, c.syncIngress))
	if err != nil {
		return err
	}
	f.Start(ctx.Done())
	<-ctx.Done()
	f.Shutdown()
	return nil
}

// delay reports whether an object's annotations delay it, and for how long (0: forever).
func (c *cloud) delay(o metav1.Object) (bool, time.Duration) {
	v := annotation.Of(o.GetAnnotations())
	if v.Text(annotation.Fail) != "" {
		return true, 0
	}
	after := v.Duration(annotation.ReadyAfter, 0)
	if after == 0 {
		return false, 0
	}
	// The creation time has only whole seconds, so the delay counts from the first sync.
	seen, _ := c.seen.LoadOrStore(o.GetUID(), time.Now())
	if left := time.Until(seen.(time.Time).Add(after)); left > 0 {
		return true, left
	}
	c.seen.Delete(o.GetUID())
	return false, 0
}

// syncClaim creates the volume for a claim of a class with the sandbox's provisioner: at once or, if the class waits for the
// first consumer, once the scheduler has selected a node.
func (c *cloud) syncClaim(ctx context.Context, pvc *corev1.PersistentVolumeClaim) (time.Duration, error) {
	name := pvc.Spec.StorageClassName
	if pvc.Spec.VolumeName != "" || pvc.DeletionTimestamp != nil || name == nil || *name == "" {
		return 0, nil
	}
	class, err := c.client.StorageV1().StorageClasses().Get(ctx, *name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	late := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if class.Provisioner != provisioner || late && pvc.Annotations[selectedNode] == "" {
		return 0, nil
	}
	if wait, left := c.delay(pvc); wait {
		return left, nil
	}
	_, err = c.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(pvc.UID), Annotations: map[string]string{provisionedBy: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: pvc.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: pvc.Spec.AccessModes, VolumeMode: pvc.Spec.VolumeMode, StorageClassName: class.Name,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/simulated/" + string(pvc.UID)}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return 0, err
}

// syncVolume deletes a released volume, which is the storage driver's task.
func (c *cloud) syncVolume(ctx context.Context, pv *corev1.PersistentVolume) (time.Duration, error) {
	if pv.Status.Phase != corev1.VolumeReleased || pv.Annotations[provisionedBy] != provisioner || pv.DeletionTimestamp != nil {
		return 0, nil
	}
	return 0, c.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
}

// syncService assigns an address to a LoadBalancer Service.
func (c *cloud) syncService(ctx context.Context, s *corev1.Service) (time.Duration, error) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
		return 0, nil
	}
	if wait, left := c.delay(s); wait {
		return left, nil
	}
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: c.address()}}
	_, err := c.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
	return 0, err
}

func (c *cloud) syncIngress(ctx context.Context, i *networkingv1.Ingress) (time.Duration, error) {
	if len(i.Status.LoadBalancer.Ingress) > 0 {
		return 0, nil
	}
	if wait, left := c.delay(i); wait {
		return left, nil
	}
	i = i.DeepCopy()
	i.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: c.address()}}
	_, err := c.client.NetworkingV1().Ingresses(i.Namespace).UpdateStatus(ctx, i, metav1.UpdateOptions{})
	return 0, err
}

// address returns an address from a block reserved for documentation.
func (c *cloud) address() string {
	return fmt.Sprintf("203.0.113.%d", c.addresses.Add(1)%254+1)
}
