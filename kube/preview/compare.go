package preview

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/kube/preflight"
	"lockstep/kube/status"
)

// compare sets the change from the result of a dry run.
func (s *objects) compare(c *change, i *resource.Info, live, next *unstructured.Unstructured) error {
	c.live, c.next = live, next
	if err := Compare(&c.Change, live, next); err != nil || c.Action == inspect.Modify {
		return err
	}
	switch { // an object may change although no field differs
	case s.prepared.Resumes && status.HasFailed(live, s.builder.Fact(i).Rule):
		c.Action, c.Message = inspect.Replace, preflight.FailedReplaced
	case !isSameState(live, next):
		c.Action, c.Message = inspect.Modify, "only the owners of its fields change"
	}
	return nil
}

// isSameState reports whether two states of an object differ at most in the generation, and in the times and the order of their field
// managers. The API server counts a generation, too, when it stores another form of the same, such as an empty list that its answers
// leave out, and orders the managers by their times.
func isSameState(live, next *unstructured.Unstructured) bool {
	return reflect.DeepEqual(live.Object, next.Object) || reflect.DeepEqual(timeless(live), timeless(next))
}

// timeless returns a copy of an object without what isSameState ignores.
func timeless(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion") // set by the dry run
	unstructured.RemoveNestedField(u.Object, "metadata", "generation")
	entries := u.GetManagedFields()
	for n := range entries {
		entries[n].Time = nil
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	u.SetManagedFields(entries)
	return u.Object
}

// Compare sets Diff and Fields of a change to the differences between two states of the object, and Action
// to Modify if there are any.
func Compare(c *inspect.Change, live, next *unstructured.Unstructured) (err error) {
	if c.Diff, c.Fields, err = compareObjects(live, next); err != nil {
		return fmt.Errorf("compare %s: %w", c.Object, err)
	}
	if c.Diff != "" {
		c.Action = inspect.Modify
	}
	return nil
}

// Why a preview does not compare the live object with a dry run.
const (
	noReads         = "this user may not read it"
	noPatches       = "this user may not patch it, which a dry run requires"
	noCreations     = "this user may not both create and patch it, which a dry run requires"
	webhookNoDryRun = "its webhook does not support dry runs"
)

// compareManifests compares an object with the deployed manifest instead of a dry run. It
// misses changes that were made in the cluster.
func (s *objects) compareManifests(c *change, i *resource.Info, why string) error {
	c.Action, c.Message = inspect.Unchanged, "compared with the last manifest, because "+why
	return s.compareRevisions(c, i)
}

// compareRevisions is Compare for the deployed manifest and the operation's.
func (s *objects) compareRevisions(c *change, i *resource.Info) error {
	before, err := asUnstructured(s.builder.Scope().Marked(s.deployed[c.Object]))
	if err != nil {
		return err
	}
	after, err := asUnstructured(i)
	if err != nil {
		return err
	}
	c.live, c.next = before, after
	return Compare(&c.Change, before, after)
}

// addRevisionFields sets the Fields of an object that is as the operation sends it to those that the operation changes, so
// that they can still be seen once it has applied the object.
func (s *objects) addRevisionFields(c *inspect.Change, kind event.PhaseKind) error {
	i := s.target[c.Object]
	if c.Action != inspect.Unchanged || kind != event.PhaseApply || i == nil || s.deployed[c.Object] == nil {
		return nil
	}
	compared := change{Change: inspect.Change{Object: c.Object}}
	err := s.compareRevisions(&compared, i)
	c.Fields = compared.Fields
	return err
}
