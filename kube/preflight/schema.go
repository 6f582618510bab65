package preflight

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/session"
)

// checkVersions warns about deprecated API versions.
func (v *clusterView) checkVersions(planned *plannedObjects) (warnings []plan.Warning) {
	var kinds []schema.GroupVersionKind
	byVersion := map[schema.GroupVersionKind][]*incomingObject{}
	for _, o := range planned.objects {
		if l, known := manifest.LifecycleOf(o.gvk); !known || l.DeprecatedMajor == 0 {
			continue
		}
		if byVersion[o.gvk] == nil {
			kinds = append(kinds, o.gvk)
		}
		byVersion[o.gvk] = append(byVersion[o.gvk], o)
	}
	if len(kinds) == 0 {
		return nil
	}
	version, err := v.Client.Clientset.Discovery().ServerVersion()
	if v.recordFailure(err, "the version of the API server", "") {
		return nil
	}
	major, minor := versionNumber(version.Major), versionNumber(version.Minor)
	for _, gvk := range kinds {
		l, _ := manifest.LifecycleOf(gvk)
		atLeast := func(a, b int) bool { return major > a || major == a && minor >= b }
		removed := l.RemovedMajor > 0 && atLeast(l.RemovedMajor, l.RemovedMinor)
		if removed || !atLeast(l.DeprecatedMajor, l.DeprecatedMinor) { // CheckKinds refuses removed versions
			continue
		}
		first := byVersion[gvk][0]
		verb := "uses"
		if len(byVersion[gvk]) > 1 {
			verb = "use"
		}
		message := fmt.Sprintf("%s %s apiVersion %s, deprecated since Kubernetes %d.%d",
			andMore(first, len(byVersion[gvk])), verb, gvk.GroupVersion(), l.DeprecatedMajor, l.DeprecatedMinor)
		if l.RemovedMajor > 0 {
			message += fmt.Sprintf(" and removed in %d.%d", l.RemovedMajor, l.RemovedMinor)
		}
		warnings = append(warnings, plan.Warning{Object: &first.Object, Message: message + l.ReplacementHint()})
	}
	return warnings
}

// versionNumber parses a part of a version, such as "33+". It returns 0 for text that is not a number.
func versionNumber(s string) int {
	n, _ := strconv.Atoi(strings.TrimRight(s, "+"))
	return n
}

// checkFields refuses objects that the API server would refuse because of an invalid name, an unknown field or a value that
// does not fit. With client-side apply Helm lets the API server ignore unknown fields, unless it replaces the object, so checkFields
// only warns. It sends a dry run of each object that may be malformed.
func (v *clusterView) checkFields(planned *plannedObjects, p *session.Prepared) (out findings) {
	suspects := slices.DeleteFunc(slices.Clone(planned.objects), func(o *incomingObject) bool { return !mayBeMalformed(o) })
	faults := make([][]diagnose.FieldFault, len(suspects))
	concurrently(len(suspects), func(i int) { faults[i] = v.tryFields(suspects[i], p.Target.ClientSide) })
	for i, o := range suspects {
		newSchema := unavailable // whether the plan changes the schema of the kind
		if !native(o) {
			newSchema = planned.availabilityOf(o.Object, p.Common.Provided)
		}
		or := ""
		if newSchema == certain && v.keepsSchema(o, planned, p) {
			newSchema, or = unavailable, ", or apply the CRD of the chart with --crds=upgrade"
		}
		lenient := p.Target.ClientSide && (o.new || o.hook || !p.Target.Replace)
		if len(faults[i]) == 0 || newSchema == certain || v.skipsCRD(o, p) {
			continue
		}
		for _, f := range faults[i] {
			fix := fixOf(f) + or
			switch {
			case lenient && !f.Undecodable:
				out.warnings = append(out.warnings, o.warning("%s: %s: the API server ignores it; %s", o, f.Text, fix))
			case newSchema == possible:
				out.warnings = append(out.warnings, o.warning("%s: %s: the API server will refuse the object "+
					"unless %s changes its CRD; %s", o, f.Text, planned.possibleDefiner(o.Object, p.Common.Provided), fix))
			default:
				out.conflicts = append(out.conflicts, o.warning("%s: %s; %s", o, f.Text, fix))
			}
		}
	}
	return out
}

// mayBeMalformed reports whether only a dry run can tell if the API server accepts the name and the fields of an object:
// always for a kind without a Go type, otherwise if the name is unusual or the object does not fit its type. The API server
// may be newer than the type.
func mayBeMalformed(o *incomingObject) bool {
	if o.fields == nil || o.gvk.Kind == "" {
		return false
	}
	if !native(o) {
		return true
	}
	typed, err := scheme.Scheme.New(o.gvk)
	if err != nil || unusualName(o.Name) {
		return true
	}
	convert := runtime.DefaultUnstructuredConverter
	return convert.FromUnstructuredWithValidation(o.fields, typed, true) != nil || repeatsName(o.fields)
}

