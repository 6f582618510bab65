package preflight

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
)

// storageClaim is a claim in the plan.
type storageClaim struct {
	from  *incomingObject
	class string // "" for the cluster's default
	path  string
}

// storageClaims returns the claims that will be created, except those that name a volume or
// explicitly set an empty class.
func (planned *plannedObjects) storageClaims() (out []storageClaim) {
	for _, o := range planned.objects {
		if !o.new {
			continue
		}
		for path, claim := range rawClaimsOf(o) {
			spec, _ := claim["spec"].(map[string]any)
			class, named := spec["storageClassName"].(string)
			if !named {
				class, named, _ = unstructured.NestedString(claim, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class")
			}
			if spec != nil && spec["volumeName"] == nil && (!named || class != "") {
				out = append(out, storageClaim{o, class, path + "spec.storageClassName"})
			}
		}
	}
	return out
}

// checkStorage warns about claims whose class neither a StorageClass nor a PersistentVolume of the
// plan or the cluster has. A claim without a class needs a default StorageClass.
func (v *clusterView) checkStorage(planned *plannedObjects) (warnings []plan.Warning) {
	claims := planned.storageClaims()
	if len(claims) == 0 {
		return nil
	}
	l, err := v.Client.Clientset.StorageV1().StorageClasses().List(v.Context, metav1.ListOptions{})
	if v.recordFailure(err, "storageclasses.storage.k8s.io", "") {
		return nil
	}
	known := map[string]bool{}
	for _, c := range l.Items {
		known[c.Name] = true
		known[""] = known[""] || isDefault(c.Annotations)
	}
	for _, o := range planned.byObject {
		if o.Kind == "StorageClass" && o.Object.Group == storagev1.GroupName {
			known[o.Name] = true
			annotations, _, _ := unstructured.NestedStringMap(o.fields, "metadata", "annotations")
			known[""] = known[""] || isDefault(annotations)
		}
	}
	claims = slices.DeleteFunc(claims, func(claim storageClaim) bool {
		class := plan.Object{Group: storagev1.GroupName, Kind: "StorageClass", Name: claim.class}
		return known[claim.class] || claim.class != "" && planned.mayCreate(class)
	})
	if len(claims) == 0 || !v.addVolumeClasses(planned, known) {
		return nil
	}
	warned := map[string]bool{}
	for _, claim := range claims {
		key := claim.class + "/" + claim.from.String()
		if known[claim.class] || warned[key] {
			continue
		}
		warned[key] = true
		pending := "its claims stay pending"
		if claim.from.Kind == "PersistentVolumeClaim" {
			pending = "the claim stays pending"
		}
		if claim.class == "" {
			warnings = append(warnings, claim.from.warning(
				"%s needs the default StorageClass (%s is not set), and the cluster has no default: %s",
				claim.from, claim.path, pending))
		} else {
			warnings = append(warnings, claim.from.warning(
				"%s needs StorageClass/%s (%s), which is in neither the chart nor the cluster: %s without it",
				claim.from, claim.class, claim.path, pending))
		}
	}
	return warnings
}

func isDefault(annotations map[string]string) bool {
	return annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

// addVolumeClasses adds the classes of available and planned volumes to known: claims can be bound to
// these volumes without a StorageClass. It reports whether the volumes could be read.
func (v *clusterView) addVolumeClasses(planned *plannedObjects, known map[string]bool) bool {
	l, err := v.Client.Clientset.CoreV1().PersistentVolumes().List(v.Context, metav1.ListOptions{})
	if v.recordFailure(err, "persistentvolumes", "") {
		return false
	}
	for _, volume := range l.Items {
		known[volume.Spec.StorageClassName] = known[volume.Spec.StorageClassName] || volume.Status.Phase == corev1.VolumeAvailable
	}
	for _, o := range planned.byObject {
		if o.Kind == "PersistentVolume" {
			class, _, _ := unstructured.NestedString(o.fields, "spec", "storageClassName")
			known[class] = true
		}
	}
	return true
}
