package preview

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/status"
)

// previewUpdate previews the apply of an existing object.
func (s *objects) previewUpdate(ctx context.Context, c *change, i *resource.Info, live *unstructured.Unstructured) error {
	c.Action = inspect.Unchanged
	live, next, err := s.dryRunOn(ctx, c.kind, c.Object, i, live)
	refusal := preflight.RefusalOf(err)
	if diagnose.LacksPermission(err) || preflight.IsNoDryRun(err) || diagnose.NamesNoField(err) {
		if known := preflight.KnownRefusal(c.Object, s.deployed[c.Object], i); known != nil {
			err, refusal = known, known
		}
	}
	switch {
	case err == nil:
		err := s.compare(c, i, live, next)
		if isCRD := c.Object.GroupKind() == (plan.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}); isCRD && c.Action == inspect.Modify {
			c.Message = text.Join("; ", c.Message, preflight.CRDLosses(live, next))
		}
		if err == nil && c.Action == inspect.Unchanged && s.keepsChanges(ctx, c, i, live) {
			c.Message = text.Join("; ", c.Message, "somebody has changed fields that client-side apply keeps in custom resources; "+text.Program+" drift shows them")
		}
		return err
	case diagnose.LacksPermission(err) && s.deployed[c.Object] != nil:
		return s.compareManifests(c, i, noPatches)
	case preflight.IsNoDryRun(err) && s.deployed[c.Object] != nil:
		return s.compareManifests(c, i, webhookNoDryRun)
	case preflight.IsNoDryRun(err):
		c.Action, c.Message = inspect.Modify, "changes unknown: "+webhookNoDryRun
		return nil
	}
	if s.prepared.Resumes && len(diagnose.Immutable(err)) > 0 && status.HasFailed(live, s.builder.Fact(i).Rule) {
		c.Action, c.Message = inspect.Replace, preflight.FailedReplaced
		return nil
	}
	planned, named, why, readErr := preflight.Replacer{Client: s.client, Helm: s.helm, Prepared: s.prepared}.Plan(ctx, c.Object, i, err)
	switch {
	case readErr != nil:
		return readErr
	case why != "":
		c.Action, c.Message = inspect.Refuse, why
		return nil
	case named:
		return s.previewReplacement(c, i, planned)
	}
	if err = c.refuse(err); err == nil {
		c.refused, c.intends = refusal, inspect.Modify
	}
	return err
}

// keepsChanges reports whether an unchanged object is a custom resource in which client-side apply keeps what others have changed in
// fields of the chart, as Helm does: it compares only the manifests.
func (s *objects) keepsChanges(ctx context.Context, c *change, i *resource.Info, live *unstructured.Unstructured) bool {
	m := s.prepared.Target.Method
	if c.kind != event.PhaseApply || !m.ClientSide || m.Replace || m.MergeCustom || scheme.Scheme.Recognizes(i.Mapping.GroupVersionKind) {
		return false
	}
	m.MergeCustom = true
	merged, err := m.DryRun(ctx, s.helm, live, s.deployed[c.Object], i)
	if err != nil {
		return false
	}
	would := inspect.Change{Object: c.Object}
	return Compare(&would, live, merged) == nil && would.Action == inspect.Modify
}

// previewReplacement sets the change of an object that is replaced. Its fields are compared with the deployed manifest: no dry run
// has the new object.
func (s *objects) previewReplacement(c *change, i *resource.Info, planned cluster.Replacement) (err error) {
	if s.deployed[c.Object] != nil {
		err = s.compareRevisions(c, i)
	}
	c.Action, c.Message = inspect.Replace, planned.Message
	return err
}

// previewRemoval checks whether the object exists and may be deleted.
func (s *objects) previewRemoval(ctx context.Context, c *change) error {
	i, err := s.info(c.Object)
	if meta.IsNoMatchError(err) {
		c.Action = inspect.Absent
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
	live, err := s.live(ctx, i)
	switch {
	case apierrors.IsNotFound(err):
		c.Action = inspect.Absent
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", c.Object, err)
	}
	c.Action = inspect.Delete
	removal := cluster.Removal{Keep: s.prepared.Info.Name != "uninstall"}
	if left, found := s.prepared.Leftovers.Of(c.Phase); found {
		removal = left.Removal()
	}
	removal.Taken = cluster.NewTakenOver(s.prepared.Taken)
	c.Message = removal.WhyKept(s.builder.Scope(), s.prepared.Target.Claims, manifest.FactOf(c.Object, live))
	if c.Message == "" {
		c.Message, err = cluster.WhyInUse(ctx, s.client, s.builder.Scope(), s.prepared.Target.Claims, c.Object)
	}
	if c.Message == "" && s.prepared.Common.Provided.TakesOver(c.Object) {
		c.Message = "another release of this run takes it over first"
	}
	if c.Message != "" {
		c.Action = inspect.Keep
	}
	return err
}
