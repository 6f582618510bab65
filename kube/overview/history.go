package overview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/mask"
	"lockstep/kube/preview"
	"lockstep/kube/release"
)

// History is the revisions of a release. Secret values are hidden in all that it returns.
type History struct {
	releases []*rel1.Release // oldest first
	objects  map[int]map[plan.Object]*unstructured.Unstructured
	order    map[int][]plan.Object
	mask     *mask.Mask
}

// Revision is a revision of a release.
type Revision struct {
	Number  int
	Status  string
	Changed time.Time
	Details
	Description string
	// RollbackTo is the revision that a rollback restored, 0 if it was none.
	RollbackTo int
	// What says what the revision changed, compared with the one before: "values, objects: 1 added, 3 changed"; "" for nothing.
	What string
}

// valuesKind stands for the values in the changes of a History. No kind of Kubernetes begins with a small letter.
const valuesKind = "values"

// ReadHistory reads the revisions of a release.
func ReadHistory(ctx context.Context, c *connect.Client, k Key) (*History, error) {
	bound, err := c.Bind(ctx, &connect.Writes{})
	if err != nil {
		return nil, err
	}
	helm, err := bound.Helm(k.Namespace)
	if err != nil {
		return nil, err
	}
	h := &History{objects: map[int]map[plan.Object]*unstructured.Unstructured{}, order: map[int][]plan.Object{}, mask: &mask.Mask{}}
	all, err := release.MustExist(release.Read(helm.Config.Releases, k.Name))
	if err != nil {
		return nil, fmt.Errorf("read the revisions of release %s in namespace %s: %w", k.Name, k.Namespace, err)
	}
	h.releases = all.All
	for _, rel := range h.releases {
		release.Hide(h.mask, rel)
		h.objects[rel.Version], h.order[rel.Version] = objectsOf(rel)
	}
	return h, nil
}

// objectsOf returns the objects in the manifest of a release, also in their order.
func objectsOf(rel *rel1.Release) (objects map[plan.Object]*unstructured.Unstructured, order []plan.Object) {
	objects = map[plan.Object]*unstructured.Unstructured{}
	docs, _, err := charts.ParseManifestWith(nil, rel.Manifest, "")
	if err != nil {
		return objects, nil // shown as a revision without objects
	}
	for _, d := range docs {
		gvk := d.Object.GroupVersionKind()
		o := plan.Object{Group: gvk.Group, Kind: gvk.Kind, Namespace: d.Object.GetNamespace(), Name: d.Object.GetName()}
		objects[o] = d.Object
		order = append(order, o)
	}
	return objects, order
}

// Revisions returns the revisions, the newest first.
func (h *History) Revisions() (all []Revision) {
	for i, rel := range slices.Backward(h.releases) {
		d := &details{}
		d.describe(rel)
		r := Revision{Number: rel.Version, Details: d.Details}
		if rel.Info != nil {
			r.Status, r.Changed, r.Description = rel.Info.Status.String(), rel.Info.LastDeployed, h.mask.Text(rel.Info.Description)
			r.RollbackTo = release.RollbackTo(rel)
		}
		if i > 0 {
			r.What = summarise(h.changes(h.releases[i-1], rel))
		}
		all = append(all, r)
	}
	return all
}

// summarise says what changed: "values, objects: 1 added, 3 changed".
func summarise(changes []inspect.Change) string {
	count := map[inspect.Action]int{}
	var values, objects []string
	for _, c := range changes {
		if c.Object.Kind == valuesKind {
			values = []string{"values"}
		} else {
			count[c.Action]++
		}
	}
	for _, word := range []struct {
		action inspect.Action
		past   string
	}{{inspect.Create, "added"}, {inspect.Modify, "changed"}, {inspect.Delete, "removed"}} {
		if n := count[word.action]; n > 0 {
			objects = append(objects, fmt.Sprintf("%d %s", n, word.past))
		}
	}
	if len(objects) > 0 {
		values = append(values, "objects: "+strings.Join(objects, ", "))
	}
	return strings.Join(values, ", ")
}

// Changes returns how one revision differs from another: the values, then the objects.
func (h *History) Changes(from, to int) ([]inspect.Change, error) {
	find := func(number int) (*rel1.Release, error) {
		i := slices.IndexFunc(h.releases, func(r *rel1.Release) bool { return r.Version == number })
		if i < 0 {
			return nil, fmt.Errorf("revision %d does not exist any more", number)
		}
		return h.releases[i], nil
	}
	a, err := find(from)
	if err != nil {
		return nil, err
	}
	b, err := find(to)
	if err != nil {
		return nil, err
	}
	changes := h.changes(a, b)
	for i := range changes {
		changes[i] = changes[i].Masked(h.mask.Diff)
	}
	return changes, nil
}

// changes compares two revisions. Only the values that are named like credentials are hidden in its result, and Secrets.
func (h *History) changes(a, b *rel1.Release) (changes []inspect.Change) {
	compare := func(o plan.Object, before, after *unstructured.Unstructured) {
		c := inspect.Change{Object: o, Action: inspect.Unchanged}
		switch {
		case before == nil:
			c.Action = inspect.Create
		case after == nil:
			c.Action = inspect.Delete
		default:
			if err := preview.Compare(&c, before, after); err != nil {
				c.Action, c.Message = inspect.Modify, err.Error()
			}
		}
		if c.Action != inspect.Unchanged {
			changes = append(changes, c)
		}
	}
	compare(plan.Object{Kind: valuesKind, Name: b.Name}, asObject(a.Config), asObject(b.Config))
	before, after := h.objects[a.Version], h.objects[b.Version]
	for _, o := range h.order[b.Version] {
		compare(o, before[o], after[o])
	}
	for _, o := range h.order[a.Version] {
		if after[o] == nil {
			compare(o, before[o], nil)
		}
	}
	return changes
}

// asObject returns values as an object to compare.
func asObject(values map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: maps.Clone(values)}
}
