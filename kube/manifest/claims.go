package manifest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	helmkube "helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
)

// Seen is an object as it was when lockstep last read or wrote it. The next write requires that the object is still the
// same, because its owner may have changed since (R31a).
type Seen struct {
	Known   bool
	Version string // its resourceVersion, "" if it did not exist
	UID     types.UID
	Created time.Time
	Owner   string // in the form of OwnerOf
	Marks   Marks
	Applied bool // Helm manages some of its fields
	Keep    bool // it has helm.sh/resource-policy: keep
	Owners  []metav1.OwnerReference

	Generation int64
	Managed    []metav1.ManagedFieldsEntry

	Migrates bool // Helm changes its managed fields before a server-side apply
}

// SeenAs returns an object that has just been read.
func SeenAs(m metav1.Object) Seen {
	a := m.GetAnnotations()
	return Seen{
		Known: true, Version: m.GetResourceVersion(), UID: m.GetUID(), Created: m.GetCreationTimestamp().Time, Generation: m.GetGeneration(), Managed: m.GetManagedFields(),
		Owner: OwnerOf(m), Marks: marksOf(m), Applied: len(ownedByHelm(m)) > 0,
		Keep: charts.Keeps(a), Owners: m.GetOwnerReferences(), Migrates: updatedByHelm(m),
	}
}

// Seen returns the object as it was last seen.
func (f *Fact) Seen() Seen { return f.seen }

// Existed reports whether the object as it was last seen existed before the operation.
func (f *Fact) Existed() bool {
	return f.before.Version != "" && f.before.uid == f.seen.UID && !f.before.created
}

// see records the state of an object, nil if it does not exist.
func (f *Fact) see(m metav1.Object) {
	f.seen = Seen{Known: true}
	if m != nil {
		f.seen = SeenAs(m)
	}
	if !f.before.Known {
		f.before = Before{Known: true, Version: f.seen.Version, uid: f.seen.UID}
	}
}

// Require makes the next write of an object fail with a conflict unless the object is as it was last seen: absent, or at the
// same version. With uidOnly, the object only has to be the same one: its owner could then change between the last look and
// the write, as with Helm, but only for that moment.
func (f *Fact) Require(i *resource.Info, uidOnly bool) {
	u, ok := i.Object.(*unstructured.Unstructured)
	f.lastWrite.to = ""
	switch s := f.seen; {
	case !ok || !s.Known:
	case s.Version == "":
		u.SetResourceVersion(connect.NeverVersion)
	case uidOnly:
		u.SetResourceVersion("")
		u.SetUID(s.UID)
	default:
		u.SetResourceVersion(s.Version)
		f.lastWrite.to = s.Version
	}
}

// Preconditions returns the same requirement for a delete.
func (f *Fact) Preconditions(uidOnly bool) *metav1.Preconditions {
	p := &metav1.Preconditions{UID: &f.seen.UID}
	if !uidOnly {
		p.ResourceVersion = &f.seen.Version
	}
	return p
}

// recordWrite records the response to a write.
func (f *Fact) recordWrite(i *resource.Info) {
	if m, err := meta.Accessor(i.Object); err == nil {
		if f.see(m); !f.seen.Migrates { // only client-side apply needs them again, and they take much memory
			f.seen.Managed = nil
		}
	}
}

// Claims are the existing objects that a release may write to although they do not have its marks.
type Claims struct {
	// Take takes over the objects of others (--take-ownership). Advice says how, for errors.
	Take   bool
	Advice TakeAdvice
	// Brought reports whether a revision of the release has brought an object that exists. One with helm.sh/resource-policy:
	// keep may be what an older revision left behind: so only those since the last deployed one count for it. nil for unknown.
	Brought func(plan.Object, Seen) bool
	// GivenBack reports whether an object existed before a revision that failed took it over, and is its owner's again, or
	// nobody's: nothing is left over of it, even if it has the marks of the release, as before. nil for unknown.
	GivenBack func(plan.Object, Seen) bool
	// Unmarked are the objects of the deployed revision. They belong to the release even if they have lost its marks, see Owns.
	Unmarked map[plan.Object]bool
	// Planned are the UIDs of the target's objects among Unmarked when the operation was planned, "" for those that did not exist.
	Planned map[plan.Object]types.UID
	// MadeByHook reports whether a stored revision has a hook with the object; nil for none. Hooks is set if AdoptHooks.
	MadeByHook func(plan.Object) bool
	Hooks      bool
	Kept
	// Leave leaves existing objects unchanged, so it does not matter whose they are.
	Leave bool
	// Skip leaves the objects of others unchanged instead of failing, in a rollback after a failure: they were refused before
	// the run could change them.
	Skip bool
	// Checked means that another program, which uses Helm's actions, has checked the owners of the objects as they were.
	Checked bool
}

