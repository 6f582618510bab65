package operation

import (
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
)

// The orders that a chart may be deployed in.
//
// Rule R68: an inferred order is one of the plan and of the record alone.
const (
	OrderDeclared = "declared" // what its annotations say
	OrderInferred = "inferred" // also what its objects imply (R68)
)

// checkOrder refuses an unknown order, and an inferred one without --wait=ordered.
func (r *Rendering) checkOrder(c preflight.Common) error {
	switch r.Order {
	case "", OrderDeclared:
		return nil
	case OrderInferred:
		if c.Strategy() != helmclient.WaitOrdered {
			return fmt.Errorf("--order=inferred requires --wait=ordered, not --wait=%s", c.Wait)
		}
		return nil
	}
	return fmt.Errorf("--order=%s is unknown: use %s or %s", r.Order, OrderDeclared, OrderInferred)
}

// implied is the inferred order, nil if the declared one counts, with the tree to plan by
// and warnings.
func (r *Rendering) implied(c preflight.Common, tree *plan.Chart, rel *rel1.Release, b *manifest.Builder, list helmkube.ResourceList) (*infer.Order, *plan.Chart, []plan.Warning, error) {
	if r.Order != OrderInferred {
		return nil, tree, nil, nil
	}
	objects := charts.HookTexts(rel)
	for _, i := range list {
		f := b.Fact(i)
		if u, ok := i.Object.(*unstructured.Unstructured); ok && f != nil {
			objects = append(objects, infer.Object{Resource: f.Resource, Fields: u.Object})
		}
	}
	order := infer.From(c.Release, tree, objects)
	return order, order.Tree(tree), order.Warnings(), order.Check()
}
