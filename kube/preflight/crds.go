package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/pager"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/cluster"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
	"lockstep/kube/session"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

var crdKind = session.CRDKind

// Findings are what CheckCRDs finds.
type Findings struct{ Conflicts, Warnings []plan.Warning }

// CheckCRDs decides which of the existing CRDs in crds/ the operation applies, and stores that in crds. --crds=upgrade applies all; a
// conflict says why one must not be applied: another release owns it, a version would go in which objects may be stored, or existing
// objects are invalid under the new schema. An install without it applies, as Helm does with server-side apply, those that it changes
// and that lose nothing; a warning names each that would lose something, which stays as it is.
//
// Rule R29a: crds/ take nothing away that the plan does not show.
func CheckCRDs(s *session.Session, crds *session.CRDs) (found Findings, err error) {
	b := s.Builder(crds.Root)
	list, err := crds.Checked().Build(b)
	if err != nil {
		return found, err
	}
	decided, errs := make([]crdDecision, len(list)), make([]error, len(list))
	concurrently(len(list), func(n int) { decided[n], errs[n] = decideCRD(s, *crds, list[n]) })
	crds.Existing = map[string]session.ExistingCRD{}
	for n, d := range decided {
		o, source := b.Fact(list[n]).Resource.Object, b.Fact(list[n]).Resource.Source
		switch {
		case errs[n] != nil:
			return found, fmt.Errorf("%s: %w", source, errs[n])
		case d.live == nil:
			continue
		case d.why != "" && crds.Upgrade:
			found.Conflicts = append(found.Conflicts, crdWarning(o, "%s: %s (%s)", o, d.why, source))
		case d.why != "":
			found.Warnings = append(found.Warnings, crdWarning(o, "%s stays as it is: %s (%s)", o, d.why, source))
		case d.warning != "":
			found.Warnings = append(found.Warnings, crdWarning(o, "%s: %s", o, d.warning))
		}
		crds.Existing[o.Name] = session.ExistingCRD{Generation: d.live.GetGeneration(), Applies: d.applies, Stays: d.why}
	}
	return found, nil
}

func crdWarning(o plan.Object, format string, args ...any) plan.Warning {
	return plan.Warning{Rule: "R29a", Object: &o, Message: fmt.Sprintf(format, args...)}
}

// RecheckCRD decides about a CRD in crds/ that exists and has changed since CheckCRDs, just before it is written. If it stays as it is,
// stays is the warning about it. With --crds=upgrade it is an error if it would lose something: the plan did not show that.
func RecheckCRD(s *session.Session, crds session.CRDs, o plan.Object, i *resource.Info) (applies bool, stays []plan.Warning, err error) {
	d, err := decideCRD(s, crds, i)
	if err != nil || d.live == nil {
		return false, nil, err
	}
	if next, ok := i.Object.(*unstructured.Unstructured); ok && crds.Upgrade {
		if why := cmp.Or(d.why, chartLoses(d.live, next)); why != "" {
			return false, nil, fmt.Errorf("somebody has changed it since the plan: %s; to see the new plan, run the command again", why)
		}
	}
	if d.why != "" {
		stays = []plan.Warning{crdWarning(o, "%s stays as it is: %s", o, d.why)}
	}
	return d.applies, stays, nil
}

// crdDecision is what an operation does with an existing CRD: nothing, or applies it. why says why that must not be.
type crdDecision struct {
	applies      bool
	why, warning string
	live         *unstructured.Unstructured // nil if it does not exist, or cannot be read
}