// Kept says which objects of the release removals keep.
type Kept struct {
	// CRDs are the names in crds/ of the target's chart, which removals keep: such a CRD is not gone from the chart if its
	// templates no longer have it, and all objects of its kind would be deleted with it.
	CRDs map[string]bool
	// Needed are the namespaces and CRDs that the target lacks although it has objects in them, see NeededBy. Removals keep them.
	Needed map[plan.Object]plan.Object
	// DeleteCRDs lets removals delete CRDs that have objects, with all of them (R31b).
	DeleteCRDs bool
}

// TakeAdvice says how to take over one object, and how several.
type TakeAdvice struct{ One, Many string }

// Owns reports whether an object, as it was last seen, is the release's: it has the marks of the release; or it is an object of
// the deployed revision, nobody has created it again since the plan, and it has no marks of anybody else. Writes and removals both ask
// this. The release is unknown in other programs that use Helm's actions.
func (c Claims) Owns(scope Scope, f *Fact) bool {
	s := f.seen
	if scope.Owner() == "" || s.Owner == scope.Owner() {
		return true
	}
	planned, known := c.Planned[f.Resource.Object] // before is read when the run starts, which may be long after the plan
	return c.Unmarked[f.Resource.Object] && s.UID == f.before.uid && (!known || s.UID == planned) && scope.Other(s) == ""
}

// PlannedFrom returns Claims.Planned for a target that has been read.
func (c Claims) PlannedFrom(b *Builder, list helmkube.ResourceList) map[plan.Object]types.UID {
	planned := map[plan.Object]types.UID{}
	for _, f := range b.facts(list) {
		if c.Unmarked[f.Resource.Object] && f.seen.Known && !f.Late {
			planned[f.Resource.Object] = f.seen.UID
		}
	}
	return planned
}

// Removes reports whether a removal may delete an object of the release (Owns). Without marks, it must have been applied with
// Helm: somebody else may have created it in place of the release's.
func (c Claims) Removes(scope Scope, f *Fact) bool {
	return c.Owns(scope, f) && (scope.Owner() == "" || f.seen.Owner != "" || f.seen.Applied)
}

// TakesOver reports whether a write to an object, as it was last seen, takes over what existed before: the object is not the
// release's, or it has the marks of the release although no revision has brought it.
func (c Claims) TakesOver(scope Scope, f *Fact) bool {
	s, o := f.seen, f.Resource.Object
	if s.Version == "" || !c.Owns(scope, f) {
		return s.Version != "" && (c.Take || c.adoptsHook(f))
	}
	return c.Brought != nil && f.Existed() && !c.Unmarked[o] && !c.Brought(o, s)
}

// InCRDs reports whether an object is a CRD in crds/ of the target's chart.
func (k Kept) InCRDs(o plan.Object) bool {
	return o.Kind == "CustomResourceDefinition" && k.CRDs[o.Name]
}

// NeededBy returns Kept.Needed of a target with the objects and hooks: the namespaces and CRDs that it needs and does not have, each
// with an object that would be deleted with it.
func NeededBy(b *Builder, list helmkube.ResourceList, hooks []*release.Hook) map[plan.Object]plan.Object {
	list = slices.Clone(list)
	for _, h := range hooks {
		more, _, _ := b.BuildTarget(h.Manifest) // the run reports a hook that cannot be read
		b.Forget(more)
		list = append(list, more...)
	}
	has, needed := map[plan.Object]bool{}, map[plan.Object]plan.Object{}
	for _, i := range list {
		kind := i.Mapping.GroupVersionKind
		o := plan.Object{Group: kind.Group, Kind: kind.Kind, Namespace: i.Namespace, Name: i.Name}
		has[o] = true
		if o.Namespace != "" {
			needed[plan.Object{Kind: "Namespace", Name: o.Namespace}] = o
		}
		needed[plan.Object{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: i.Mapping.Resource.GroupResource().String()}] = o
	}
	maps.DeleteFunc(needed, func(o, _ plan.Object) bool { return has[o] })
	return needed
}

// WhyNeeded returns why a removal keeps a namespace or a CRD in Needed, "" for other objects.
func (k Kept) WhyNeeded(o plan.Object) string {
	if by, needed := k.Needed[o]; needed {
		return fmt.Sprintf("the new revision does not have it, but it has %s, which would be deleted with it", by)
	}
	return ""
}

