package preflight

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
)

// checkTemplateCRDs warns about the objects that lose fields or become invalid when the operation applies a CRD of the chart's
// templates that has less than the one in the cluster (R29a). Like Helm, the operation applies it nevertheless.
func (v *clusterView) checkTemplateCRDs(incoming Incoming) []plan.Warning {
	b := incoming.Builder
	if b == nil {
		return nil
	}
	existing := incoming.List.Filter(func(i *resource.Info) bool {
		f := b.Fact(i)
		return f != nil && f.Resource.Object.GroupKind() == plan.GroupKind(crdKind) && f.Before().Version != ""
	})
	return checkAll(existing, func(i *resource.Info) []plan.Warning {
		live, err := v.Client.Dynamic.Resource(crdResource).Get(v.Context, i.Name, metav1.GetOptions{})
		next, ok := i.Object.(*unstructured.Unstructured)
		if v.recordFailure(err, crdResource.GroupResource().String(), "") || !ok || CRDLosses(live, next) == "" {
			return nil
		}
		o := b.Fact(i).Resource.Object
		if conflict, warning := tryObjects(v.Session, live, next); conflict+warning != "" {
			return []plan.Warning{crdWarning(o, "%s: %s", o, conflict+warning)}
		}
		return nil
	})
}
