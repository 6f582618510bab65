package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// twinResources are the resources of the charts' kinds.
var twinResources = map[string]schema.GroupVersionResource{
	"ConfigMap":      {Version: "v1", Resource: "configmaps"},
	"Secret":         {Version: "v1", Resource: "secrets"},
	"Service":        {Version: "v1", Resource: "services"},
	"ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
	"Role":           {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"NetworkPolicy":  {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"Deployment":     {Group: "apps", Version: "v1", Resource: "deployments"},
	"StatefulSet":    {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"CronJob":        {Group: "batch", Version: "v1", Resource: "cronjobs"},
}

// releaseState is the state of a release: the objects of the chart's kinds in its namespace, and its records.
type releaseState struct {
	objects map[string]unstructured.Unstructured // by kind and name
	records []releaseRecord                      // from the first revision on
}

// readState reads the objects of the given kinds, and the release records.
func readState(ctx context.Context, namespace string, kinds map[string]bool) (releaseState, error) {
	s := releaseState{objects: map[string]unstructured.Unstructured{}}
	for _, kind := range slices.Sorted(maps.Keys(twinResources)) {
		if !kinds[kind] && kind != "Secret" {
			continue
		}
		list, err := admin.Resource(twinResources[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return s, err
		}
		for _, item := range list.Items {
			name := item.GetName()
			text, isRecord, _ := unstructured.NestedString(item.Object, "data", "release")
			switch {
			case kind == "Secret" && isRecord && item.GetLabels()["owner"] == "helm":
				rel, err := record(text)
				if err != nil {
					return s, fmt.Errorf("read %s: %w", name, err)
				}
				s.records = append(s.records, rel)
			case kind == "ConfigMap" && name == "kube-root-ca.crt", kind == "ServiceAccount" && name == "default":
			default:
				s.objects[kind+"/"+name] = item
			}
		}
	}
	slices.SortFunc(s.records, func(a, b releaseRecord) int { return a.Version - b.Version })
	return s, nil
}

// settled reports whether the controllers have nothing left to do.
func (s releaseState) settled() bool {
	for _, o := range s.objects {
		if o.GetKind() != "Deployment" && o.GetKind() != "StatefulSet" {
			continue
		}
		count := func(path ...string) int64 { n, _, _ := unstructured.NestedInt64(o.Object, path...); return n }
		if count("status", "observedGeneration") != o.GetGeneration() || count("status", "readyReplicas") != count("spec", "replicas") ||
			count("status", "replicas") != count("spec", "replicas") || count("status", "updatedReplicas") != count("spec", "replicas") {
			return false
		}
	}
	return true
}

// comparableFields returns the applied fields of an object and their owners, without its identity and the fields that
// controllers set.
func comparableFields(o unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for key, v := range o.DeepCopy().Object {
		if key != "metadata" && key != "status" && key != "apiVersion" && key != "kind" {
			out[key] = v
		}
	}
	annotations := o.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	out["labels"], out["annotations"], out["finalizers"] = o.GetLabels(), annotations, o.GetFinalizers()
	out["owners"], out["deleted"] = o.GetOwnerReferences(), o.GetDeletionTimestamp() != nil
	managers := map[string]any{}
	for _, f := range o.GetManagedFields() {
		if strings.HasPrefix(f.Manager, "kube-controller-manager") || f.Subresource == "status" {
			continue
		}
		fields := map[string]any{}
		_ = json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields)
		managers[fmt.Sprintf("%s %s %s %s", f.Manager, f.Operation, f.APIVersion, f.Subresource)] = fields
	}
	out["managers"] = managers
	if spec, _ := out["spec"].(map[string]any); o.GetKind() == "Service" && spec != nil {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	return normalize(out, o.GetNamespace())
}

// sameFields reports whether two states of an object have the same fields and owners.
func sameFields(a, b unstructured.Unstructured) bool {
	return a.Object != nil && b.Object != nil && a.GetUID() == b.GetUID() && reflect.DeepEqual(comparableFields(a), comparableFields(b))
}

// normalize returns a value as decoded JSON, with its namespace replaced.
func normalize(v any, namespace string) (out map[string]any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal([]byte(strings.ReplaceAll(string(text), namespace, "NAMESPACE")), &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// differences lists the paths at which two values differ.
func differences(path string, ours, helms any) (out []string) {
	a, isMap := ours.(map[string]any)
	b, both := helms.(map[string]any)
	if !isMap || !both {
		if !reflect.DeepEqual(ours, helms) {
			out = append(out, fmt.Sprintf("%s: %s, with helm %s", path, brief(ours), brief(helms)))
		}
		return out
	}
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		x, has := a[key]
		y, hasToo := b[key]
		switch {
		case !has:
			out = append(out, fmt.Sprintf("%s.%s: nothing, with helm %s", path, key, brief(y)))
		case !hasToo:
			out = append(out, fmt.Sprintf("%s.%s: %s, with helm nothing", path, key, brief(x)))
		default:
			out = append(out, differences(path+"."+key, x, y)...)
		}
	}
	return out
}

func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.300s", text)
}

// deployed reports whether a revision is deployed.
func (s releaseState) deployed() bool {
	return slices.ContainsFunc(s.records, func(r releaseRecord) bool { return r.Info.Status == "deployed" })
}

// hasObject reports whether the manifest of a revision has an object.
func (r releaseRecord) hasObject(id string) bool { return r.object(id) != "" }

// object returns the object's part of the manifest of a revision, "" if there is none.
func (r releaseRecord) object(id string) string {
	kind, name, _ := strings.Cut(id, "/")
	for doc := range strings.SplitSeq("\n"+r.Manifest, "\n---\n") {
		if strings.Contains("\n"+doc+"\n", "\nkind: "+kind+"\n") && strings.Contains(doc+"\n", "\n  name: "+name+"\n") {
			return doc
		}
	}
	return ""
}

const keepPolicy = "helm.sh/resource-policy"

// inFailedRevision reports whether a failed revision, or one before it, has the object.
func inFailedRevision(records []releaseRecord, id string) bool {
	hadObject := false
	for _, r := range records {
		hadObject = hadObject || r.hasObject(id)
		if hadObject && r.Info.Status == "failed" {
			return true
		}
	}
	return false
}

// leftBehind reports whether an object is one that a deployed revision left behind with helm.sh/resource-policy: keep, and that
// only failed revisions have had since. lockstep keeps it when it undoes these, and restores the policy; Helm deletes it.
func (s releaseState) leftBehind(id string) bool {
	keeps, left, again := false, false, false
	for _, r := range s.records {
		doc := r.object(id)
		switch {
		case r.Info.Status == "failed":
			again = again || left && doc != ""
		case doc != "":
			keeps, left, again = strings.Contains(doc, keepPolicy+": keep"), false, false
		default:
			left = keeps
		}
	}
	o := s.objects[id]
	return again && o.GetAnnotations()[keepPolicy] == "keep"
}
