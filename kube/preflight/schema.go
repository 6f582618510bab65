package preflight

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
)

// checkVersions warns about objects in deprecated API versions.
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
	major, minor := number(version.Major), number(version.Minor)
	for _, gvk := range kinds {
		l, _ := manifest.LifecycleOf(gvk)
		reached := func(a, b int) bool { return major > a || major == a && minor >= b }
		removed := l.RemovedMajor > 0 && reached(l.RemovedMajor, l.RemovedMinor)
		if removed || !reached(l.DeprecatedMajor, l.DeprecatedMinor) { // CheckKinds refuses removed ones
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
		warnings = append(warnings, plan.Warning{Object: &first.Object, Message: message + l.Use()})
	}
	return warnings
}

// number parses a part of a version, such as "33+". It returns 0 for text that is not a number.
func number(s string) int {
	n, _ := strconv.Atoi(strings.TrimRight(s, "+"))
	return n
}

// fieldFaults are what the API server says about the fields of an object.
type fieldFaults struct {
	texts       []string
	undecodable bool // a value cannot be decoded, for which the API server refuses a patch too
}

// checkFields refuses objects with fields that the API server does not know, or whose values do not fit: it would refuse
// to apply them. A client-side patch only makes it warn about an unknown field, as in Helm. The check sends a dry run for
// the few objects that mayBeMalformed returns.
func (v *clusterView) checkFields(planned *plannedObjects, p *Prepared) (out findings) {
	suspects := slices.DeleteFunc(slices.Clone(planned.objects), func(o *incomingObject) bool { return !mayBeMalformed(o) })
	faults := make([]fieldFaults, len(suspects))
	each(len(suspects), func(i int) { faults[i] = v.tryFields(suspects[i], p.Target.ClientSide) })
	for i, o := range suspects {
		text := strings.Join(faults[i].texts, ", ")
		kindAvailability := unavailable
		if !native(o) {
			kindAvailability = planned.availabilityOf(o.Object, p.Common.Provided)
		}
		patched := p.Target.ClientSide && !p.Target.Replace && !o.new && !o.hook
		switch {
		case text == "" || kindAvailability == certain || v.existsInCRDs(o, p):
		case patched && !faults[i].undecodable:
			out.warnings = append(out.warnings, o.warning("%s: %s: the API server ignores it; correct the chart", o, text))
		case kindAvailability == possible:
			out.warnings = append(out.warnings, o.warning("%s: %s: the API server will refuse the object "+
				"unless an earlier group changes its CRD; correct it in the chart", o, text))
		default:
			out.refused = append(out.refused, o.warning("%s: %s: the API server would refuse the object; correct it in the chart", o, text))
		}
	}
	return out
}

// mayBeMalformed reports whether a dry run is needed to know if the API server accepts the fields of an object: always
// for a kind without a Go type; otherwise if the type does not fit, which may only mean that the API server is newer.
func mayBeMalformed(o *incomingObject) bool {
	if o.fields == nil || o.gvk.Kind == "" {
		return false
	}
	if !native(o) {
		return true
	}
	typed, err := scheme.Scheme.New(o.gvk)
	if err != nil {
		return true
	}
	convert := runtime.DefaultUnstructuredConverter
	return convert.FromUnstructuredWithValidation(o.fields, typed, true) != nil || repeatsName(o.fields)
}

// native reports whether an object is of a kind that Kubernetes defines.
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

// existsInCRDs reports whether an object in crds/ exists and is therefore not applied.
func (v *clusterView) existsInCRDs(o *incomingObject, p *Prepared) bool {
	if p.Phases[o.position.phase].Kind != event.PhaseCRDs || p.Target.CRDs.Upgrade {
		return false
	}
	exists, _ := v.existing(kindOf(o.Object), []string{o.Name})
	return exists[o.Name]
}

// tryFields sends an object as a dry run. It returns no faults if the API server accepts its fields, or gives another
// reason for a refusal, which may go away.
func (v *clusterView) tryFields(o *incomingObject, clientSide bool) (none fieldFaults) {
	mapping, err := v.mapper.RESTMapping(o.gvk.GroupKind(), o.gvk.Version)
	if err != nil {
		return none // CheckKinds reports it
	}
	u := &unstructured.Unstructured{Object: o.fields}
	client := v.Client.Dynamic.Resource(mapping.Resource).Namespace(o.Namespace)
	dryRun := []string{metav1.DryRunAll}
	if clientSide || u.GetName() == "" {
		_, err = client.Create(v.Context, u, metav1.CreateOptions{
			DryRun: dryRun, FieldManager: connect.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	} else {
		data, _ := u.MarshalJSON() // it was decoded from YAML
		force := true
		_, err = client.Patch(v.Context, o.Name, types.ApplyPatchType, data, metav1.PatchOptions{
			DryRun: dryRun, Force: &force, FieldManager: connect.FieldManager, FieldValidation: metav1.FieldValidationStrict})
	}
	if answer := apierrors.APIStatus(nil); errors.As(err, &answer) {
		return fieldFaultsIn(diagnose.Explain(err).Error())
	}
	return none
}

var (
	// typedPatch and strictDecoding match the messages of server-side apply and of other writes.
	typedPatch     = regexp.MustCompile(`(?s)^failed to create typed patch object \(.*?; .*?, Kind=[^)]*\): (?:errors:)?(.*)$`)
	strictDecoding = regexp.MustCompile(`(?s)strict decoding error: (.*)$`)
	unknownField   = regexp.MustCompile(`^unknown field "(.*)"$`)
	// undecodable matches the messages about a value that cannot be decoded. They do not name its field.
	undecodable = regexp.MustCompile(`(?:unable to convert unstructured object to .*?, Kind=\S+: (?:error decoding from json: )?|` +
		`cannot be handled as a \S+: )(.*)$`)
)

// fieldFaultsIn returns the faults of fields in a message of the API server, in the same words for each way to write.
func fieldFaultsIn(message string) (faults fieldFaults) {
	var lines []string
	if m := typedPatch.FindStringSubmatch(message); m != nil {
		lines = strings.Split(m[1], "\n")
	} else if m := strictDecoding.FindStringSubmatch(message); m != nil {
		lines = strings.Split(m[1], ", ")
	} else if m := undecodable.FindStringSubmatch(message); m != nil {
		return fieldFaults{texts: []string{"a value cannot be decoded: " + m[1]}, undecodable: true}
	}
	for _, line := range lines {
		line = strings.TrimPrefix(strings.TrimSpace(line), ".")
		if field, ok := strings.CutSuffix(line, ": field not declared in schema"); ok {
			line = "unknown field " + field
		} else if m := unknownField.FindStringSubmatch(line); m != nil {
			line = "unknown field " + m[1]
		}
		if line != "" {
			faults.texts = append(faults.texts, line)
		}
	}
	return faults
}
