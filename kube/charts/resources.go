package charts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/status"
)

// Scope reports whether a kind is namespaced.
type Scope func(schema.GroupVersionKind) (namespaced bool)

// Resources returns the planner's view of the documents, in their order. Namespaced objects
// without a namespace get the one of the release.
func Resources(docs []Document, namespace string, namespaced Scope) []plan.Resource {
	resources := make([]plan.Resource, len(docs))
	for i, d := range docs {
		resources[i] = plan.Resource{
			Object: d.identity(namespace, namespaced), Chart: d.Chart, Source: d.Source,
			Annotations: annotations(d.Object), Labels: d.Object.GetLabels(), Defines: defines(d.Object), LoadBalancer: isLoadBalancer(d.Object),
			HeldBack: status.HeldBack(d.Object),
		}
		resources[i].Unprobed = refs.Unprobed(resources[i].Object, d.Object.Object)
		rule, err := status.ParseRule(resources[i].Annotations)
		if err != nil {
			resources[i].Faults = []plan.Fault{{Rule: "R24", Message: err.Error()}}
		}
		var faults []plan.Fault
		resources[i].Wait, faults = plan.ReadWait(resources[i].Annotations)
		resources[i].Wait.By = string(rule.Own(d.Object))
		resources[i].Faults = append(resources[i].Faults, faults...)
		resources[i].WaitFor, faults = plan.ReadWaitFor(resources[i].Annotations)
		resources[i].Faults = append(resources[i].Faults, faults...)
		for n, o := range resources[i].WaitFor {
			resources[i].WaitFor[n] = OutsideIn(o, namespace)
		}
	}
	return resources
}

// OutsideIn returns an object from outside the release with its namespace. Custom kinds count as namespaced.
func OutsideIn(o plan.Object, namespace string) plan.Object {
	if o.Namespace = cmp.Or(o.Namespace, namespace); clusterScoped[schema.GroupKind{Group: o.Group, Kind: o.Kind}] {
		o.Namespace = ""
	}
	return o
}

// Check returns an error for an object that no API server would accept: one without a name, or
// with a name, labels or annotations that are not strings.
func (d Document) Check() error {
	kind, name := d.Object.GetKind(), cmp.Or(d.Object.GetName(), d.Object.GetGenerateName())
	if name == "" {
		if v, _, _ := unstructured.NestedFieldNoCopy(d.Object.Object, "metadata", "name"); v != nil && v != "" {
			return fmt.Errorf("%s: %s: metadata.name must be a string, but YAML reads it as %v; quote it", d.Source, kind, v)
		}
		return fmt.Errorf("%s: %s has no name: set metadata.name or metadata.generateName", d.Source, kind)
	}
	for _, field := range []string{"labels", "annotations"} {
		// Rule R2a: null is accepted, as in Helm, but numbers and booleans are not.
		if _, _, err := unstructured.NestedNullCoercingStringMap(d.Object.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s: %s/%s: metadata.%s must contain strings; quote numbers and booleans: %w", d.Source, kind, name, field, err)
		}
	}
	return nil
}

// identity returns the identity of the document's object, as in Resources. An object without a
// name has its generateName instead, followed by "#2" for the second object with the
// same generateName.
func (d Document) identity(namespace string, namespaced Scope) plan.Object {
	gvk := d.Object.GroupVersionKind()
	o := plan.Object{Group: gvk.Group, Kind: gvk.Kind, Name: d.Object.GetName()}
	if o.Name == "" {
		o.Name = d.Object.GetGenerateName()
		if d.index > 0 {
			o.Name += fmt.Sprintf("#%d", d.index+1)
		}
	}
	if namespaced(gvk) {
		o.Namespace = cmp.Or(d.Object.GetNamespace(), namespace)
	}
	return o
}

// annotations returns the annotations of an object, and formats values that are not strings.
// GetAnnotations would return none if one value is not a string.
func annotations(u *unstructured.Unstructured) map[string]string {
	m, _, _ := unstructured.NestedMap(u.Object, "metadata", "annotations")
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			out[k] = ""
		case string:
			out[k] = v
		default:
			out[k] = fmt.Sprint(v)
		}
	}
	return out
}

