package cluster

import (
	"context"
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/manifest"
)

// Observation is the run.Cluster of a stage whose objects are already applied. It sends nothing.
type Observation struct{ *Target }

// NewObservation returns an Observation of a list.
func NewObservation(s Session, list helmkube.ResourceList) Observation {
	t := NewApply(s, list, func(*resource.Info) error { return nil }, nil)
	t.observes = true
	return Observation{t}
}

// Watch observes the objects of a group. A Job that the cluster has deleted after it finished counts as ready.
func (t Observation) Watch(ctx context.Context, g *plan.Group, report func(run.Observation)) {
	t.Target.Watch(ctx, g, func(ob run.Observation) {
		if ob.Status == event.Gone && t.expiring[ob.Object] != nil {
			ob.Status, ob.Message, ob.ReadyBy = event.Ready, "deleted by the cluster after it finished", event.ByBuiltIn
		}
		report(ob)
	})
}

// Apply does nothing: the object is unchanged. If its kind was late, it starts to watch it.
func (t Observation) Apply(_ context.Context, _ *plan.Group, o plan.Object) (run.Response, error) {
	if i := t.infos[o]; i != nil && t.session.Builder.Fact(i).Late {
		if err := t.session.Builder.Resolve(i); err != nil {
			return run.Response{}, fmt.Errorf("look up the kind of %s: %w", o, err)
		}
		t.session.Builder.Fact(i).Late = false
		t.startDeferred(o, i)
	}
	return run.Response{Change: event.Unchanged}, nil
}

// autoscaler is the manager of the fields that a HorizontalPodAutoscaler sets.
const autoscaler = "kube-controller-manager"

// driftOf returns a function that returns the fields of an object that others have changed since it was applied (S18), and its owner if
// that is another release, or gone because somebody has deleted the object and created it again.
func driftOf(i *resource.Info, f *manifest.Fact, scope manifest.Scope) func(*unstructured.Unstructured) []event.Drift {
	u, ok := i.Object.(*unstructured.Unstructured)
	if !ok {
		return func(*unstructured.Unstructured) []event.Drift { return nil }
	}
	recorded := manifest.AsStored(u)
	ignored, err := plan.ReadIgnoredDrift(f.Resource.Annotations)
	if err != nil {
		ignored = nil // the plan warns about it
	}
	return func(live *unstructured.Unstructured) (drift []event.Drift) {
		switch owner := manifest.OwnerOf(live); {
		case scope.OwnedByOther(owner):
			drift = append(drift, event.Drift{Field: manifest.OwnerField, Manager: owner})
		case owner == "" && !f.Rule.Hook && manifest.WrittenByHelm(live).IsZero() && len(live.GetManagedFields()) > 0:
			by := live.GetManagedFields()
			drift = append(drift, event.Drift{Field: manifest.OwnerField, Gone: true, Manager: by[0].Manager, At: manifest.LastWritten(by[:1])})
		}
		for _, d := range manifest.Taken(recorded, live) {
			if d.Manager != "" && d.Manager != autoscaler && !plan.InPointer(d.Pointer(), ignored) {
				drift = append(drift, d.Drift)
			}
		}
		return drift
	}
}
