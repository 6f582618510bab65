package preflight

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/retry"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
	"lockstep/kube/session"
	"lockstep/kube/status"
)

// change is an existing object that the operation will probably change.
type change struct {
	object plan.Object
	info   *resource.Info // as the operation sends it
	old    *resource.Info // in the old revision, nil if that lacks it
	method helmclient.Method
	before manifest.Before
	// resumes means that the operation replaces a failed Job or Pod (R50); replaced that it replaces this object.
	resumes, replaced bool
	rule              status.Rule
}

// checkChanges sends the updates of existing objects as dry runs. Updates that the API server refuses now and will refuse
// later are conflicts, others warnings. New objects are not sent: what they need may not exist yet. Neither are objects that
// certainly do not change, see changes.
//
// So whatever the API server would refuse is found before the first write, as far as it can be known then (S3). owners are the
// conflicts about fields that another manager owns.
func (v *clusterView) checkChanges(planned *plannedObjects, p *session.Prepared, existing func() []change) (out findings, owners []plan.Warning) {
	if p.Common.PlanOnly { // Operation.Changes sends all objects
		return out, nil
	}
	changes := existing()
	errs := make([]error, len(changes))
	concurrently(len(changes), func(i int) { errs[i] = v.tryChange(&changes[i]) })
	changed := map[plan.Object]bool{}
	for _, c := range changes {
		changed[c.object] = true
	}
	refusals := &Refusals{client: v.Client, ctx: v.Context, prepared: p, planned: planned, granted: grantedBy(v.Context, v.Client), willWrite: func(o *incomingObject) bool { return o.new || o.hook || changed[o.Object] }}
	for n, c := range changes {
		if errs[n] == nil {
			continue
		}
		if c.replaced {
			p.Replaced = append(p.Replaced, cluster.Replacement{Object: c.object, Message: FailedReplaced, Failed: true})
			continue
		}
		w := plan.Warning{Object: &changes[n].object}
		planned, named, why, err := Replacer{v.Client, v.Helm.Client, p}.Plan(v.Context, c.object, c.info, errs[n])
		switch {
		case why != "":
			w.Message = why
			out.conflicts = append(out.conflicts, w)
			continue
		case named && err == nil:
			p.Replaced = append(p.Replaced, planned)
			continue
		}
		if w.Message = refusals.MayPass(c.object, errs[n]); w.Message != "" {
			out.warnings = append(out.warnings, w)
			continue
		}
		w.Message = c.object.String() + ": " + diagnose.Explain(errs[n]).Error()
		if diagnose.IsFieldConflict(errs[n]) {
			owners = append(owners, w)
			continue
		}
		out.conflicts = append(out.conflicts, w)
	}
	return out, owners
}

// FailedReplaced is the message about a failed Job or Pod that the operation replaces (R50).
const FailedReplaced = "it has failed"

// changes returns the existing objects except those that certainly do not change: the cluster has the same fields from
// every revision that may have applied them, and nobody has changed one since. A replacement may change any object, because it
// drops the fields that the API server or a controller has added, and so may a migration to server-side apply.
func (v *clusterView) changes(p *session.Prepared, incoming Incoming) (out []change) {
	b := incoming.Builder
	if b == nil {
		return nil
	}
	old := indexObjects(b, p.Old.Manifest())
	var applied []map[plan.Object]*resource.Info
	for _, rel := range p.Applied {
		if rel == p.Old.Release {
			applied = append(applied, old)
			continue
		}
		applied = append(applied, indexObjects(b, rel.Manifest))
	}
	seen := map[plan.Object]bool{}
	for _, i := range incoming.List {
		f := b.Fact(i)
		if f == nil || f.Late || f.Generated || f.Before().Version == "" || f.Before().Terminating || seen[f.Resource.Object] {
			continue
		}
		seen[f.Resource.Object] = true
		sent := b.Scope().Marked(i)
		if !p.Target.Method.Replace && !migrates(p.Target.Method, f.Before()) && isApplied(b, sent, f.Resource.Object, applied) && f.Before().OwnsAll(sent.Object.(*unstructured.Unstructured)) {
			continue
		}
		out = append(out, change{f.Resource.Object, sent, old[f.Resource.Object], p.Target.Method, f.Before(), p.Resumes && !f.Rule.Hook, false, f.Rule})
	}
	return append(out, v.crdChanges(p)...)
}

