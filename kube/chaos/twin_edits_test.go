package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// edit is a change of an object by another client, made in both namespaces.
type edit struct {
	what string // for the report
	do   func(ctx context.Context, namespace string) error
}

// edit picks a change that a person or controller could make to one of the objects. It returns false if it finds none.
func (m generator) edit(all map[string]unstructured.Unstructured) (edit, bool) {
	names := slices.Sorted(maps.Keys(all))
	if len(names) == 0 {
		return edit{}, false
	}
	id := names[m.IntN(len(names))]
	o := all[id]
	gvr := twinResources[o.GetKind()]
	workload := o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet"
	switch m.IntN(6) {
	case 0:
		if hasFinalizers(o.Object) {
			return edit{}, false
		}
		return edit{"kubectl delete " + id, func(ctx context.Context, ns string) error {
			return admin.Resource(gvr).Namespace(ns).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		}}, true
	case 1:
		if !workload {
			return edit{}, false
		}
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, m.IntN(3))
		return patchEdit("scale", id, gvr, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "autoscaler"}, "scale"), true
	case 2:
		patch := fmt.Sprintf(`{"metadata":{"labels":{"tier":%q},"annotations":{"example.com/a":%s}}}`, pick(m, "1", "theirs"), pick(m, `"theirs"`, "null"))
		return patchEdit("patch", id, gvr, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-patch"}), true
	case 3:
		return m.otherApply(o, id, gvr), true
	}
	return m.rewrite(o, id, gvr), true
}

// patchEdit returns a patch by another field manager.
func patchEdit(verb, id string, gvr schema.GroupVersionResource, name string, kind types.PatchType, patch string, opts metav1.PatchOptions, subresources ...string) edit {
	return edit{fmt.Sprintf("%s %s %s (%s)", verb, id, patch, opts.FieldManager), func(ctx context.Context, ns string) error {
		_, err := admin.Resource(gvr).Namespace(ns).Patch(ctx, name, kind, []byte(patch), opts, subresources...)
		return err
	}}
}

// otherApply returns a server-side apply of some fields by another field manager.
func (m generator) otherApply(o unstructured.Unstructured, id string, gvr schema.GroupVersionResource) edit {
	part := map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": map[string]any{
		"name": o.GetName(), "labels": map[string]any{pick(m, "team", "owner"): pick(m, "1", "theirs")}}}
	switch o.GetKind() {
	case "ConfigMap":
		part["data"] = map[string]any{pick(m, "k0", "k1", "theirs"): pick(m, "v0", "theirs")}
	case "Deployment":
		part["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "main", "env": []any{map[string]any{"name": pick(m, "A", "THEIRS"), "value": pick(m, "1", "theirs")}}}}}}}
		if !hasContainer(o, "main") {
			delete(part, "spec")
		}
	}
	text, err := json.Marshal(part)
	if err != nil {
		panic(err)
	}
	force := m.chance(70)
	return patchEdit("apply", id, gvr, o.GetName(), types.ApplyPatchType, string(text), metav1.PatchOptions{FieldManager: "other", Force: &force})
}

func hasContainer(o unstructured.Unstructured, name string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	return slices.ContainsFunc(all, func(c any) bool { return c.(map[string]any)["name"] == name })
}

// rewrite returns a change as by kubectl edit, which reads, changes and writes the object.
func (m generator) rewrite(o unstructured.Unstructured, id string, gvr schema.GroupVersionResource) edit {
	what, change := "reverses lists", reverseLists
	if o.GetKind() == "ConfigMap" && m.chance(70) {
		key, value := pick(m, "k0", "k1", "more"), pick(m, "v0", "edited", "")
		if m.chance(30) {
			what, change = "drops "+key, func(o map[string]any) { unstructured.RemoveNestedField(o, "data", key) }
		} else {
			what, change = fmt.Sprintf("sets %s to %q", key, value), func(o map[string]any) { _ = unstructured.SetNestedField(o, value, "data", key) }
		}
	}
	return edit{fmt.Sprintf("edit %s: %s", id, what), func(ctx context.Context, ns string) error {
		client := admin.Resource(gvr).Namespace(ns)
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(live.Object)
			_, err = client.Update(ctx, live, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
			return err
		})
	}}
}

// reverseLists reverses the lists whose elements have separate owners.
func reverseLists(o map[string]any) {
	at := func(v map[string]any, path ...string) {
		if l, ok, _ := unstructured.NestedFieldNoCopy(v, path...); ok {
			if l, ok := l.([]any); ok {
				slices.Reverse(l)
			}
		}
	}
	pod := []string{"spec", "template", "spec"}
	at(o, "metadata", "finalizers")
	at(o, "imagePullSecrets")
	at(o, "spec", "ports")
	at(o, append(slices.Clone(pod), "initContainers")...)
	containers, _, _ := unstructured.NestedFieldNoCopy(o, append(slices.Clone(pod), "containers")...)
	all, _ := containers.([]any)
	for _, c := range all {
		at(c.(map[string]any), "env")
		at(c.(map[string]any), "ports")
	}
}

// editResult returns "done" or the reason why the API server refused an edit.
func editResult(err error) string {
	if err == nil {
		return "done"
	}
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = strings.TrimSpace(err.Error())
	}
	return reason
}
