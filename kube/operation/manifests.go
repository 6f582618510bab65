package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/documents"
	"lockstep/kube/mask"
	"lockstep/kube/permissions"
	"lockstep/kube/preflight"
	"lockstep/kube/preview"
)

// Manifests returns the objects of the plan as YAML: those in the manifest and hooks of the target, and those that are
// removed from the old revision. It omits the namespace, crds/ and leftovers of other revisions. Secret values are
// masked. edits is the number of edits (R46) that led to the revision, 0 for the first revision. If the last of these
// edits has not started, there are no objects.
func (op *Operation) Manifests(edits int) iter.Seq2[plan.Object, string] {
	return func(yield func(plan.Object, string) bool) {
		revision := op.afterEdits(edits)
		if revision == nil {
			return
		}
		for o, u := range revision.objects(revision.prepared.Target.Release, revision.prepared.Old.Release) {
			mask.Object(u.Object, nil)
			text, err := documents.Write(u.Object)
			if err == nil && !yield(o, op.Mask().Text(text)) {
				return
			}
		}
	}
}

// afterEdits returns the operation after a number of edits, nil if there were fewer.
func (op *Operation) afterEdits(edits int) *Operation {
	op.mu.Lock()
	defer op.mu.Unlock()
	if edits >= len(op.revisions) {
		return nil
	}
	return op.revisions[edits]
}

// objects returns the objects of the plan, each from the first release that has it.
func (op *Operation) objects(releases ...*rel1.Release) iter.Seq2[plan.Object, *unstructured.Unstructured] {
	return func(yield func(plan.Object, *unstructured.Unstructured) bool) {
		remaining := map[plan.Object]bool{} // objects of the plan that have not been yielded yet
		for _, o := range event.Objects(op.prepared.Phases) {
			remaining[o] = true
		}
		for _, rel := range releases {
			for _, doc := range manifests(rel) {
				_, doc = documents.CutSource(doc)
				u := &unstructured.Unstructured{}
				value, _ := op.prepared.Common.Reader().Parse(doc)
				u.Object, _ = value.(map[string]any)
				if u.Object == nil {
					continue // the document has no object
				}
				o := plan.Object{
					Group: u.GroupVersionKind().Group, Kind: u.GetKind(),
					Namespace: cmp.Or(u.GetNamespace(), op.prepared.Common.Namespace), Name: cmp.Or(u.GetName(), u.GetGenerateName()),
				}
				if !remaining[o] { // its kind may be cluster-scoped
					o.Namespace = ""
				}
				if !remaining[o] {
					continue
				}
				delete(remaining, o)
				if !yield(o, u) {
					return
				}
			}
		}
	}
}

// manifests returns the documents of a release and its hooks. rel may be nil.
func manifests(rel *rel1.Release) []string {
	if rel == nil {
		return nil
	}
	docs := documents.Split(rel.Manifest)
	for _, h := range rel.Hooks {
		docs = append(docs, h.Manifest)
	}
	return docs
}

// AddPermissions adds to roles the permissions to install, upgrade, roll back, test and uninstall the release, for the
// objects of the plan and of the old revision.
func (op *Operation) AddPermissions(roles *permissions.Roles) error {
	mapper, err := op.client.Getter.ToRESTMapper()
	if err != nil {
		return err
	}
	docs, err := op.documents()
	if err != nil {
		return fmt.Errorf("release %s: %w", op.prepared.Common.Release, err)
	}
	t, c := op.prepared.Target, op.prepared.Common
	r := permissions.Release{
		Name: c.Release, Namespace: c.Namespace, Driver: connect.StorageDriver(),
		ClientSide: t.ClientSide, Replace: t.Replace, CheckImages: c.ChecksImages(), Lookups: t.Lookups, Resource: resourceFinder(mapper, docs),
	}
	for _, o := range c.Outside() {
		r.WaitFor = append(r.WaitFor, charts.OutsideIn(o, c.Namespace))
	}
	for _, phase := range []event.PhaseKind{event.PhaseCRDs, event.PhaseHooks, event.PhaseApply} {
		for n, res := range charts.Resources(docs[phase], c.Namespace, scopeOf(mapper, docs)) {
			o := permissions.Object{Object: res.Object, Fields: docs[phase][n].Object.Object, Phase: phase}
			if phase == event.PhaseApply {
				r.WaitFor = append(r.WaitFor, res.WaitFor...)
			}
			if docs[phase][n].Object.GetName() == "" {
				o.Name = ""
			}
			r.Objects = append(r.Objects, o)
		}
	}
	roles.Add(r, t.NewNamespace)
	return nil
}

