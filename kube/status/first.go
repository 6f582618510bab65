package status

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/engine/event"
)

// IsBuiltIn reports whether an API group is one of Kubernetes itself, whose controllers lockstep knows.
func IsBuiltIn(group string) bool {
	return scheme.Scheme.IsGroupRegistered(group) || group == "apiextensions.k8s.io" || group == "apiregistration.k8s.io"
}

// ShownByWrites reports whether objects of an API group may have a status of which only a write shows that it is about the object
// as it is (R22a): custom resources, and APIServices, which have no generation.
func ShownByWrites(group string) bool { return !IsBuiltIn(group) || group == "apiregistration.k8s.io" }

// StatusWrite identifies the last write of an object's status, or returns "" if nobody has written it: the defaults in a CRD
// are no write. Without managed fields, any status counts as written.
func StatusWrite(u *unstructured.Unstructured) string {
	content := u.Object["status"]
	if fields, _, _ := unstructured.NestedMap(u.Object, "status"); content == nil || fields != nil && len(fields) == 0 {
		return ""
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	writers := statusWriters(metadata)
	if all, _ := metadata["managedFields"].([]any); len(all) > 0 && len(writers) == 0 {
		return ""
	}
	h := fnv.New64a()
	fmt.Fprint(h, content) // fmt sorts the keys of maps
	for _, m := range writers {
		fmt.Fprint(h, m["manager"], m["operation"], m["time"])
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// statusWriters returns the entries of an object's managed fields that are about its status.
func statusWriters(metadata map[string]any) (writers []map[string]any) {
	all, _ := metadata["managedFields"].([]any)
	for _, entry := range all {
		if m, _ := entry.(map[string]any); m["subresource"] == "status" {
			writers = append(writers, m)
		}
	}
	return writers
}

// trimManagedFields returns the managed fields that StatusWrite needs, nil if there are none. An empty entry stands for
// those of other fields.
func trimManagedFields(metadata map[string]any) (kept []any) {
	if all, _ := metadata["managedFields"].([]any); len(all) == 0 {
		return nil
	}
	for _, m := range statusWriters(metadata) {
		m = maps.Clone(m)
		delete(m, "fieldsV1")
		kept = append(kept, m)
	}
	if kept == nil {
		kept = []any{map[string]any{}}
	}
	return kept
}

// firstStatus says whether the status of an object counts: whether its controller has written it for this generation, or
// whether only the time of its last write can show that.
//
// Rule R22a: a status counts once its controller has written it since the apply
func (r Result) firstStatus(u *unstructured.Unstructured, rule Rule) Result {
	if !rule.FirstStatus || r.Status == event.Deleting || r.unawaited {
		return r
	}
	write := StatusWrite(u)
	switch _, readable := observedGeneration(u); {
	case write == "" && !rule.Custom():
		r.Status, r.Message, r.ReadyBy = event.Ready, "its controller has written no status", event.ByNoStatus
	case write == "": // the expressions decide
	case readable:
		return r // see stale
	default:
		if observed, known := observedByConditions(u); known && observed >= u.GetGeneration() {
			return r
		} else if known {
			write = ""
		}
	}
	r.AwaitsStatus, r.StatusWrite, r.SilenceConfirms = true, write, IsBuiltIn(u.GroupVersionKind().Group)
	return r
}

// observedGeneration returns status.observedGeneration, which some controllers write as a string.
func observedGeneration(u *unstructured.Unstructured) (observed int64, readable bool) {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "observedGeneration")
	return generation(v)
}

func generation(v any) (n int64, readable bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// observedByConditions returns the generation that the conditions are about: that of Ready, or else the highest.
func observedByConditions(u *unstructured.Unstructured) (observed int64, known bool) {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := v.([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		n, ok := generation(m["observedGeneration"])
		switch {
		case !ok:
		case m["type"] == "Ready":
			return n, true
		default:
			observed, known = max(observed, n), true
		}
	}
	return observed, known
}

// readableByKstatus returns the object with an observedGeneration that kstatus can read: it expects a number. problem says
// why there is none, or "".
func readableByKstatus(u *unstructured.Unstructured) (readable *unstructured.Unstructured, problem string) {
	status, _ := u.Object["status"].(map[string]any)
	v, found := status["observedGeneration"]
	if _, isNumber := v.(int64); !found || isNumber {
		return u, ""
	}
	changed := maps.Clone(status)
	if n, ok := generation(v); ok {
		changed["observedGeneration"] = n
	} else {
		delete(changed, "observedGeneration")
		problem = fmt.Sprintf("status.observedGeneration is %v, not a generation", v)
	}
	object := maps.Clone(u.Object)
	object["status"] = changed
	return &unstructured.Unstructured{Object: object}, problem
}

// kstatusConditions are the conditions that kstatus reads in the status of a custom resource.
var kstatusConditions = []string{"Ready", "Reconciling", "Stalled"}

// hasKstatusCondition reports whether kstatus can read more than the generation in the status of a custom resource.
func hasKstatusCondition(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(kstatusConditions, func(t string) bool { _, ok := findCondition(u, t); return ok })
}