// migrates reports whether an update changes the owners of an object's fields, and so what server-side apply removes.
func migrates(m helmclient.Method, b manifest.Before) bool {
	return m.Migrate && !m.ClientSide && b.UpdatedByHelm()
}

// checkPorts warns about ports that client-side apply cannot tell apart when it updates an object.
func checkPorts(planned *plannedObjects, m helmclient.Method) (warnings []plan.Warning) {
	if !m.ClientSide || m.Replace {
		return nil
	}
	for _, o := range planned.objects {
		if o.hook {
			continue
		}
		for _, ports := range refs.SharedPorts(o.Object, o.fields) {
			warnings = append(warnings, o.warning("%s", refs.LosesPorts(o.Object, ports)))
		}
	}
	return warnings
}

// indexObjects returns the objects of a manifest, none if it cannot be read.
func indexObjects(b *manifest.Builder, text string) map[plan.Object]*resource.Info {
	list, _, err := b.BuildTarget(text)
	if err != nil {
		return nil
	}
	out := map[plan.Object]*resource.Info{}
	for _, i := range list {
		out[b.Fact(i).Resource.Object] = i
	}
	b.Forget(list)
	return out
}

// isApplied reports whether all revisions have an object as it is sent.
func isApplied(b *manifest.Builder, sent *resource.Info, o plan.Object, revisions []map[plan.Object]*resource.Info) bool {
	for _, objects := range revisions {
		if objects[o] == nil || !reflect.DeepEqual(b.Scope().Marked(objects[o]).Object, sent.Object) {
			return false
		}
	}
	return len(revisions) > 0
}

// crdChanges returns the existing objects in crds/ if --crds=upgrade applies them; CheckCRDs has tried those of an install. No revision
// has their fields.
func (v *clusterView) crdChanges(p *session.Prepared) (out []change) {
	if !p.Target.CRDs.Upgrade {
		return nil
	}
	b := v.Builder(p.Target.Root())
	list, err := p.Target.CRDs.Build(b)
	if err != nil {
		return nil
	}
	b.Prefetch(v.Context, list, nil)
	manifest.DropPrefetched(list)
	for _, i := range list {
		if f := b.Fact(i); f.Before().Version != "" {
			out = append(out, change{f.Resource.Object, i, nil, p.Target.CRDs.Method(), f.Before(), false, false, f.Rule})
		}
	}
	return out
}

// tryChange sends a change as a dry run, again if somebody has written to the object meanwhile. It returns the answer of the
// API server if that refuses the change.
func (v *clusterView) tryChange(c *change) error {
	outdated := func(err error) bool { return apierrors.IsConflict(err) && !diagnose.IsFieldConflict(err) }
	err := retry.OnError(retry.DefaultRetry, outdated, func() error { return v.dryRun(c) })
	if c.resumes && len(diagnose.Immutable(err)) > 0 {
		old, readErr := v.Client.Dynamic.Resource(c.info.Mapping.Resource).Namespace(c.info.Namespace).Get(v.Context, c.info.Name, metav1.GetOptions{})
		c.replaced = readErr == nil && status.HasFailed(old, c.rule)
	}
	known := KnownRefusal(c.object, c.old, c.info)
	if IsNoDryRun(err) || known != nil && diagnose.NamesNoField(err) {
		return known
	}
	return RefusalOf(err)
}