// documents returns the objects of the target and of the old revision by phase.
func (op *Operation) documents() (map[event.PhaseKind][]charts.Document, error) {
	docs := map[event.PhaseKind][]charts.Document{}
	t := op.prepared.Target
	for _, rel := range []*rel1.Release{t.Release, op.prepared.Old.Release} {
		if rel == nil {
			continue
		}
		found, _, err := charts.ParseManifestWith(op.prepared.Common.Reader(), rel.Manifest, t.Root())
		if err != nil {
			return nil, err
		}
		docs[event.PhaseApply] = append(docs[event.PhaseApply], found...)
		for _, h := range rel.Hooks {
			found, _, err := charts.ParseManifestWith(op.prepared.Common.Reader(), h.Manifest, t.Root())
			if err != nil {
				return nil, err
			}
			docs[event.PhaseHooks] = append(docs[event.PhaseHooks], found...)
		}
	}
	if op.prepared.Info.Name == "install" {
		docs[event.PhaseCRDs] = t.CRDs.Docs // none with --skip-crds
		return docs, nil
	}
	crds, err := charts.RenderedCRDs(t.Release)
	docs[event.PhaseCRDs] = crds
	return docs, err
}

// scopeOf returns a function that reports whether a kind is namespaced. It looks the kind up in the cluster, then in the
// CRDs of the documents.
func scopeOf(mapper meta.RESTMapper, docs map[event.PhaseKind][]charts.Document) charts.Scope {
	offline := charts.OfflineScope(slices.Concat(docs[event.PhaseCRDs], docs[event.PhaseHooks], docs[event.PhaseApply])...)
	return func(kind schema.GroupVersionKind) bool {
		if m, err := mapper.RESTMapping(kind.GroupKind()); err == nil {
			return m.Scope.Name() == meta.RESTScopeNameNamespace
		}
		return offline(kind)
	}
}

// resourceFinder returns a function that finds the resource of a kind. It looks the kind up in the cluster, then in the
// CRDs of the documents. If neither has it, it guesses the plural.
func resourceFinder(mapper meta.RESTMapper, docs map[event.PhaseKind][]charts.Document) func(schema.GroupKind) schema.GroupResource {
	defined := map[schema.GroupKind]schema.GroupResource{}
	for _, list := range docs {
		for _, d := range list {
			group, _, _ := unstructured.NestedString(d.Object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(d.Object.Object, "spec", "names", "kind")
			plural, _, _ := unstructured.NestedString(d.Object.Object, "spec", "names", "plural")
			defined[schema.GroupKind{Group: group, Kind: kind}] = schema.GroupResource{Group: group, Resource: plural}
		}
	}
	return func(kind schema.GroupKind) schema.GroupResource {
		if r, ok := preflight.ResourceOf(mapper, kind); ok {
			return r
		}
		if r := defined[kind]; r.Resource != "" {
			return r
		}
		plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
		return plural.GroupResource()
	}
}

// previewers preview the objects of the operation and of its rollback.
type previewers struct {
	main     *preview.Previewer // nil until the first preview
	rollback *preview.Previewer // nil until the rollback starts
}

// previewer returns the previewer for a unit.
func (op *Operation) previewer(u event.Unit) (*preview.Previewer, error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if event.IsRollback(u.Phase) {
		if op.previewers.rollback == nil {
			return nil, errors.New("the rollback is not planned until it starts")
		}
		return op.previewers.rollback, nil
	}
	if op.previewers.main == nil {
		op.previewers.main = preview.NewPreviewer(op.client, op.running.prepared)
	}
	return op.previewers.main, nil
}

// Change returns the change that Run makes to an object. It sends two requests at most, or a few more if
// the object changes meanwhile, and writes nothing. It may be called before, during and after Run.
func (op *Operation) Change(ctx context.Context, it inspect.Item) (inspect.Change, error) {
	p, err := op.previewer(it.Unit)
	if err != nil {
		return inspect.Change{}, err
	}
	c, err := p.Change(ctx, it)
	return c.Masked(op.Mask().Diff), op.Mask().Error(err)
}

// Sent returns an object as Run sends it, as YAML with secret values masked. The error is an
// inspect.Unavailable if the object is only deleted.
func (op *Operation) Sent(ctx context.Context, it inspect.Item) (string, error) {
	p, err := op.previewer(it.Unit)
	if err != nil {
		return "", err
	}
	text, err := p.Sent(ctx, it)
	return op.Mask().Text(text), op.Mask().Error(err)
}

// displayName returns the name that the plan gives the object of a request. If the plan does not have the object, it
// returns the resource and the name.
func (op *Operation) displayName(t connect.Target) string {
	for _, o := range event.Objects(op.Phases()) {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: o.Kind})
		if plural.Resource == t.Resource && o.Group == t.Group && o.Namespace == t.Namespace && o.Name == t.Name {
			return o.String()
		}
	}
	return text.Join(" ", t.Resource, t.Name)
}
