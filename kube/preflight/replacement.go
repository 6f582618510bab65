package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/permissions"
	"lockstep/kube/session"
)

// Replacer finds out how an operation replaces objects that cannot be updated.
type Replacer struct {
	Client   *connect.Client
	Helm     *helmkube.Client
	Prepared *session.Prepared
}

// Plan returns how the operation replaces an existing object whose update the API server refuses. named is false if the refusal
// is about something else, or if --replace does not name an object that the operation may replace. why says that the object must
// not be deleted, or could not be created again. i is the object as the operation sends it.
func (r Replacer) Plan(ctx context.Context, o plan.Object, i *resource.Info, refusal error) (planned cluster.Replacement, named bool, why string, err error) {
	fields, p := diagnose.Immutable(refusal), r.Prepared
	if len(fields) == 0 {
		return planned, false, "", nil
	}
	allows := p.Common.Replacements().Allow
	live, err := r.Client.Dynamic.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	if err != nil && !allows(o, false) {
		return planned, false, "", nil
	}
	if err != nil {
		return planned, false, "", err
	}
	f, scope, advice := manifest.FactOf(o, live), p.Common.Scope(p.Target.Root()), ""
	switch {
	case !p.Target.Claims.Removes(scope, f): // then it is no use to name it
		advice = "; delete it yourself, or rename it in the chart"
	case !allows(o, f.Seen().Keep):
		return planned, false, "", nil
	}
	next, _ := i.Object.(*unstructured.Unstructured)
	_, what := cluster.Deletion(o, live, next)
	planned = cluster.Replacement{Object: o, UID: live.GetUID(), Message: text.Join("; ", strings.Join(fields, ", "), what), What: what}
	removal := cluster.Removal{Taken: cluster.NewTakenOver(p.Taken)}
	if why = removal.WhyKept(scope, p.Target.Claims, f); why == "" {
		why, err = cluster.WhyInUse(ctx, r.Client, scope, p.Target.Claims, o)
	}
	if why == "" && err == nil {
		why, err = cluster.WhyNotReplaced(ctx, r.Client, o, live)
	}
	if why == "" && err == nil {
		if invalid := r.tryCreation(ctx, i); invalid != nil {
			why = "it could not be created again: " + diagnose.Explain(invalid).Error()
		}
	}
	deletes := permissions.Permission{Verb: "delete", Resource: i.Mapping.Resource.GroupResource(), Namespace: i.Namespace}
	if why == "" && err == nil && !allowed(ctx, r.Client, deletes, i.Name) {
		why = "you may not delete it"
	}
	if why != "" {
		why = fmt.Sprintf("%s: %s; it cannot be replaced: %s%s", o, strings.Join(fields, ", "), why, advice)
	}
	return planned, true, why, err
}

// askBeforeReplacements sets a breakpoint on each group in which an object is replaced, with --replace=ask.
func askBeforeReplacements(p *session.Prepared) {
	if !p.Common.Replacements().Asks() {
		return
	}
	replaced := p.ReplacedIn()
	for _, group := range slices.Sorted(maps.Keys(replaced)) {
		p.Breakpoints = append(p.Breakpoints, group)
		for _, r := range replaced[group] {
			p.Warnings = append(p.Warnings, plan.Warning{Rule: "R30b", Object: &r.Object, Message: fmt.Sprintf(
				"%s has to be replaced: %s; the run pauses before its group: continue to replace it, or abort", r.Object, r.Message)})
		}
	}
}

// tryCreation creates an object under another name as a dry run, and returns the answer of the API server if the object is
// invalid: then it must not be deleted. What the existing object occupies, such as a port, is free by then.
func (r Replacer) tryCreation(ctx context.Context, i *resource.Info) error {
	other := *i
	u, ok := i.Object.DeepCopyObject().(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	const suffix, most = "-dryrun", 50
	other.Name = strings.TrimRight(i.Name[:min(len(i.Name), most)], "-.") + suffix
	u.SetName(other.Name)
	other.Object = u
	_, err := r.Prepared.Target.DryRun(ctx, r.Helm, nil, nil, &other)
	status := (*apierrors.StatusError)(nil)
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil {
		return nil
	}
	faults := status.ErrStatus.DeepCopy()
	faults.Details.Causes = slices.DeleteFunc(faults.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.name" || strings.Contains(c.Message, "already allocated")
	})
	if len(faults.Details.Causes) == 0 {
		return nil
	}
	return err
}

// immutableFields are fields that Kubernetes never changes, for objects of which no dry run can be sent, or whose refusal names no
// field.
var immutableFields = map[plan.GroupKind][]string{
	{Group: "apps", Kind: "Deployment"}:                 {"spec.selector"},
	{Group: "apps", Kind: "DaemonSet"}:                  {"spec.selector"},
	{Group: "apps", Kind: "ReplicaSet"}:                 {"spec.selector"},
	{Group: "apps", Kind: "StatefulSet"}:                {"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"},
	{Group: "batch", Kind: "Job"}:                       {"spec.template", "spec.selector", "spec.completionMode"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}:     {"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
	{Group: "networking.k8s.io", Kind: "IngressClass"}:  {"spec.controller"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: {"value", "preemptionPolicy"},
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:        {"handler"},
	{Group: rbacGroup, Kind: "RoleBinding"}:             {"roleRef"},
	{Group: rbacGroup, Kind: "ClusterRoleBinding"}:      {"roleRef"},
	{Group: crdKind.Group, Kind: crdKind.Kind}:          {"spec.scope", "spec.group", "spec.names.kind"},
	{Kind: "PersistentVolumeClaim"}:                     {"spec.storageClassName", "spec.accessModes", "spec.volumeMode", "spec.volumeName", "spec.selector"},
	{Kind: "Secret"}:                                    {"type"},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:  {"addressType"},
}

// KnownRefusal returns the error with which the API server will refuse an update because it changes a field that is known to be
// immutable, for what a dry run cannot tell; nil for none. It compares the manifests of two revisions; old may be nil.
func KnownRefusal(o plan.Object, old, next *resource.Info) error {
	if old == nil {
		return nil
	}
	before, isFields := old.Object.(*unstructured.Unstructured)
	after, areFields := next.Object.(*unstructured.Unstructured)
	if !isFields || !areFields {
		return nil
	}
	var changed field.ErrorList
	for _, path := range immutableFields[o.GroupKind()] {
		keys := strings.Split(path, ".")
		x, _, _ := unstructured.NestedFieldNoCopy(before.Object, keys...)
		y, _, _ := unstructured.NestedFieldNoCopy(after.Object, keys...)
		if !reflect.DeepEqual(x, y) {
			changed = append(changed, field.Invalid(field.NewPath(path), "", "field is immutable"))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: o.Group, Kind: o.Kind}, o.Name, changed)
}
