package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/mask"
	"lockstep/kube/preflight"
)

// Outlook says what an operation will do, or has done, to one object at a time, as
// the cluster is now. It is for somebody who looks on: it asks for nothing before
// it is asked, takes at most two requests for an object (and once what kinds there
// are), writes nothing, and may be used by several goroutines.
type Outlook struct {
	client   *connect.Client
	prepared *preflight.Prepared

	mu     sync.Mutex
	making chan struct{} // closed when it is made, nil before anybody has asked
	made   *outlook
	err    error
	// late guards objects of kinds that the cluster learns while it runs.
	late sync.Mutex
}

// NewOutlook returns the outlook on an operation, of which no more counts than what
// it brings and what it removes objects of. It sends no request.
func NewOutlook(c *connect.Client, p *preflight.Prepared) *Outlook {
	return &Outlook{client: c, prepared: p}
}

// outlook is made at the first question; who asks meanwhile waits. Where that
// fails, the next question begins anew.
func (v *Outlook) outlook(ctx context.Context) (*outlook, error) {
	v.mu.Lock()
	if v.making == nil || v.err != nil {
		making := make(chan struct{})
		v.making, v.err = making, nil
		go func() {
			defer close(making)
			made, err := newOutlook(context.WithoutCancel(ctx), v.client, v.prepared)
			v.mu.Lock()
			defer v.mu.Unlock()
			v.made, v.err = made, err
		}()
	}
	making := v.making
	v.mu.Unlock()
	select {
	case <-making:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made, v.err
}

// Change says what the operation does to an object in a unit of a phase of a kind.
// What the API server answers stands in it; the error says that it could not be
// asked.
func (v *Outlook) Change(ctx context.Context, u event.Unit, kind event.PhaseKind, obj plan.Object) (Change, error) {
	c := Change{Phase: u.Phase, Group: u.Group, Object: obj}
	o, err := v.outlook(ctx)
	if err != nil {
		return c, err
	}
	if err := c.refuse(v.change(ctx, o, &c, kind)); err != nil {
		return c, err
	}
	changes := []Change{c}
	refuseWhat(v.prepared.Refused, changes)
	return changes[0], nil
}

func (v *Outlook) change(ctx context.Context, o *outlook, c *Change, kind event.PhaseKind) error {
	switch {
	case kind == event.PhaseNamespace, kind == event.PhaseRemove:
		return o.preview(ctx, c, kind)
	case o.isHook(c.Group, kind):
		c.Action, c.Message = ActionHook, o.hookMessage(c.Object)
		return nil
	}
	i, change, err := o.brought(c.Object, kind)
	if err != nil {
		return err
	}
	c.Action = ActionCreate
	if o.builder.Fact(i).Generated {
		c.Message = "with a new name each time"
		return nil
	}
	if later, err := v.place(o, i); later || err != nil {
		c.Action, c.Message = ActionLater, fmt.Sprintf("the cluster has no kind %s yet", c.Object.Kind)
		return err
	}
	live, err := o.live(ctx, i)
	if apierrors.IsNotFound(err) {
		return o.tryCreation(ctx, c, i)
	}
	return o.compare(ctx, c, i, live, err, change)
}

// place finds the API of an object of a kind that the cluster did not have (R29).
func (v *Outlook) place(o *outlook, i *resource.Info) (later bool, err error) {
	v.late.Lock()
	defer v.late.Unlock()
	f := o.builder.Fact(i)
	if !f.Late {
		return false, nil
	}
	switch err := o.builder.Resolve(i); {
	case meta.IsNoMatchError(errors.Unwrap(err)), meta.IsNoMatchError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("find the API of %s: %w", f.Resource.Object, err)
	}
	f.Late = false
	return false, nil
}

// tryCreation asks whether an object that is not there could be created now. What
// it is refused for may be there by the time its turn comes, unless it is what it
// is itself.
func (o *outlook) tryCreation(ctx context.Context, c *Change, i *resource.Info) error {
	_, err := o.try(ctx, i)
	var answer apierrors.APIStatus
	switch {
	case err == nil:
	case !errors.As(err, &answer):
		return err
	case diagnose.LacksRight(err):
		c.Message = mayNotTry
	case cannotTry(err):
		c.Message = tryless
	case apierrors.IsNotFound(err):
		c.Action, c.Message = ActionLater, diagnose.Explain(err).Error()
		if d := answer.Status().Details; d != nil && d.Kind == "namespaces" {
			c.Message = "there is no namespace " + d.Name + " yet"
		}
	case isMalformed(err) && !o.bringsKind(c.Object):
		return c.refuse(err)
	default:
		c.Message = "would be refused: " + diagnose.Explain(err).Error()
	}
	return nil
}

// hook finds a hook's object in its manifest.
func (o *outlook) hook(obj plan.Object) (*rel1.Hook, *resource.Info) {
	for _, h := range o.prepared.Target.Release.Hooks {
		if !strings.Contains(h.Manifest, obj.Name) {
			continue
		}
		list, _, err := o.builder.BuildTarget(h.Manifest)
		if err != nil {
			continue
		}
		for _, i := range list {
			found := o.builder.Fact(i).Resource.Object
			if found.Namespace = obj.Namespace; found == obj { // its scope may have been guessed
				o.builder.Forget(list)
				return h, i
			}
		}
		o.builder.Forget(list)
	}
	return nil, nil
}

// hookMessage says what a hook does to its object.
func (o *outlook) hookMessage(obj plan.Object) string {
	h, _ := o.hook(obj)
	if h != nil && (len(h.DeletePolicies) == 0 || slices.Contains(h.DeletePolicies, rel1.HookBeforeHookCreation)) { // the former is Helm's default
		return "recreated; the previous one is deleted first"
	}
	return "recreated"
}

// NothingSent is the error about an object that is not sent.
type NothingSent string

func (e NothingSent) Error() string { return string(e) }

// Sent is an object as it is sent, or was, as YAML with secret values hidden.
func (v *Outlook) Sent(ctx context.Context, u event.Unit, kind event.PhaseKind, obj plan.Object) (string, error) {
	o, err := v.outlook(ctx)
	if err != nil {
		return "", err
	}
	object, err := o.sent(u.Group, kind, obj)
	if err != nil {
		return "", err
	}
	mask.Object(object.Object, nil)
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}

func (o *outlook) sent(group string, kind event.PhaseKind, obj plan.Object) (*unstructured.Unstructured, error) {
	var i *resource.Info
	var err error
	switch {
	case kind == event.PhaseRemove:
		return nil, NothingSent("deleted")
	case kind == event.PhaseNamespace:
		var list []*resource.Info
		if list, _, err = o.builder.Build(preflight.NamespaceManifest(obj.Name)); err == nil {
			i = list[0]
		}
	case o.isHook(group, kind):
		if _, i = o.hook(obj); i == nil {
			err = fmt.Errorf("%s is not a hook of the release", obj)
		}
	default:
		i, _, err = o.brought(obj, kind)
	}
	if err != nil {
		return nil, err
	}
	u, err := objectOf(i)
	if err != nil {
		return nil, err
	}
	return u.DeepCopy(), nil
}
