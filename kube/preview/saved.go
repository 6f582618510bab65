package preview

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/planfile"
	"lockstep/kube/preflight"
	"lockstep/kube/session"
)

// Save returns the plan of an operation as a file with the given salt keeps it; options are those of the operation. To compare it with
// Common.SavedPlan, pass the salt of that. It writes nothing.
func Save(ctx context.Context, c *connect.Client, p *session.Prepared, options map[string]string, salt []byte) (out planfile.Release, err error) {
	ctx, cancel := p.Common.WithTimeout(ctx)
	defer cancel()
	s, err := newObjects(ctx, c, p)
	if err != nil {
		return out, err
	}
	changes, err := s.changes(ctx)
	if err != nil {
		return out, err
	}
	m := p.Common.Mask
	out = planfile.Release{Operation: p.Info, Options: options, Phases: p.Phases, Warnings: m.Warnings(p.Warnings)}
	out.Operation.Source = "" // a path of this machine
	if out.Cluster, err = clusterOf(ctx, c, p.Common.Namespace); err != nil {
		return out, err
	}
	if p.Last != nil {
		out.Last = p.Last.Version
	}
	if out.Chart, out.Values, err = digests(p, salt); err != nil {
		return out, err
	}
	out.Objects = make([]planfile.Object, len(changes))
	var digests errgroup.Group
	digests.SetLimit(runtime.GOMAXPROCS(0))
	for n, c := range changes {
		planned, err := s.state(c)
		if err != nil {
			return out, err
		}
		out.Images = append(out.Images, planned.Images...)
		digests.Go(func() (err error) {
			out.Objects[n], err = newObject(salt, planned, m, p.Common.SavedPlan.Object(planned.Change))
			return err
		})
	}
	if err := digests.Wait(); err != nil {
		return out, err
	}
	slices.Sort(out.Images)
	out.Images = slices.Compact(out.Images)
	if rel := p.Target.Release; rel != nil && rel.Chart != nil && out.Operation.ToRevision == 0 && out.Operation.Name != "uninstall" {
		out.Unstable = Unstable(rel.Chart)
	}
	return out, nil
}

// Shown returns what an operation changes now, for those who approve it. It has the salt of before, which is what was shown earlier,
// or the given one if before is nil. It writes nothing.
func Shown(ctx context.Context, c *connect.Client, p *session.Prepared, salt []byte, before *planfile.Shown) (*planfile.Shown, error) {
	ctx, cancel := p.Common.WithTimeout(ctx)
	defer cancel()
	s, err := newObjects(ctx, c, p)
	if err != nil {
		return nil, err
	}
	changes, err := s.changes(ctx)
	if err != nil {
		return nil, err
	}
	shown := &planfile.Shown{Salt: salt}
	if before != nil {
		shown.Salt = before.Salt
	}
	for _, c := range changes {
		if !c.Modifies() {
			continue
		}
		planned, err := s.state(c)
		if err != nil {
			return nil, err
		}
		planned.Sent = nil // it is in the digest of the plan
		o, err := newObject(shown.Salt, planned, p.Common.Mask, before.Object(planned.Change))
		if err != nil {
			return nil, err
		}
		shown.Objects = append(shown.Objects, planfile.Object{
			Change:  inspect.Change{Phase: c.Phase, Group: c.Group, Object: c.Object, Action: c.Action},
			Changed: o.Changed, SecretFields: o.SecretFields, SecretChanged: o.SecretChanged, Again: o.Again,
		})
	}
	return shown, nil
}

// newObject returns the digests of the plan for an object. approved is an earlier one, nil for none.
func newObject(salt []byte, planned planfile.Planned, m *mask.Mask, approved *planfile.Object) (planfile.Object, error) {
	planned.Change = planned.Masked(m.Diff)
	return planfile.NewObject(salt, planned, m.Text, approved)
}

// digests returns those of the chart's files and of the user's values.
func digests(p *session.Prepared, salt []byte) (chart, values string, err error) {
	rel := p.Target.Release
	if rel == nil || rel.Chart == nil {
		return "", "", nil
	}
	files, err := charts.FilesOf(rel.Chart)
	if err != nil {
		return "", "", err
	}
	text, err := json.Marshal(rel.Config)
	return planfile.Slow(salt, files), planfile.Slow(salt, text), err
}

// clusterOf returns what identifies the cluster in files (S10).
func clusterOf(ctx context.Context, c *connect.Client, namespace string) (out planfile.Cluster, err error) {
	signs, err := c.Signs(ctx)
	if err != nil {
		return out, err
	}
	sum := sha256.Sum256([]byte(signs.Server()))
	out.UID, out.Address = signs.UID(), hex.EncodeToString(sum[:12])
	switch ns, err := c.Clientset.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); {
	case err == nil:
		out.Namespace = string(ns.UID)
	case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return out, fmt.Errorf("find out which cluster it is: read namespace %s: %w", namespace, err)
	}
	return out, nil
}