func decideCRD(s *session.Session, crds session.CRDs, i *resource.Info) (d crdDecision, err error) {
	live, err := s.Client.Dynamic.Resource(crdResource).Get(s.Context, i.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !crds.Upgrade {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("read CustomResourceDefinition/%s: %w", i.Name, err)
	}
	sent := *i
	next := i.Object.(*unstructured.Unstructured).DeepCopy()
	next.SetResourceVersion("") // only the write itself requires one
	next.SetUID("")
	sent.Object, d.live = next, live
	if crds.Upgrade {
		d.why, d.warning = checkCRD(s, live, next)
		d.applies = true
		return d, nil
	}
	applied, err := crds.Method().DryRun(s.Context, s.Helm.Client, live, nil, &sent)
	if err == nil && reflect.DeepEqual(applied.Object["spec"], live.Object["spec"]) {
		return d, nil
	}
	d.why, _ = checkCRD(s, live, next)
	d.why = cmp.Or(d.why, chartLoses(live, next)) // before a conflict, which --force-conflicts would solve in vain
	if err != nil && d.why == "" {
		d.why = diagnose.Explain(err).Error()
	}
	d.applies = d.why == ""
	return d, nil
}

func chartLoses(live, next *unstructured.Unstructured) string {
	if losses := CRDLosses(live, next); losses != "" {
		return "the CRD of the chart " + losses
	}
	return ""
}

func checkCRD(s *session.Session, live, next *unstructured.Unstructured) (conflict, warning string) {
	scope := s.Common.Scope("")
	if seen := manifest.SeenAs(live); seen.Marks.Release != "" && scope.Other(seen) != "" {
		return "it belongs to " + scope.Other(seen) + ": upgrade that release, or use --crds=create", ""
	}
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	kept := versionsOf(next)
	if lost := slices.DeleteFunc(stored, func(v string) bool { return kept[v] != nil }); len(lost) > 0 {
		return fmt.Sprintf("it would lose version %s, in which objects are stored (status.storedVersions): keep that version in the chart with "+
			"served: false, or first migrate the objects and remove it from status.storedVersions", strings.Join(lost, ", ")), ""
	}
	return tryObjects(s, live, next)
}

// tryObjects validates all objects of a CRD by its next schema. Rules (x-kubernetes-validations) are not tried: only the API server
// evaluates them.
func tryObjects(s *session.Session, live, next *unstructured.Unstructured) (conflict, warning string) {
	before := versionsOf(live)
	version, newSchema := objectVersion(before, versionsOf(next))
	if newSchema == nil {
		return "", ""
	}
	gvr := schema.GroupVersionResource{Version: version}
	gvr.Resource, gvr.Group, _ = strings.Cut(live.GetName(), ".")
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return s.Client.Dynamic.Resource(gvr).List(ctx, o)
	})
	list, _, err := pages.List(s.Context, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", ""
	case err != nil:
		return "", "its objects are not tried with the new schema: " + diagnose.Explain(err).Error()
	}
	validator := validate.NewSchemaValidator(newSchema, nil, "", strfmt.Default)
	oldSchema := before[version].schema()
	count, invalid, losing := 0, []string{}, []string{}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		u := item.(*unstructured.Unstructured)
		count++
		name := strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
		if lost := lostValues(u.Object, oldSchema, newSchema, ""); len(lost) > 0 {
			losing = append(losing, name+": "+strings.Join(lost, ", "))
		}
		addDefaults(u.Object, newSchema)
		if faults := validator.Validate(u.Object).Errors; len(faults) > 0 {
			invalid = append(invalid, fmt.Sprintf("%s: %s", name, strings.ReplaceAll(faults[0].Error(), " in body", "")))
		}
		return nil
	})
	if len(invalid) > 0 {
		return fmt.Sprintf("%d of its %s would be invalid under the new schema of %s: %s", len(invalid), text.Count(count, "object"), version, cluster.FirstThree(invalid)), ""
	}
	var warnings []string
	if len(losing) > 0 {
		warnings = append(warnings, fmt.Sprintf("fields that the new schema of %s lacks are lost in %d of its %s: %s", version, len(losing), text.Count(count, "object"), cluster.FirstThree(losing)))
	}
	if raw, _ := json.Marshal(next.Object); count > 0 && strings.Contains(string(raw), `"x-kubernetes-validations"`) {
		warnings = append(warnings, fmt.Sprintf("its %s passed the new schema of %s, but its rules (x-kubernetes-validations) were not tried", text.Count(count, "object"), version))
	}
	return "", strings.Join(warnings, "; ")
}

// crdVersion is a version of a CRD.
type crdVersion struct {
	Name            string
	Served, Storage bool
	Schema          struct{ OpenAPIV3Schema json.RawMessage }
}

// schema returns the schema of the version, nil if it has none that can be read.
func (v *crdVersion) schema() *spec.Schema {
	s := &spec.Schema{}
	if v.Schema.OpenAPIV3Schema == nil || json.Unmarshal(v.Schema.OpenAPIV3Schema, s) != nil {
		return nil
	}
	return s
}

// versionsOf returns the versions of a CRD by name. A CRD that cannot be read has none: the API server refuses it.
func versionsOf(u *unstructured.Unstructured) map[string]*crdVersion {
	var crd struct {
		Spec struct{ Versions []crdVersion }
	}
	if raw, err := json.Marshal(u.Object); err != nil || json.Unmarshal(raw, &crd) != nil {
		return nil
	}
	out := map[string]*crdVersion{}
	for n := range crd.Spec.Versions {
		out[crd.Spec.Versions[n].Name] = &crd.Spec.Versions[n]
	}
	return out
}

// objectVersion returns the version in which the objects of a CRD are read and tried, with its next schema: the next storage version
// if the cluster serves it, else the one in which they are stored now. The schema is nil if the next CRD has none.
func objectVersion(live, next map[string]*crdVersion) (name string, schema *spec.Schema) {
	for _, versions := range []map[string]*crdVersion{next, live} {
		for name, v := range versions {
			if v.Storage && next[name] != nil && live[name] != nil && live[name].Served {
				return name, next[name].schema()
			}
		}
	}
	return "", nil
}