// dryRun sends a change as a dry run.
func (v *clusterView) dryRun(c *change) error {
	live := &unstructured.Unstructured{} // server-side apply only asks whether the object exists
	live.SetGroupVersionKind(c.info.Mapping.GroupVersionKind)
	live.SetNamespace(c.info.Namespace)
	live.SetName(c.info.Name)
	if c.method.ClientSide || c.method.Adapter != nil || migrates(c.method, c.before) {
		var err error
		live, err = v.Client.Dynamic.Resource(c.info.Mapping.Resource).Namespace(c.info.Namespace).Get(v.Context, c.info.Name, metav1.GetOptions{})
		if err != nil {
			return nil // the operation reports it
		}
	}
	_, err := c.method.DryRun(v.Context, v.Helm.Client, live, c.old, c.info)
	return err
}

// RefusalOf returns the error of a dry run if the API server refused the object, not the dry run or the user, or if no
// request can be made of it. A refusal may have no reason: a webhook can answer with a code alone.
func RefusalOf(err error) error {
	if helmclient.IsPatchError(err) {
		return err
	}
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) || diagnose.LacksPermission(err) || IsNoDryRun(err) {
		return nil
	}
	return err
}

// Refusals tells the refusals of dry runs that are certain from those that may pass: what the operation writes earlier, or
// somebody else, may make the API server accept the object when its turn comes. Whatever Helm can apply must not be
// refused in advance.
type Refusals struct {
	client   *connect.Client
	ctx      context.Context
	prepared *session.Prepared
	planned  *plannedObjects
	// granted reports whether the cluster lets a ServiceAccount change an object, or may do so.
	granted func(account, o plan.Object) bool
	// willWrite reports whether the operation creates, changes or runs an object.
	willWrite func(*incomingObject) bool
}

// NewRefusals returns the Refusals of an operation that writes the given objects.
func NewRefusals(ctx context.Context, c *connect.Client, p *session.Prepared, incoming Incoming, writes func(plan.Object) bool) (*Refusals, error) {
	planned, err := newPlannedObjects(p, incoming)
	if err != nil {
		return nil, err
	}
	return &Refusals{c, ctx, p, planned, grantedBy(ctx, c), func(o *incomingObject) bool { return o.hook || writes(o.Object) }}, nil
}

// MayPass says that a change is refused now, and why it may pass when its turn comes. It returns "" if the API server will
// refuse it then, too.
func (r *Refusals) MayPass(o plan.Object, err error) string {
	why := r.whyItMayPass(o, err)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s: the API server would refuse this change now: %s; lockstep does not stop here, because %s", o, diagnose.Explain(err), why)
}

func (r *Refusals) whyItMayPass(o plan.Object, err error) string {
	text := err.Error()
	policy, webhook := diagnose.DeniedBy(err)
	migration := (*helmclient.MigrationError)(nil)
	switch {
	case errors.As(err, &migration):
		return "it cannot be checked before: Helm first changes the owners of the object's fields, from client-side to server-side apply"
	case policy != "":
		return r.changedBefore(o, "the policy", r.mattersToPolicy(policy))
	case webhook != "":
		return r.webhookMayAccept(o, webhook)
	case strings.Contains(text, "attempting to grant RBAC permissions"):
		return r.changedBefore(o, "your permissions", func(x *incomingObject) bool { return x.Object.Group == rbacGroup })
	case strings.Contains(text, "already allocated"):
		return "the address or port may be free by then"
	case diagnose.IsFieldConflict(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), connect.Mistyped(text), helmclient.IsPatchError(err):
		return r.mayBeRewritten(o)
	case apierrors.IsForbidden(err):
		return "the quota or rule may allow it by then"
	}
	return "that may pass"
}

// webhookMayAccept says why a webhook that denies an object may accept it later: it may depend on any object.
func (r *Refusals) webhookMayAccept(o plan.Object, name string) string {
	for _, x := range r.planned.objects {
		if x.Object.Group == admissionGroup && refs.Mentions(x.fields["webhooks"], name) {
			return fmt.Sprintf("the operation applies its webhook (%s)", x)
		}
	}
	return r.changedBefore(o, "the webhook", func(x *incomingObject) bool { return !runsToCompletion(x) || r.hasAccess(x, o) })
}

