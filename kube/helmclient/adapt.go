package helmclient

import (
	"cmp"
	"context"
	"encoding/json"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
)

// Adapter adapts an update to the live object. A repair has one.
type Adapter interface {
	// Adapt adapts the object to send and its previous state.
	Adapt(ctx context.Context, o plan.Object, live, old, sent *unstructured.Unstructured)
	// Clear returns what must go from the live object because the API server refuses the adapted one as invalid, nil for nothing.
	Clear(ctx context.Context, o plan.Object, live, sent *unstructured.Unstructured) (*manifest.Cleared, error)
}

// adapted is an update of a live object by an Adapter.
type adapted struct {
	method      Method
	live        *unstructured.Unstructured
	old, target *resource.Info
}

// adapt adapts an update of a live object.
func (m Method) adapt(ctx context.Context, live *unstructured.Unstructured, old, target *resource.Info) adapted {
	copied := func(i *resource.Info) (*resource.Info, *unstructured.Unstructured) {
		next, u := *i, &unstructured.Unstructured{}
		if object, ok := i.Object.(*unstructured.Unstructured); ok {
			u = object.DeepCopy()
		}
		next.Object = u
		return &next, u
	}
	old, before := copied(cmp.Or(old, target))
	target, sent := copied(target)
	m.Adapter.Adapt(ctx, cluster.ObjectOf(target), live, before, sent)
	return adapted{m, live, old, target}
}

// clear asks for the obstacles to an update that the API server has refused, nil for none. Client-side apply then sends
// the differences between the live object and the cleared one.
func (a *adapted) clear(ctx context.Context) (*manifest.Cleared, error) {
	sent := a.target.Object.(*unstructured.Unstructured)
	cleared, err := a.method.Adapter.Clear(ctx, cluster.ObjectOf(a.target), a.live, sent)
	if cleared != nil && a.method.ClientSide {
		a.old.Object, a.target.Object = a.live, cleared.Next
	}
	return cleared, err
}

func (m Method) dryRunAdapted(ctx context.Context, helm *helmkube.Client, live *unstructured.Unstructured, old, target *resource.Info) (*unstructured.Unstructured, error) {
	a := m.adapt(ctx, live, old, target)
	next, refused := m.dryRun(helm, live, a.old, a.target)
	if !apierrors.IsInvalid(refused) {
		return next, refused
	}
	switch cleared, err := a.clear(ctx); {
	case err != nil:
		return nil, err
	case cleared == nil:
		return nil, refused
	case !m.ClientSide:
		return cleared.Answer, nil
	}
	return m.dryRun(helm, live, a.old, a.target)
}

// sendAdapted adapts an update to the live object and sends it. The request requires the version that it was adapted to. If the API
// server refuses the object as invalid because of fields of others, these go with the same request: server-side apply removes
// them once Helm owns them.
func (c *Client) sendAdapted(i, old *resource.Info, send func(i, old *resource.Info) error) error {
	f, m := c.builder().Fact(i), c.cfg.Options.Method
	if m.Adapter == nil || f == nil || f.Seen().Version == "" {
		return send(i, old)
	}
	objects := c.cfg.Session.Client.Dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace)
	live, err := objects.Get(c.cfg.Context, i.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	a := m.adapt(c.cfg.Context, live, old, i)
	require := func(version string) {
		i.Object = a.target.Object
		i.Object.(*unstructured.Unstructured).SetResourceVersion(version)
	}
	version := cmp.Or(a.target.Object.(*unstructured.Unstructured).GetResourceVersion(), live.GetResourceVersion())
	require(version)
	refused := send(i, a.old)
	if !apierrors.IsInvalid(refused) {
		return refused
	}
	cleared, err := a.clear(c.cfg.Context)
	if err != nil || cleared == nil {
		return cmp.Or(err, refused)
	}
	if !m.ClientSide {
		owners := manifest.GiveToHelm(live, cleared.Fields)
		if owners == nil {
			return refused
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "replace", "path": "/metadata/managedFields", "value": owners},
			{"op": "replace", "path": "/metadata/resourceVersion", "value": version},
		})
		if err != nil {
			return err
		}
		given, err := objects.Patch(c.cfg.Context, i.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: connect.FieldManager})
		if err != nil {
			return err
		}
		version = given.GetResourceVersion()
	}
	require(version)
	return send(i, a.old)
}
