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

// maxKeptClaims is how many kept claims of a StatefulSet are named.
const maxKeptClaims = 5

// KeptClaims says which claims the StatefulSets of a list have made, and will stay after their removal: nothing owns them. It
// lists claims once in each namespace that has such a StatefulSet; without permission, it says nothing.
func KeptClaims(ctx context.Context, kube kubernetes.Interface, list helmkube.ResourceList) (kept []string) {
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
		if names := claimsOf(set, i, claims[i.Namespace]); len(names) > 0 {
			it := "it"
			if len(names) > 1 {
				it = "they"
			}
			if more := len(names) - maxKeptClaims; more > 0 {
				names = append(names[:maxKeptClaims], fmt.Sprintf("%d more", more))
			}
			kept = append(kept, fmt.Sprintf("kept: %s (made by %s; %s may hold data)", strings.Join(names, ", "),
				plan.Object{Kind: setKind.Kind, Name: i.Name}, it))
		}
	}
	return kept
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

// claimsOf names the claims that a StatefulSet has made and that no object owns.
func claimsOf(set appsv1.StatefulSetSpec, i *resource.Info, claims []corev1.PersistentVolumeClaim) (names []string) {
	for _, c := range claims {
		if len(c.OwnerReferences) == 0 && slices.ContainsFunc(set.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
			ordinal, made := strings.CutPrefix(c.Name, t.Name+"-"+i.Name+"-")
			_, err := strconv.ParseUint(ordinal, 10, 32)
			return made && err == nil
		}) {
			names = append(names, plan.Object{Kind: "PersistentVolumeClaim", Name: c.Name}.String())
		}
	}
	return names
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
