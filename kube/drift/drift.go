// Package drift compares the records of releases with the cluster: what somebody has changed or deleted since Helm applied it
// (S18). It writes nothing. Find reads the records, Compare the objects; the result for a release is a Release. Packages kube
// and kube/operation import it.
package drift

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
)

// Release is a release that was compared with the cluster.
type Release struct {
	inspect.Drift
	// LeftOut are the objects that a repair cannot apply.
	LeftOut []LeftOut

	secrets *mask.Mask
	targets map[plan.Object]*target

	again recentReader
}

// Repairs reports whether a repair applies an object again: the cluster has it otherwise, or not at all.
func (r *Release) Repairs(o plan.Object) bool {
	return !r.leftOut(o) && slices.ContainsFunc(r.Objects, func(d inspect.DriftedObject) bool { return d.Object == o && d.Repairs() })
}

// Live returns an object that exists and differs, as the cluster has it.
func (r *Release) Live(o plan.Object) *unstructured.Unstructured {
	if t := r.targets[o]; t != nil && len(t.counted) > 0 {
		return t.live
	}
	return nil
}

// target is an object of a record.
type target struct {
	release *Release
	info    *resource.Info
	object  plan.Object
	scope   manifest.Scope
	ignored []string // JSON pointers
	live    *unstructured.Unstructured
	err     error // why it is unknown; also that there is none
	// counted are the fields that differ, and kept those whose differences do not count.
	counted, kept []manifest.Difference
	// changed are the fields that others have changed, and rewritten those that Helm itself has written differently from the
	// record; unsure is why these may be no drift.
	changed, rewritten []manifest.Difference
	unsure             error
}

// Compare compares deployed revisions with the cluster: their objects, or those of them that are chosen, nil for all. It reads each
// kind in a namespace with at most three requests, however many releases have objects there, and sends a dry run of each object of
// which it is not clear whether it differs. Secrets hides values in the result.
func Compare(ctx context.Context, c *connect.Client, secrets *mask.Mask, releases []*rel1.Release, chosen []plan.Object) ([]*Release, error) {
	r := newReader(ctx, c)
	out := make([]*Release, len(releases))
	var targets []*target
	for n, rel := range releases {
		out[n] = &Release{
			Drift:   inspect.Drift{Release: rel.Name, Namespace: rel.Namespace, Revision: rel.Version, Objects: []inspect.DriftedObject{}},
			secrets: secrets, targets: map[plan.Object]*target{},
		}
		found, err := targetsOf(c, out[n], rel)
		if err != nil {
			return nil, fmt.Errorf("release %s in namespace %s: read the manifest of revision %d: %w", rel.Name, rel.Namespace, rel.Version, err)
		}
		for _, t := range found {
			if chosen == nil || slices.Contains(chosen, t.object) {
				targets, out[n].targets[t.object] = append(targets, t), t
			}
		}
	}
	r.readAll(targets)
	r.confirm(targets)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the objects: %w", context.Cause(ctx))
	}
	for _, t := range targets {
		r.compare(t, secrets)
	}
	for _, rel := range out {
		rel.Warnings = secrets.Warnings(rel.Warnings)
	}
	return out, nil
}

// targetsOf returns the objects of a record, except those whose names the API server generates: nothing says which they are.
func targetsOf(c *connect.Client, r *Release, rel *rel1.Release) (targets []*target, err error) {
	helm, err := c.Helm(rel.Namespace)
	if err != nil {
		return nil, err
	}
	b := manifest.NewBuilder(c, helm, nil, manifest.Scope{Release: rel.Name, Namespace: rel.Namespace, Root: rel.Chart.Name()})
	list, _, err := b.BuildTarget(rel.Manifest)
	if err != nil {
		return nil, err
	}
	known := map[plan.Object]*target{}
	for _, i := range list {
		f := b.Fact(i)
		if f.Generated {
			continue
		}
		b.Scope().Mark(i)
		t := &target{release: r, info: i, object: f.Resource.Object, scope: b.Scope()}
		if f.Late {
			t.err = whyLate(b, i)
		}
		if t.ignored, err = plan.ReadIgnoredDrift(f.Resource.Annotations); err != nil {
			r.Warnings = append(r.Warnings, plan.Warning{Rule: "S18", Object: &t.object, Message: fmt.Sprintf("%s: %v", t.object, err)})
		}
		if earlier := known[t.object]; earlier != nil { // the last one in the manifest is applied (R13)
			*earlier = *t
			continue
		}
		known[t.object] = t
		targets, r.Compared = append(targets, t), append(r.Compared, t.object)
	}
	return targets, nil
}

// errNoKind is the error for an object whose kind the cluster does not have.
var errNoKind = errors.New("the cluster does not have its kind")