// unusualName reports whether the API server may refuse an object because of its name. Most kinds accept a DNS subdomain,
// but Services only a DNS label (before Kubernetes 1.36 one that starts with a letter), and CronJobs at most 52
// characters.
func unusualName(name string) bool {
	const maxAlwaysValid = 52
	return name != "" && (len(name) > maxAlwaysValid || len(validation.IsDNS1035Label(name)) > 0)
}

// native reports whether client-go has a Go type for the kind of an object.
func native(o *incomingObject) bool { return scheme.Scheme.Recognizes(o.gvk) }

// repeatsName reports whether two items of a list have the same name, which server-side apply refuses for most lists.
func repeatsName(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(value)), repeatsName)
	case []any:
		names := map[any]bool{}
		for _, item := range value {
			m, _ := item.(map[string]any)
			if name, ok := m["name"].(string); ok && names[name] || repeatsName(item) {
				return true
			} else if ok {
				names[name] = true
			}
		}
	}
	return false
}

// skipsCRD reports whether the operation leaves an object unchanged because it is in crds/ and already exists.
func (v *clusterView) skipsCRD(o *incomingObject, p *session.Prepared) bool {
	if p.Phases[o.position.phase].Kind != event.PhaseCRDs || p.Target.CRDs.Applies(o.Object) {
		return false
	}
	exists, _ := v.existing(kindOf(o.Object), []string{o.Name})
	return exists[o.Name]
}

// keepsSchema reports whether crds/ has the CRD of an object, and the operation leaves the existing one unchanged.
func (v *clusterView) keepsSchema(o *incomingObject, planned *plannedObjects, p *session.Prepared) bool {
	kind := plan.GroupKind{Group: o.Group, Kind: o.Kind}
	i := slices.IndexFunc(planned.objects, func(other *incomingObject) bool { return other.defines == kind })
	return i >= 0 && v.skipsCRD(planned.objects[i], p)
}

// tryFields applies or creates an object as a dry run. It returns no faults if the API server refuses the object for a
// reason other than its fields, because that reason may be gone when the run applies the object.
func (v *clusterView) tryFields(o *incomingObject, clientSide bool) []diagnose.FieldFault {
	mapping, err := v.mapper.RESTMapping(o.gvk.GroupKind(), o.gvk.Version)
	if err != nil {
		return nil // CheckKinds reports it
	}
	u := &unstructured.Unstructured{Object: o.fields}
	client := v.Client.Dynamic.Resource(mapping.Resource).Namespace(o.Namespace)
	dryRun := []string{metav1.DryRunAll}
	if clientSide || u.GetName() == "" {
		_, err = client.Create(v.Context, u, metav1.CreateOptions{
			DryRun: dryRun, FieldManager: connect.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	} else {
		data, _ := u.MarshalJSON() // cannot fail: it was decoded from YAML
		force := true
		_, err = client.Patch(v.Context, o.Name, types.ApplyPatchType, data, metav1.PatchOptions{
			DryRun: dryRun, Force: &force, FieldManager: connect.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	}
	answer := apierrors.APIStatus(nil)
	if !errors.As(err, &answer) {
		return nil
	}
	return diagnose.FieldFaults(err)
}

// fixOf says how to fix a fault.
func fixOf(f diagnose.FieldFault) string {
	switch {
	case f.Name:
		return "rename the object"
	case f.Unknown:
		return "remove it or correct its name"
	case f.Quote:
		return "quote it"
	}
	return "correct it in the chart or its values"
}

// checkTemplateCRDs warns about the objects that lose fields or become invalid when the operation applies a CRD of the chart's
// templates that has less than the one in the cluster (R29a). Like Helm, the operation applies it nevertheless.
func (v *clusterView) checkTemplateCRDs(incoming Incoming, changes func() []change) []plan.Warning {
	b := incoming.Builder
	if b == nil {
		return nil
	}
	existing := incoming.List.Filter(func(i *resource.Info) bool {
		f := b.Fact(i)
		return f != nil && f.Resource.Object.GroupKind() == plan.GroupKind(crdKind) && f.Before().Version != ""
	})
	if len(existing) == 0 {
		return nil
	}
	changed := map[plan.Object]bool{}
	for _, c := range changes() {
		changed[c.object] = true
	}
	existing = existing.Filter(func(i *resource.Info) bool { return changed[b.Fact(i).Resource.Object] }) // the others lose nothing
	return checkAll(existing, func(i *resource.Info) []plan.Warning {
		live, err := v.Client.Dynamic.Resource(crdResource).Get(v.Context, i.Name, metav1.GetOptions{})
		next, ok := i.Object.(*unstructured.Unstructured)
		if v.recordFailure(err, crdResource.GroupResource().String(), "") || !ok || CRDLosses(live, next) == "" {
			return nil
		}
		o := b.Fact(i).Resource.Object
		if conflict, warning := tryObjects(v.Session, live, next); conflict+warning != "" {
			return []plan.Warning{crdWarning(o, "%s: %s", o, conflict+warning)}
		}
		return nil
	})
}
