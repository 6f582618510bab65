package operation

import (
	"iter"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/engine/plan"
	"lockstep/kube/documents"
	"lockstep/kube/mask"
)

// Manifests returns the objects of the plan as YAML: those of the manifest and hooks of the
// release, and removed ones from the old revision, without the namespace, crds/ and
// leftovers of other revisions. Secret values are masked. edits is the number of edits (R46)
// that led to the revision, 0 for the first. A revision that has not started has none.
func (op *Operation) Manifests(edits int) iter.Seq2[plan.Object, string] {
	return func(yield func(plan.Object, string) bool) {
		of := op.afterEdits(edits)
		if of == nil {
			return
		}
		for o, u := range of.planned(of.prepared.Target.Release, of.prepared.Old.Release) {
			mask.Object(u.Object, nil)
			text, err := documents.Write(u.Object)
			if err == nil && !yield(o, op.Mask().Text(of.Mask().Text(text))) {
				return
			}
		}
	}
}

// afterEdits returns the operation after the given number of edits, nil if there were fewer.
func (op *Operation) afterEdits(edits int) *Operation {
	op.mu.Lock()
	defer op.mu.Unlock()
	if edits >= len(op.revisions) {
		return nil
	}
	return op.revisions[edits]
}

// planned returns the objects of the plan, each from the first release that has it.
func (op *Operation) planned(releases ...*rel1.Release) iter.Seq2[plan.Object, *unstructured.Unstructured] {
	return func(yield func(plan.Object, *unstructured.Unstructured) bool) {
		planned := op.objects()
		for _, rel := range releases {
			for _, doc := range texts(rel) {
				_, doc = documents.CutSource(doc)
				u := &unstructured.Unstructured{}
				value, _ := op.prepared.Common.Reader().Object(doc)
				if u.Object, _ = value.(map[string]any); u.Object == nil {
					continue // it holds no object
				}
				o, ok := planned.find(u, op.prepared.Common.Namespace)
				if !ok {
					continue
				}
				if delete(planned, o); !yield(o, u) {
					return
				}
			}
		}
	}
}

// objects is the set of objects in a plan.
type objects map[plan.Object]bool

func (op *Operation) objects() objects {
	out := objects{}
	for _, p := range op.prepared.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				out[o] = true
			}
		}
	}
	return out
}

// find returns an object of a manifest as the plan has it: without a namespace if its kind
// is not namespaced.
func (planned objects) find(u *unstructured.Unstructured, namespace string) (plan.Object, bool) {
	o := plan.Object{Group: u.GroupVersionKind().Group, Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
	if o.Name == "" {
		o.Name = u.GetGenerateName()
	}
	if o.Namespace == "" {
		o.Namespace = namespace
	}
	if !planned[o] {
		o.Namespace = ""
	}
	return o, planned[o]
}

// texts returns the manifests of a release and its hooks.
func texts(rel *rel1.Release) []string {
	if rel == nil {
		return nil
	}
	docs := documents.Split(rel.Manifest)
	for _, h := range rel.Hooks {
		docs = append(docs, h.Manifest)
	}
	return docs
}