// Check returns a *NotOwned error if the release may not write to an object as it was last seen.
//
// Rule R31a: a run writes only to objects of its release, and refuses the others as Helm does.
func (c Claims) Check(scope Scope, f *Fact) error {
	s, o := f.seen, f.Resource.Object
	switch {
	case s.Version == "", c.Take, c.Leave, c.Owns(scope, f):
		return nil
	case s.Owner != "" && !(c.Checked && s.UID == f.before.uid):
	case f.Rule.Hook && (s.Marks.Hook != "" || o.Kind == "CustomResourceDefinition" || f.fromHookList()), f.Unlabelled && !f.Rule.Hook:
		return nil
	case s.UID == f.before.uid && c.Checked, c.adoptsHook(f):
		return nil
	}
	return &NotOwned{Object: o, Owner: scope.Other(s), Advice: c.Advice}
}

// fromHookList reports whether a hook of kind List has probably created an object: only the List has the annotation of a hook,
// so its objects show only that Helm applied them. A namespace is excluded, because --create-namespace creates one like that.
func (f *Fact) fromHookList() bool {
	return f.Resource.Annotations[release.HookAnnotation] == "" && f.seen.Owner == "" && f.seen.Applied && f.Resource.Object.Kind != "Namespace"
}

// FactOf returns a fact about an object that has just been read, nil if the object does not exist.
func FactOf(o plan.Object, live metav1.Object) *Fact {
	f := &Fact{Resource: plan.Resource{Object: o}}
	f.see(live)
	return f
}

// adoptsHook reports whether a hook of the release created the object, which is not a hook any more. Helm refuses it.
func (c Claims) adoptsHook(f *Fact) bool {
	return f.MadeByHook() && c.madeByHook(f)
}

// MadeByHook reports whether an object exists that some hook has created, and that is no object of a release.
func (f *Fact) MadeByHook() bool {
	return f.seen.Version != "" && f.seen.Marks.Hook != "" && f.seen.Owner == ""
}

// madeByHook reports whether a stored revision has a hook with the object.
func (c Claims) madeByHook(f *Fact) bool {
	return c.MadeByHook != nil && c.MadeByHook(f.Resource.Object)
}

// MadeByOthersHook reports whether an object exists that a hook has made, but none of a stored revision of the release.
func (c Claims) MadeByOthersHook(f *Fact) bool {
	return !c.Take && f.MadeByHook() && !c.madeByHook(f)
}

// AdoptHooks reports whether some objects of a list were created by hooks of the release.
func (c Claims) AdoptHooks(b *Builder, list helmkube.ResourceList) bool {
	return slices.ContainsFunc(b.facts(list), func(f *Fact) bool { return !f.Rule.Hook && c.adoptsHook(f) })
}

// NotOwned is the error about an existing object of another release, or of none.
type NotOwned struct {
	Object plan.Object
	Owner  string // "" for none
	Advice TakeAdvice
}

func (e *NotOwned) Error() string {
	place := PlaceOf(e.Object, "cluster scope")
	switch take := e.Advice.One; {
	case e.Owner == "" && take == "": // the operation has no such option
		return fmt.Sprintf("%s already exists (%s) and is not managed by Helm: delete it", e.Object, place)
	case e.Owner == "":
		return fmt.Sprintf("%s already exists (%s) and is not managed by Helm: delete it, or %s", e.Object, place, take)
	case take == "":
		return fmt.Sprintf("%s (%s) is owned by %s", e.Object, place, e.Owner)
	default:
		return fmt.Sprintf("%s (%s) is owned by %s: %s%s", e.Object, place, e.Owner, e.rename("rename it, or "), take)
	}
}

// Why returns the error without the object and its place.
func (e *NotOwned) Why() string {
	switch take := e.Advice.One; {
	case e.Owner == "" && take == "":
		return "it exists and is not managed by Helm: delete it"
	case e.Owner == "":
		return "it exists and is not managed by Helm: delete it, or " + take
	case take == "":
		return "owned by " + e.Owner
	default:
		return "owned by " + e.Owner + ": " + e.rename("rename it, or ") + take
	}
}

// Shared returns the error for several objects, without their names.
func (e *NotOwned) Shared() string {
	place := PlaceOf(e.Object, "cluster scope")
	if e.Owner == "" {
		return fmt.Sprintf("already exist in %s and are not managed by Helm: delete them, or %s", place, e.Advice.Many)
	}
	return fmt.Sprintf("in %s are owned by %s: %s%s", place, e.Owner, e.rename("rename them, or "), e.Advice.Many)
}

// rename returns the advice to rename an object, "" for a CRD, whose name is that of its API.
func (e *NotOwned) rename(advice string) string {
	if e.Object.Kind == "CustomResourceDefinition" {
		return ""
	}
	return advice
}

// PlaceOf describes the namespace of an object, or returns cluster if it has none.
func PlaceOf(o plan.Object, cluster string) string {
	if o.Namespace == "" {
		return cluster
	}
	return "namespace " + o.Namespace
}
