package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/mask"
	"lockstep/kube/preflight"
	"lockstep/kube/session"
)

// Previewer previews an operation one object at a time. It writes nothing and sends no request before
// the first call. It is safe for concurrent use.
type Previewer struct {
	client   *connect.Client
	prepared *session.Prepared

	opening singleflight.Group
	opened  atomic.Pointer[objects]
	// lateMu guards the Facts of objects whose kinds are defined while the operation runs.
	lateMu sync.Mutex
}

// NewPreviewer returns the previewer of a prepared operation. It sends no request.
func NewPreviewer(c *connect.Client, p *session.Prepared) *Previewer {
	return &Previewer{client: c, prepared: p}
}

// session opens the session on the first call. If that fails, the next call tries again.
func (v *Previewer) session(ctx context.Context) (*objects, error) {
	if s := v.opened.Load(); s != nil {
		return s, nil
	}
	result := v.opening.DoChan("", func() (any, error) {
		s, err := newObjects(context.WithoutCancel(ctx), v.client, v.prepared)
		if err == nil {
			v.opened.Store(s)
		}
		return s, err
	})
	select {
	case r := <-result:
		return v.opened.Load(), r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Change previews an object. If it is Unchanged, Fields are those that the operation changes, compared with the deployed
// manifest; if the operation creates it, all fields that it sends. A refusal by the API server is part of the Change; an error means that the
// cluster could not be read.
func (v *Previewer) Change(ctx context.Context, it inspect.Item) (inspect.Change, error) {
	s, c, err := v.change(ctx, it)
	if err != nil {
		return c.Change, err
	}
	if c.Action == inspect.Create {
		c.Fields, err = s.created(it)
		return c.Change, err
	}
	return c.Change, s.addRevisionFields(&c.Change, it.Kind)
}

// created returns an object that the operation creates as a change of all its fields.
func (s *objects) created(it inspect.Item) ([]inspect.Field, error) {
	object, err := s.sent(it.Group, it.Kind, it.Object)
	if err != nil {
		return nil, err
	}
	mask.Object(object.Object, nil)
	return []inspect.Field{{Lines: signed("+", object.Object)}}, nil
}

// change is Change without the fields of the manifest.
func (v *Previewer) change(ctx context.Context, it inspect.Item) (*objects, change, error) {
	changes := []change{{Change: inspect.Change{Phase: it.Phase, Group: it.Group, Object: it.Object}, kind: it.Kind}}
	c := &changes[0]
	s, err := v.session(ctx)
	if err != nil {
		return nil, *c, err
	}
	if err := c.refuse(s.preview(ctx, c, v)); err != nil {
		return nil, *c, err
	}
	if err := s.judge(ctx, changes, func(plan.Object) bool { return true }); err != nil {
		return nil, *c, err
	}
	markRefused(v.prepared.Conflicts, changes)
	return s, *c, nil
}

// resolve looks up the kind of an object again if it was missing (R29). later is set if it is still
// missing.
func (v *Previewer) resolve(s *objects, i *resource.Info) (later bool, err error) {
	v.lateMu.Lock()
	defer v.lateMu.Unlock()
	f := s.builder.Fact(i)
	if !f.Late {
		return false, nil
	}
	switch err := s.builder.Resolve(i); {
	case meta.IsNoMatchError(errors.Unwrap(err)), meta.IsNoMatchError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("find the API of %s: %w", f.Resource.Object, err)
	}
	f.Late = false
	return false, nil
}

// previewCreationNow is like previewCreation, but the message says what prevents the creation now.
func (s *objects) previewCreationNow(ctx context.Context, c *change, i *resource.Info) error {
	_, err := s.dryRun(ctx, c.kind, c.Object, i, nil)
	var answer apierrors.APIStatus
	switch {
	case err == nil:
	case !errors.As(err, &answer):
		return err
	case diagnose.LacksPermission(err):
		c.Message = noCreations
	case preflight.IsNoDryRun(err):
		c.Message = webhookNoDryRun
	case apierrors.IsNotFound(err):
		if d := answer.Status().Details; d != nil && d.Kind == "namespaces" { // nothing is in it
			c.Message = "namespace " + d.Name + " does not exist yet"
			break
		}
		c.Action, c.Message = inspect.Later, diagnose.Explain(err).Error()
	case isMalformed(err) && !s.definesKind(c.Object):
		return c.refuse(err)
	default:
		c.Message = "would be refused: " + diagnose.Explain(err).Error()
	}
	return nil
}

// hook returns the hook that contains an object, and the object as the operation sends it; nil if there is none.
func (s *objects) hook(obj plan.Object) (*rel1.Hook, *resource.Info) {
	for _, h := range s.prepared.Target.Release.Hooks {
		if !strings.Contains(h.Manifest, obj.Name) {
			continue
		}
		list, _, err := s.builder.BuildTarget(h.Manifest)
		if err != nil {
			continue
		}
		at := slices.IndexFunc(list, func(i *resource.Info) bool {
			found := s.builder.Fact(i).Resource.Object
			found.Namespace = obj.Namespace // the scope of its kind may be unknown
			return found == obj
		})
		s.builder.Forget(list)
		if at >= 0 {
			return h, list[at]
		}
	}
	return nil, nil
}

func (s *objects) hookMessage(obj plan.Object) string {
	h, _ := s.hook(obj)
	if h != nil && (len(h.DeletePolicies) == 0 || slices.Contains(h.DeletePolicies, rel1.HookBeforeHookCreation)) { // the default
		return "any previous " + obj.Kind + " is deleted first"
	}
	return ""
}

// Sent returns an object as the operation sends it, as YAML with hidden secret values. The error may
// be an inspect.Unavailable.
func (v *Previewer) Sent(ctx context.Context, it inspect.Item) (string, error) {
	s, err := v.session(ctx)
	if err != nil {
		return "", err
	}
	object, err := s.sent(it.Group, it.Kind, it.Object)
	if err != nil {
		return "", err
	}
	if adapter, i := v.prepared.Target.Adapter, s.target[it.Object]; adapter != nil && i != nil && it.Kind == event.PhaseApply {
		if live, err := s.read(ctx, i); err == nil {
			adapter.Adapt(ctx, it.Object, live, object.DeepCopy(), object)
		}
	}
	mask.Object(object.Object, nil)
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}

func (s *objects) sent(group string, kind event.PhaseKind, obj plan.Object) (*unstructured.Unstructured, error) {
	var i *resource.Info
	var err error
	switch {
	case kind == event.PhaseRemove:
		return nil, inspect.Unavailable("deleted")
	case kind == event.PhaseNamespace && s.target[obj] == nil:
		var list []*resource.Info
		if list, _, err = s.builder.Build(session.DefaultNamespace(obj.Name)); err == nil {
			i = list[0]
			s.builder.Forget(list)
		}
	case s.isHook(group, kind):
		if _, i = s.hook(obj); i == nil {
			err = fmt.Errorf("%s is not a hook of the release", obj)
		}
	default:
		i, _, err = s.planned(obj, kind)
	}
	if err != nil {
		return nil, err
	}
	u, err := asUnstructured(i)
	if err != nil {
		return nil, err
	}
	return u.DeepCopy(), nil
}
