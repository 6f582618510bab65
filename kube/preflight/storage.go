package preflight

import (
	"fmt"
	"slices"
	"strings"

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

// storageClaims returns the claims that will be created, except those with a volume name or
// with an explicitly empty class.
func (t *target) storageClaims() (out []storageClaim) {
	add := func(o *incomingObject, claim any, path string) {
		m, _ := claim.(map[string]any)
		spec, _ := m["spec"].(map[string]any)
		class, named := spec["storageClassName"].(string)
		if old, ok, _ := unstructured.NestedString(m, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class"); ok && !named {
			class, named = old, true
		}
		if spec == nil || spec["volumeName"] != nil || named && class == "" {
			return
		}
		out = append(out, storageClaim{o, class, path})
	}
	for _, o := range t.objects {
		switch {
		case !o.new:
		case o.Kind == "PersistentVolumeClaim" && o.Object.Group == "":
			add(o, o.fields, "spec.storageClassName")
		case o.Kind == "StatefulSet" && o.Object.Group == "apps" && replicas(o) > 0:
			list, _, _ := unstructured.NestedSlice(o.fields, "spec", "volumeClaimTemplates")
			for n, c := range list {
				add(o, c, fmt.Sprintf("spec.volumeClaimTemplates[%d].spec.storageClassName", n))
			}
		}
	}
	return out
}

// checkStorage warns about claims whose StorageClass is in neither the plan nor the cluster
// and has no volumes, and about claims of the default class if there is none.
func (s *clusterView) checkStorage(t *target) (warnings []plan.Warning) {
	claims := t.storageClaims()
	if len(claims) == 0 {
		return nil
	}
	l, err := s.Client.Clientset.StorageV1().StorageClasses().List(s.Context, metav1.ListOptions{})
	if !s.ok(err, "storageclasses.storage.k8s.io", "") {
		return nil
	}
	known := map[string]bool{}
	for _, c := range l.Items {
		known[c.Name] = true
		known[""] = known[""] || isDefault(c.Annotations)
	}
	for _, o := range t.has {
		if o.Kind == "StorageClass" && o.Object.Group == storagev1.GroupName {
			known[o.Name] = true
			annotations, _, _ := unstructured.NestedStringMap(o.fields, "metadata", "annotations")
			known[""] = known[""] || isDefault(annotations)
		}
	}
	claims = slices.DeleteFunc(claims, func(w storageClaim) bool {
		return known[w.class] || w.class != "" && t.mayCreate(plan.Object{Group: storagev1.GroupName, Kind: "StorageClass", Name: w.class})
	})
	if len(claims) == 0 || !s.volumeClasses(t, known) {
		return nil
	}
	warned := map[string]bool{}
	for _, w := range claims {
		if known[w.class] || warned[w.class+"/"+w.from.String()] {
			continue
		}
		warned[w.class+"/"+w.from.String()] = true
		text := fmt.Sprintf("%s needs StorageClass/%s (%s), which neither the chart nor the cluster has: its claims stay pending without it", w.from, w.class, w.path)
		if w.class == "" {
			text = fmt.Sprintf("%s needs the default StorageClass (%s is not set), and the cluster has no default: its claims stay pending", w.from, w.path)
		}
		warnings = append(warnings, plan.Warning{Object: &w.from.Object, Message: text})
	}
	return warnings
}

func isDefault(annotations map[string]string) bool {
	return annotations["storageclass.kubernetes.io/is-default-class"] == "true" || annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

// volumeClasses adds the classes of available and planned volumes, which need no StorageClass
// object. It reports whether the volumes could be read.
func (s *clusterView) volumeClasses(t *target, known map[string]bool) bool {
	l, err := s.Client.Clientset.CoreV1().PersistentVolumes().List(s.Context, metav1.ListOptions{})
	if !s.ok(err, "persistentvolumes", "") {
		return false
	}
	for _, v := range l.Items {
		known[v.Spec.StorageClassName] = known[v.Spec.StorageClassName] || v.Status.Phase == corev1.VolumeAvailable
	}
	for _, o := range t.has {
		if o.Kind == "PersistentVolume" {
			class, _, _ := unstructured.NestedString(o.fields, "spec", "storageClassName")
			known[strings.TrimSpace(class)] = true
		}
	}
	return true
}