// isLoadBalancer reports whether an object is a Service of type LoadBalancer.
func isLoadBalancer(u *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "type")
	return kind == "LoadBalancer" && u.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Service"}
}

// defines returns the kind that a CustomResourceDefinition defines (R17).
func defines(u *unstructured.Unstructured) plan.GroupKind {
	if u.GetKind() != "CustomResourceDefinition" || u.GroupVersionKind().Group != "apiextensions.k8s.io" {
		return plan.GroupKind{}
	}
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
	return plan.GroupKind{Group: group, Kind: kind}
}

// OfflineScope returns a Scope that needs no cluster. It knows the kinds of Kubernetes and
// those that the documents define, and assumes that others are namespaced.
func OfflineScope(docs ...Document) Scope {
	defined := map[plan.GroupKind]bool{}
	for _, d := range docs {
		if k := defines(d.Object); k.Kind != "" {
			scope, _, _ := unstructured.NestedString(d.Object.Object, "spec", "scope")
			defined[k] = scope != "Cluster"
		}
	}
	return func(gvk schema.GroupVersionKind) bool {
		if namespaced, ok := defined[plan.GroupKind{Group: gvk.Group, Kind: gvk.Kind}]; ok {
			return namespaced
		}
		return !clusterScoped[gvk.GroupKind()]
	}
}

// clusterScoped holds the cluster-scoped kinds of Kubernetes.
var clusterScoped = kinds(map[string][]string{
	"":                             {"Namespace", "Node", "PersistentVolume", "ComponentStatus"},
	"admissionregistration.k8s.io": {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"authentication.k8s.io":        {"SelfSubjectReview", "TokenReview"},
	"authorization.k8s.io":         {"SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"internal.apiserver.k8s.io":    {"StorageVersion"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"policy":                       {"PodSecurityPolicy"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "DeviceTaintRule", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
	"storagemigration.k8s.io":      {"StorageVersionMigration"},
})

func kinds(byGroup map[string][]string) map[schema.GroupKind]bool {
	set := map[schema.GroupKind]bool{}
	for group, kinds := range byGroup {
		for _, kind := range kinds {
			set[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return set
}

// UnnamedWaits notes the objects from outside the release for which groups wait (R22d) although nothing in the chart names them:
// their names may be wrong.
func (r *Rendered) UnnamedWaits(p *plan.Plan) (notes []plan.Finding) {
	for _, g := range p.Groups {
		for _, o := range g.WaitFor {
			if !r.names(o.Name) {
				notes = append(notes, plan.Finding{Severity: plan.SeverityInfo, Rule: "R22d", Chart: g.Chart, Message: fmt.Sprintf(
					"%s: group %q waits for %s, which no object of the chart names", g.Chart, g.Name, o)})
			}
		}
	}
	return notes
}

// names reports whether a text of an object or a hook contains a name, apart from the annotation that waits for it.
func (r *Rendered) names(name string) bool {
	for _, d := range r.Docs {
		set := maps.Clone(d.Object.GetAnnotations())
		delete(set, plan.AnnotationWaitFor)
		rest := maps.Clone(d.Object.Object)
		if meta, ok := rest["metadata"].(map[string]any); ok {
			meta = maps.Clone(meta)
			delete(meta, "annotations")
			rest["metadata"] = meta
		}
		if slices.ContainsFunc(slices.Collect(maps.Values(set)), func(v string) bool { return strings.Contains(v, name) }) || contains(rest, name) {
			return true
		}
	}
	for _, h := range r.Release.Hooks {
		if strings.Contains(h.Manifest, name) {
			return true
		}
	}
	return false
}

// contains reports whether a text in a value contains a name.
func contains(v any, name string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, name)
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return contains(item, name) })
	case map[string]any:
		for _, item := range v {
			if contains(item, name) {
				return true
			}
		}
	}
	return false
}
