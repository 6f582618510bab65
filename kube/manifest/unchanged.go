package manifest

import (
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/kube/connect"
)

// Unchanged reports whether it is proven that a server-side apply of want, in Helm's
// name and without force, would change nothing of live: Helm owns by apply exactly the
// fields that want has, and each of them has want's value. An owner that has been
// robbed of a field does not own it any more, and a field that want no longer has is
// still owned, so drift of either kind is no proof; neither is what only the API
// server can compare, as 1000m and 1.
func Unchanged(want, live *unstructured.Unstructured) bool {
	owned := applied(live, want.GetAPIVersion())
	if owned == nil || live.GetDeletionTimestamp() != nil {
		return false
	}
	fields := map[string]any{}
	for key, value := range want.Object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			meta, ok := value.(map[string]any)
			if !ok {
				return false
			}
			if rest := withoutIdentity(meta); len(rest) > 0 {
				fields[key] = rest
			}
		default:
			fields[key] = value
		}
	}
	return unchanged(owned, fields, live.Object)
}

// Rewritten reports whether two revisions have an object otherwise, apart from its
// metadata, to which Helm adds: then its apply is all but sure to change something.
func Rewritten(was, is *resource.Info) bool {
	a, ok := was.Object.(*unstructured.Unstructured)
	b, same := is.Object.(*unstructured.Unstructured)
	if !ok || !same || len(a.Object) != len(b.Object) {
		return true
	}
	for key, value := range b.Object {
		if before, there := a.Object[key]; key != "metadata" && (!there || !reflect.DeepEqual(before, value)) {
			return true
		}
	}
	return false
}

// applied is what Helm owns of an object by apply, as fieldsV1 says it; nil where it
// owns something in another way, or by another version. It is read as it lies there:
// the object's own method makes JSON of it, to be read again.
func applied(live *unstructured.Unstructured, version string) map[string]any {
	metadata, _ := live.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	var found map[string]any
	for _, e := range entries {
		m, _ := e.(map[string]any)
		if m["manager"] != connect.FieldManager {
			continue
		}
		fields, _ := m["fieldsV1"].(map[string]any)
		subresource, _ := m["subresource"].(string)
		if found != nil || fields == nil || m["operation"] != string(metav1.ManagedFieldsOperationApply) || subresource != "" || m["apiVersion"] != version {
			return nil
		}
		found = fields
	}
	return found
}

// withoutIdentity leaves out of metadata what nobody owns.
func withoutIdentity(meta map[string]any) map[string]any {
	rest := map[string]any{}
	for key, value := range meta {
		switch key {
		case "name", "namespace":
		case "creationTimestamp":
			if value != nil {
				rest[key] = value
			}
		default:
			rest[key] = value
		}
	}
	return rest
}

// unchanged compares a value of a manifest with the live one, below a node of fieldsV1.
func unchanged(owned map[string]any, want, live any) bool {
	if want == nil {
		return false // to be removed, or to be defaulted: the API server knows
	}
	children := 0
	for key := range owned {
		if key != "." {
			children++
		}
	}
	if children == 0 { // a scalar, or what is owned as a whole
		return reflect.DeepEqual(want, live)
	}
	switch want := want.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok || children != len(want) {
			return false
		}
		for key, value := range want {
			child, ok := owned["f:"+key].(map[string]any)
			if !ok || !unchanged(child, value, have[key]) {
				return false
			}
		}
		return true
	case []any:
		have, ok := live.([]any)
		return ok && children == len(want) && sameElements(owned, want, have)
	}
	return false
}

// sameElements compares lists whose elements have owners of their own: each key of
// owned has to stand for exactly one element of both.
func sameElements(owned map[string]any, want, live []any) bool {
	for key, child := range owned {
		if key == "." {
			continue
		}
		node, ok := child.(map[string]any)
		if !ok {
			return false
		}
		w, l := element(key, want), element(key, live)
		if w == nil || l == nil || !unchanged(node, w, l) {
			return false
		}
	}
	return true
}

// element returns the one element of a list that a key of fieldsV1 stands for, nil
// where there is none, or more than one. A field that an element leaves out, and that
// has a default, may be any.
func element(key string, list []any) (found any) {
	is := func(any) bool { return false }
	if fields, ok := strings.CutPrefix(key, "k:"); ok {
		var by map[string]any
		if json.Unmarshal([]byte(fields), &by) != nil {
			return nil
		}
		is = func(e any) bool {
			m, ok := e.(map[string]any)
			for name, value := range by {
				if has, there := m[name]; there && !sameScalar(has, value) {
					return false
				}
			}
			return ok
		}
	} else if text, ok := strings.CutPrefix(key, "v:"); ok {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return nil
		}
		is = func(e any) bool { return sameScalar(e, value) }
	}
	for _, e := range list {
		if !is(e) {
			continue
		}
		if found != nil {
			return nil
		}
		found = e
	}
	return found
}

// sameScalar compares a scalar of an object with one that encoding/json has read: it
// knows no integers.
func sameScalar(a, b any) bool {
	if n, ok := a.(int64); ok {
		return float64(n) == b
	}
	return a == b
}
