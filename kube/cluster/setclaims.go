package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"lockstep/engine/plan"
)

// maxClaims is how many claims of a StatefulSet are named.
const maxClaims = 5

// ClaimsOfSets says which claims the StatefulSets of a list have made, and whether they stay after their removal, because nothing
// owns them, or are deleted with it (persistentVolumeClaimRetentionPolicy). It lists claims once in each namespace that has such a
// StatefulSet; without permission, it says nothing.
func ClaimsOfSets(ctx context.Context, kube kubernetes.Interface, list helmkube.ResourceList) (kept, deleted []string) {
	claims := map[string][]corev1.PersistentVolumeClaim{}
	for _, i := range list {
		u, ok := i.Object.(*unstructured.Unstructured)
		if !ok || ObjectOf(i).GroupKind() != setKind {
			continue
		}
		set := asStatefulSet(u)
		if len(set.VolumeClaimTemplates) == 0 {
			continue
		}
		if _, listed := claims[i.Namespace]; !listed {
			claims[i.Namespace] = listClaims(ctx, kube, i.Namespace)
		}
		stay, leave := claimsOf(set, i, claims[i.Namespace])
		object := plan.Object{Kind: setKind.Kind, Name: i.Name}
		if len(stay) > 0 {
			kept = append(kept, fmt.Sprintf("kept: %s (made by %s; %s may hold data)", someOf(stay), object, itOrThey(stay)))
		}
		if len(leave) > 0 {
			deleted = append(deleted, fmt.Sprintf("deleted with %s, because of its persistentVolumeClaimRetentionPolicy: %s; %s may hold data", object, someOf(leave), itOrThey(leave)))
		}
	}
	return kept, deleted
}

func someOf(names []string) string {
	if more := len(names) - maxClaims; more > 0 {
		names = append(slices.Clip(names[:maxClaims]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

func itOrThey(names []string) string {
	if len(names) > 1 {
		return "they"
	}
	return "it"
}

// ObjectOf names the object of a list.
func ObjectOf(i *resource.Info) plan.Object {
	kind := i.Mapping.GroupVersionKind
	return plan.Object{Group: kind.Group, Kind: kind.Kind, Namespace: i.Namespace, Name: i.Name}
}

func listClaims(ctx context.Context, kube kubernetes.Interface, namespace string) []corev1.PersistentVolumeClaim {
	all, err := kube.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return all.Items
}

// claimsOf names the claims that a StatefulSet has made: those that no object owns, and those that it owns itself.
func claimsOf(set appsv1.StatefulSetSpec, i *resource.Info, claims []corev1.PersistentVolumeClaim) (free, owned []string) {
	for _, c := range claims {
		made := slices.ContainsFunc(set.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
			ordinal, made := strings.CutPrefix(c.Name, t.Name+"-"+i.Name+"-")
			_, err := strconv.ParseUint(ordinal, 10, 32)
			return made && err == nil
		})
		name := plan.Object{Kind: "PersistentVolumeClaim", Name: c.Name}.String()
		switch {
		case !made:
		case len(c.OwnerReferences) == 0:
			free = append(free, name)
		case slices.ContainsFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == setKind.Kind && r.Name == i.Name }):
			owned = append(owned, name)
		}
	}
	return free, owned
}

// keptClass says which claims keep another StorageClass than the templates of the next StatefulSet ask for, "" for none.
func keptClass(live, next appsv1.StatefulSetSpec) string {
	var kept []string
	for _, t := range live.VolumeClaimTemplates {
		n := slices.IndexFunc(next.VolumeClaimTemplates, func(o corev1.PersistentVolumeClaim) bool { return o.Name == t.Name })
		if n < 0 {
			continue
		}
		class := func(c corev1.PersistentVolumeClaim) string {
			return cmp.Or(ptr.Deref(c.Spec.StorageClassName, ""), "the default")
		}
		if was := class(t); was != class(next.VolumeClaimTemplates[n]) {
			kept = append(kept, fmt.Sprintf("those of template %s keep StorageClass %s", t.Name, was))
		}
	}
	return strings.Join(kept, ", ")
}