const admissionGroup = "admissionregistration.k8s.io"

var policyResource = schema.GroupVersionResource{Group: admissionGroup, Version: "v1", Resource: "validatingadmissionpolicies"}

// mattersToPolicy returns a function that reports whether an object may change what a ValidatingAdmissionPolicy decides: the
// policies themselves, namespaces, permissions, and the parameters of the policy.
func (r *Refusals) mattersToPolicy(name string) func(*incomingObject) bool {
	kind := ""
	if found, err := r.client.Dynamic.Resource(policyResource).Get(r.ctx, name, metav1.GetOptions{}); err == nil {
		kind, _, _ = unstructured.NestedString(found.Object, "spec", "paramKind", "kind")
	}
	return func(x *incomingObject) bool {
		return x.Object.Group == admissionGroup || x.Object.Group == rbacGroup || x.Kind == "Namespace" && x.Object.Group == "" || kind != "" && x.Kind == kind
	}
}

// mayBeRewritten says what may change an object or its schema before it is applied.
func (r *Refusals) mayBeRewritten(o plan.Object) string {
	if object := r.planned.byObject[o]; object != nil && definable(o.Group) {
		switch r.planned.availabilityOf(o, r.prepared.Common.Provided) {
		case certain:
			return "a CRD of the operation may change its schema"
		case possible:
			return r.planned.possibleDefiner(o, r.prepared.Common.Provided) + " may change its schema"
		}
	}
	return r.changedBefore(o, "the object", func(x *incomingObject) bool { return runsToCompletion(x) && r.hasAccess(x, o) })
}

// hasAccess reports whether the pods of an object may change another one, also with a role that an administrator has given to
// their account in the cluster.
func (r *Refusals) hasAccess(x *incomingObject, o plan.Object) bool {
	pods, ok := refs.FindPods(x.Object, x.fields)
	return ok && (r.planned.hasAccess(x, o) || r.granted(plan.Object{Kind: "ServiceAccount", Namespace: x.Namespace, Name: accountOf(pods)}, o))
}

// changedBefore says that an object that may be written before o may change something: unless it is certain to come later, it
// may come first, too. It returns "" if none matters.
func (r *Refusals) changedBefore(o plan.Object, what string, matters func(*incomingObject) bool) string {
	object := r.planned.byObject[o]
	if object == nil {
		return ""
	}
	for _, x := range r.planned.objects {
		switch {
		case x == object || !r.willWrite(x) || !matters(x):
		case r.planned.appliedBefore(x, object):
			return fmt.Sprintf("%s comes first and may change %s", x, what)
		case !r.planned.appliedBefore(object, x):
			return fmt.Sprintf("%s may come first and change %s", x, what)
		}
	}
	for _, x := range providedObjects(r.prepared.Common.Provided) {
		if matters(x) {
			return fmt.Sprintf("%s of an earlier release may change %s", x, what)
		}
	}
	return ""
}

// appliedBefore reports whether the run applies a before b, in an earlier group or earlier in the same one.
func (planned *plannedObjects) appliedBefore(a, b *incomingObject) bool {
	if a.position.group != b.position.group {
		return planned.before(a.position, b.position)
	}
	wave := func(o plan.Object) int {
		at, n := slices.Index(b.position.group.Objects, o), 0
		for _, w := range b.position.group.Waves {
			if at -= w.Count; at < 0 {
				break
			}
			n++
		}
		return n
	}
	return wave(a.Object) < wave(b.Object)
}

// IsNoDryRun reports whether a dry run failed only because a webhook does not support it.
func IsNoDryRun(err error) bool {
	return apierrors.IsBadRequest(err) && strings.HasSuffix(err.Error(), "does not support dry run")
}