// whyLate returns why an object whose kind the cluster does not have, or only in other versions, cannot be compared. One that the
// cluster has in another version is not gone, and a repair could not send it.
func whyLate(b *manifest.Builder, i *resource.Info) error {
	recorded := i.Mapping.GroupVersionKind
	if err := b.ResolveStored(i); err != nil {
		return err
	}
	if b.Fact(i).Late {
		return errNoKind
	}
	return fmt.Errorf("version %s of %s is no longer served; upgrade the release to a chart that uses %s", recorded.Version, recorded.Kind, i.Mapping.GroupVersionKind.Version)
}

// compare adds the object to its release if the cluster has it otherwise, or if that is unknown.
func (r *reader) compare(t *target, secrets *mask.Mask) {
	o := inspect.DriftedObject{Object: t.object}
	switch {
	case t.err != nil && !apierrors.IsNotFound(t.err) && !errors.Is(t.err, errNoKind):
		o.Unread = secrets.Text(t.err.Error())
	case t.live == nil && cluster.Expires(t.info): // the cluster deletes it after it has finished
		return
	case t.live == nil:
		o.Gone = true
		if errors.Is(t.err, errNoKind) {
			o.Message = t.err.Error()
		}
	case t.live.GetDeletionTimestamp() != nil:
		o.Gone, o.Message = true, "is being deleted"
		if f := t.live.GetFinalizers(); len(f) > 0 {
			o.Message += "; waits for " + text.Named("finalizer", f)
		}
	default:
		if o.Fields = r.fields(t, secrets); len(o.Fields) == 0 {
			return
		}
		o.Owner = t.scope.Other(manifest.SeenAs(t.live))
	}
	t.release.Objects = append(t.release.Objects, o)
}

// divide divides the fields that the cluster has otherwise: what the chart ignores and the replicas that an autoscaler sets do not count.
func (r *reader) divide(t *target) {
	if t.unsure != nil {
		t.warnUnsure()
		t.rewritten = nil
	}
	for _, d := range append(t.changed, t.rewritten...) {
		if t.ignores(d) || d.Pointer() == "/spec/replicas" && r.isScaled(t) {
			t.kept = append(t.kept, d)
		} else {
			t.counted = append(t.counted, d)
		}
	}
}

// ignores reports whether the chart ignores a field, or the keys that an element of a list has lost.
func (t *target) ignores(d manifest.Difference) bool {
	ignored := func(d manifest.Difference) bool { return plan.InPointer(d.Pointer(), t.ignored) }
	return ignored(d) || len(d.Rekeyed) > 0 && !slices.ContainsFunc(d.Rekeyed, func(k manifest.Difference) bool { return !ignored(k) })
}

// fields returns the fields that the cluster has otherwise and that count.
func (r *reader) fields(t *target, secrets *mask.Mask) (fields []inspect.DriftedField) {
	sent, ok := t.info.Object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	recorded := manifest.AsStored(sent)
	if r.divide(t); len(t.counted) == 0 {
		return nil
	}
	secrets.AddObject(t.live.Object)
	shown := t.live.DeepCopy()
	mask.Object(shown.Object, recorded.Object)
	counted := t.counted
	for n := len(counted) - 1; n >= 0; n-- { // of an element with another key, the key
		if keys := counted[n].Rekeyed; len(keys) > 0 {
			counted = slices.Concat(counted[:n], keys, counted[n+1:])
		}
	}
	for _, d := range counted {
		f := inspect.DriftedField{Drift: d.Drift, Subresource: d.Subresource, From: hidden(d.Recorded(recorded.Object), secrets), To: hidden(d.Live(shown.Object), secrets)}
		f.Field, f.Pointer = secrets.Text(d.Field), secrets.Text(d.Pointer())
		fields = append(fields, f)
	}
	return fields
}

// warnUnsure warns of a field that Helm itself has written otherwise, because whether that is drift is unknown.
func (t *target) warnUnsure() {
	for _, d := range t.rewritten {
		if !plan.InPointer(d.Pointer(), t.ignored) {
			t.release.Warnings = append(t.release.Warnings, plan.Warning{Rule: "S18", Object: &t.object, Message: fmt.Sprintf(
				"%s: field %s is not as the record says, although Helm has written it; whether that is drift is unknown: %v", t.object, d.Field, t.unsure)})
			return
		}
	}
}

// hidden returns a value without secrets in its texts.
func hidden(value any, secrets *mask.Mask) any {
	switch v := value.(type) {
	case string:
		return secrets.Text(v)
	case []any:
		out := make([]any, len(v))
		for n, x := range v {
			out[n] = hidden(x, secrets)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, x := range v {
			out[secrets.Text(name)] = hidden(x, secrets)
		}
		return out
	}
	return value
}