// state returns a change with the fields that it is made of.
func (s *objects) state(c change) (out planfile.Planned, err error) {
	out.Change = c.Change
	out.Again = c.Action == inspect.Replace && c.Message == preflight.FailedReplaced
	sent, err := s.sent(c.Group, c.kind, c.Object)
	unavailable := inspect.Unavailable("")
	if err != nil && !errors.As(err, &unavailable) {
		return out, err
	}
	if sent != nil {
		out.Sent = fieldsOf(sent.Object)
		for _, image := range refs.Images(c.Object, sent.Object) {
			if m := s.prepared.Common.Mask; !image.Guess && m.Text(image.Name) == image.Name {
				out.Images = append(out.Images, image.Name)
			}
		}
	}
	if h, _ := s.hook(c.Object); s.isHook(c.Group, c.kind) && h != nil {
		out.Template = h.Path
	} else if i := s.target[c.Object]; i != nil {
		out.Template = s.builder.Fact(i).Resource.Source
	}
	if c.live == nil || c.next == nil || !c.Modifies() {
		return out, nil
	}
	out.Before, out.After = fieldsOf(normalized(c.live)), fieldsOf(normalized(c.next))
	for path, f := range out.Before {
		if reflect.DeepEqual(f, out.After[path]) {
			delete(out.Before, path)
			delete(out.After, path)
		}
	}
	return out, nil
}

// fieldsOf returns the fields of an object that have no parts. The elements of lists are called by the field that names them.
func fieldsOf(object map[string]any) planfile.Fields {
	masked := apiruntime.DeepCopyJSON(object)
	mask.Object(masked, nil)
	out := planfile.Fields{}
	addFields(out, "", object, masked, false)
	return out
}

// addFields adds the parts of a value. masked is the value with hidden secrets.
func addFields(out planfile.Fields, path string, value, masked any, secret bool) {
	switch v := value.(type) {
	case map[string]any:
		m, isMap := masked.(map[string]any)
		for key, e := range v {
			addFields(out, manifest.FieldPath(path, key), e, m[key], secret || !isMap)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		m, isList := masked.([]any)
		secret = secret || !isList || len(m) != len(v)
		name := nameField(v, v)
		var order []string
		for n, e := range v {
			id, hidden := fmt.Sprint(n), any(nil)
			if !secret {
				hidden = m[n]
			}
			if named, ok := e.(map[string]any); ok && name != "" {
				id = fmt.Sprint(named[name])
			}
			order = append(order, id)
			addFields(out, path+"["+id+"]", e, hidden, secret)
		}
		if len(v) > 0 {
			out[path+"[]"] = planfile.Field{Value: order, Secret: secret}
			return
		}
	}
	out[path] = planfile.Field{Value: value, Secret: secret || !reflect.DeepEqual(value, masked)}
}

// PlanCheck checks each group of a run against a saved plan before it starts.
type PlanCheck struct {
	previewer *Previewer
	common    session.Common

	mu       sync.Mutex
	attempts map[string]*attempt // by group
}

// attempt is an attempt to apply or delete the objects of a group.
type attempt struct {
	requested map[plan.Object]bool
	check     func() error
}

// NewPlanCheck returns the checks of the prepared operation, which follows Common.SavedPlan.
func NewPlanCheck(c *connect.Client, p *session.Prepared) *PlanCheck {
	return &PlanCheck{previewer: NewPreviewer(c, p), common: p.Common, attempts: map[string]*attempt{}}
}

// Check is called before each request about an object of a group. It returns a *planfile.NotAsPlanned if the operation would not
// do with the group what the plan says. removes says whether it deletes the group's objects. All requests of an attempt share a
// check; a second one for the same object is a retry (R44).
func (a *PlanCheck) Check(ctx context.Context, g *plan.Group, o plan.Object, removes bool) error {
	key := fmt.Sprint(removes, g.ID)
	a.mu.Lock()
	now := a.attempts[key]
	if now == nil || now.requested[o] {
		now = &attempt{requested: map[plan.Object]bool{}, check: sync.OnceValue(func() error { return a.check(ctx, g, removes) })}
		a.attempts[key] = now
	}
	now.requested[o] = true
	a.mu.Unlock()
	err := now.check()
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.attempts[key] == now { // the next request is one of a retry
			delete(a.attempts, key)
		}
	}
	return err
}

func (a *PlanCheck) check(ctx context.Context, g *plan.Group, removes bool) error {
	var unit event.Phase
	for _, p := range a.common.SavedPlan.Phases {
		if (p.Kind == event.PhaseRemove) == removes && slices.ContainsFunc(p.Groups, func(planned *plan.Group) bool { return planned.ID == g.ID }) {
			unit = p
		}
	}
	moved := make([][]inspect.Moved, len(g.Objects))
	var checks errgroup.Group
	checks.SetLimit(maxConcurrent)
	for n, o := range g.Objects {
		checks.Go(func() (err error) {
			moved[n], err = a.checkObject(ctx, inspect.Item{Unit: event.Unit{Phase: unit.Name, Group: g.ID}, Kind: unit.Kind, Object: o})
			return err
		})
	}
	if err := checks.Wait(); err != nil {
		return err
	}
	if all := slices.Concat(moved...); len(all) > 0 {
		return &planfile.NotAsPlanned{Group: g.ID, Moved: all}
	}
	return nil
}

func (a *PlanCheck) checkObject(ctx context.Context, it inspect.Item) ([]inspect.Moved, error) {
	was := a.common.SavedPlan.Object(inspect.Change{Phase: it.Unit.Phase, Group: it.Unit.Group, Object: it.Object})
	if was == nil {
		return []inspect.Moved{{What: inspect.MovedNew, Object: &it.Object}}, nil
	}
	s, c, err := a.previewer.change(ctx, it)
	if err != nil {
		return nil, err
	}
	planned, err := s.state(c)
	if err != nil {
		return nil, err
	}
	now, err := newObject(a.common.SavedPlan.Salt, planned, a.common.Mask, a.common.SavedPlan.Object(planned.Change))
	return was.Compare(now, true), err
}
