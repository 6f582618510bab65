package manifest

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/status"
)

// WaitOutside returns how the run waits for an object outside the release: only the operator can say (R22b).
func (b *Builder) WaitOutside(o plan.Object) plan.Wait {
	return b.scope.Readiness.Wait(o, nil, plan.Wait{})
}

// Outside returns the objects outside the release that a group waits for: with their namespaces, and without those for which
// the operator does not wait (R22b).
func (b *Builder) Outside(objects []plan.Object) (out []plan.Object) {
	for _, o := range objects {
		if b.WaitOutside(o).Never {
			continue
		}
		if mapping, err := b.mappingOf(o, false); err == nil {
			if o.Namespace = cmp.Or(o.Namespace, b.scope.Namespace); mapping.Scope.Name() != meta.RESTScopeNameNamespace {
				o.Namespace = ""
			}
		}
		out = append(out, o)
	}
	return out
}

// WatchTarget returns how to watch an object from outside the release. The error is a NoMatch error if the cluster does not
// serve its kind.
func (b *Builder) WatchTarget(o plan.Object) (status.Target, error) {
	mapping, err := b.mappingOf(o, true)
	if err != nil {
		return status.Target{}, err
	}
	rule, err := b.scope.Readiness.RuleOf(o, nil, nil)
	if err != nil {
		return status.Target{}, err
	}
	rule.JobsComplete, rule.FirstStatus = true, b.HasStatus(mapping)
	return status.Target{Object: o, GVR: mapping.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace, Rule: rule}, nil
}

// mappingOf returns the API of an object's kind. With again it also asks the cluster if the kind is not known yet.
func (b *Builder) mappingOf(o plan.Object, again bool) (*meta.RESTMapping, error) {
	mapper, err := b.client.Getter.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}
	mapping, err := mapper.RESTMapping(kind)
	if again && meta.IsNoMatchError(err) {
		meta.MaybeResetRESTMapper(mapper)
		mapping, err = mapper.RESTMapping(kind)
	}
	return mapping, err
}
