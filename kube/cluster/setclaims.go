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

// ClaimsOfScaledSets says which claims Kubernetes deletes because the StatefulSets of a list are applied with fewer replicas than they
// have and with whenScaled: Delete. It reads only such StatefulSets and their claims; without permission, it says nothing.
func ClaimsOfScaledSets(ctx context.Context, kube kubernetes.Interface, list helmkube.ResourceList) (deleted []string) {
	for _, i := range list {
		u, ok := i.Object.(*unstructured.Unstructured)
		if !ok || ObjectOf(i).GroupKind() != setKind {
			continue
		}
		next := asStatefulSet(u)
		policy := next.PersistentVolumeClaimRetentionPolicy
		if len(next.VolumeClaimTemplates) == 0 || next.Replicas == nil || policy == nil || policy.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
			continue
		}
		live, err := kube.AppsV1().StatefulSets(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
		if err != nil || ptr.Deref(live.Spec.Replicas, 1) <= *next.Replicas {
			continue
		}
		first, has := uint64(0), ptr.Deref(live.Spec.Replicas, 1)
		if o := next.Ordinals; o != nil {
			first = uint64(max(o.Start, 0))
		}
		var names []string
		for _, c := range listClaims(ctx, kube, i.Namespace) {
			if ordinal, made := ordinalOf(live.Spec, i.Name, c.Name); made && ordinal >= first+uint64(max(*next.Replicas, 0)) && ordinal < first+uint64(has) {
				names = append(names, plan.Object{Kind: "PersistentVolumeClaim", Name: c.Name}.String())
			}
		}
		if len(names) > 0 {
			deleted = append(deleted, fmt.Sprintf("deleted when %s is scaled from %d to %d, because of its persistentVolumeClaimRetentionPolicy: %s; %s may hold data",
				plan.Object{Kind: setKind.Kind, Name: i.Name}, has, *next.Replicas, someOf(names), itOrThey(names)))
		}
	}
	return deleted
}

// ordinalOf returns the ordinal of the pod for which a StatefulSet has made a claim; made is false for other claims.
func ordinalOf(set appsv1.StatefulSetSpec, name, claim string) (ordinal uint64, made bool) {
	for _, t := range set.VolumeClaimTemplates {
		if text, found := strings.CutPrefix(claim, t.Name+"-"+name+"-"); found {
			if n, err := strconv.ParseUint(text, 10, 32); err == nil {
				return n, true
			}
		}
	}
	return 0, false
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
		_, made := ordinalOf(set, i.Name, c.Name)
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