// addDefaults adds the defaults of a schema to a value, as the API server does when it reads the object.
func addDefaults(value any, s *spec.Schema) {
	switch value := value.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			if _, found := value[name]; !found && property.Default != nil {
				value[name] = runtime.DeepCopyJSONValue(property.Default)
			}
			addDefaults(value[name], &property)
		}
		if more := s.AdditionalProperties; more != nil && more.Schema != nil {
			for _, x := range value {
				addDefaults(x, more.Schema)
			}
		}
	case []any:
		if s.Items != nil && s.Items.Schema != nil {
			for _, x := range value {
				addDefaults(x, s.Items.Schema)
			}
		}
	}
}

// CRDLosses says which versions and fields an upgrade of a CRD removes, "" for none.
func CRDLosses(live, next *unstructured.Unstructured) string {
	var versions, unserved, fields []string
	before, after := versionsOf(live), versionsOf(next)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		old, now := before[name], after[name]
		if now == nil {
			versions = append(versions, name)
			continue
		}
		if old.Served && !now.Served {
			unserved = append(unserved, name)
		}
		if lost := lostFields(old.schema(), now.schema(), ""); len(lost) > 0 {
			fields = append(fields, text.Named("field", lost)+" of "+name)
		}
	}
	var losses []string
	if len(versions) > 0 {
		fields = append([]string{text.Named("version", versions)}, fields...)
	}
	if len(fields) > 0 {
		losses = append(losses, "removes "+strings.Join(fields, ", "))
	}
	if len(unserved) > 0 {
		losses = append(losses, "no longer serves "+text.Named("version", unserved))
	}
	return strings.Join(losses, "; ")
}

// lostFields returns the paths of the properties that a schema no longer has. A schema that keeps unknown fields loses none.
func lostFields(old, now *spec.Schema, path string) (lost []string) {
	if old == nil || now == nil {
		return nil
	}
	if open, _ := now.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); open {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		before, after := old.Properties[name], now.Properties[name]
		if _, kept := now.Properties[name]; kept {
			lost = append(lost, lostFields(&before, &after, at)...)
		} else if now.AdditionalProperties == nil {
			lost = append(lost, at)
		}
	}
	if old.Items != nil && now.Items != nil {
		lost = append(lost, lostFields(old.Items.Schema, now.Items.Schema, path+"[]")...)
	}
	if old.AdditionalProperties != nil && now.AdditionalProperties != nil {
		lost = append(lost, lostFields(old.AdditionalProperties.Schema, now.AdditionalProperties.Schema, path+"[]")...)
	}
	return lost
}

// lostValues returns the paths of the fields of an object that a schema no longer has. Defaults of the old schema do not count.
func lostValues(value any, old, now *spec.Schema, path string) (lost []string) {
	if old == nil || now == nil {
		return nil
	}
	open, _ := now.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
			before, at := old.Properties[name], strings.TrimPrefix(path+"."+name, ".")
			after, kept := now.Properties[name]
			x, has := value[name]
			switch {
			case has && kept:
				lost = append(lost, lostValues(x, &before, &after, at)...)
			case has && !open && now.AdditionalProperties == nil && fmt.Sprint(x) != fmt.Sprint(before.Default): // numbers may have other types
				lost = append(lost, at)
			}
		}
		if old.AdditionalProperties != nil && now.AdditionalProperties != nil {
			for _, name := range slices.Sorted(maps.Keys(value)) {
				lost = append(lost, lostValues(value[name], old.AdditionalProperties.Schema, now.AdditionalProperties.Schema, manifest.FieldPath(path, name))...)
			}
		}
	case []any:
		for n, x := range value {
			if old.Items != nil && now.Items != nil {
				lost = append(lost, lostValues(x, old.Items.Schema, now.Items.Schema, fmt.Sprintf("%s[%d]", path, n))...)
			}
		}
	}
	return lost
}

// checkRemovedCRDs says how many objects there are of the CRDs that the operation removes, and whether these are deleted. It also says
// which CRDs and namespaces stay because the target has objects in them.
//
// Rule R31b: a CRD that has objects is deleted only on request, and once the objects have been counted.
func checkRemovedCRDs(s *session.Session, p *session.Prepared) (warnings []plan.Warning, err error) {
	for g, o := range event.Objects(p.Phases) {
		if g.Phase.Kind != event.PhaseRemove {
			continue
		}
		if why := p.Target.Claims.WhyNeeded(o); why != "" {
			warnings = append(warnings, plan.Warning{Rule: "R31b", Object: &o, Message: fmt.Sprintf("%s stays: %s", o, why)})
			continue
		}
		if o.GroupKind() != (plan.GroupKind{Group: crdKind.Group, Kind: crdKind.Kind}) {
			continue
		}
		contents, err := cluster.CRDContents(s.Context, s.Client, s.Common.Scope(p.Target.Root()), o.Name)
		if forbidden := (*apierrors.StatusError)(nil); err != nil && !errors.As(err, &forbidden) {
			return nil, err
		}
		if contents != "" {
			warnings = append(warnings, cluster.CRDWarning(o, contents, p.Target.Claims.DeleteCRDs))
		}
	}
	return warnings, nil
}
