package session

import (
	"fmt"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/helmclient"
	"lockstep/kube/manifest"
)

// The names of the phases before Helm's action.
const (
	PhaseNamespace = "namespace"
	PhaseCRDs      = "crds"
)

// CRDs are the objects in crds/ that an operation applies, and how. The zero value ignores crds/.
type CRDs struct {
	Root      string            // the name of the root chart
	Namespace string            // of objects without one
	Docs      []charts.Document // from charts.Chart.CRDs
	Upgrade   bool              // also apply all objects that exist
	Leave     bool              // apply none that exists, as Helm does with client-side apply
	Force     bool              // take over fields from other managers
	// Existing are the CRDs that existed when preflight checked them, by name.
	Existing map[string]ExistingCRD
}

// ExistingCRD is an existing CRD in crds/ when it was checked, and whether the operation applies it.
type ExistingCRD struct {
	Generation int64
	Applies    bool
	Stays      string // why it is not applied although it would change, "" for no reason
}

// CRDKind is the kind of CRDs.
var CRDKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Applies reports whether the plan applies an object although it exists.
func (c CRDs) Applies(o plan.Object) bool {
	return c.Upgrade || c.isCRD(o) && c.Existing[o.Name].Applies
}

// Changed reports whether an existing object is a CRD that is not as it was checked, so it has to be checked again.
func (c CRDs) Changed(o plan.Object, s manifest.Seen) bool {
	return !c.Leave && c.isCRD(o) && c.Existing[o.Name].Generation != s.Generation
}

func (c CRDs) isCRD(o plan.Object) bool { return o.Group == CRDKind.Group && o.Kind == CRDKind.Kind }

// Checked returns the CRDs whose existing objects are checked before they are applied.
func (c CRDs) Checked() CRDs {
	c.Docs = slices.DeleteFunc(slices.Clone(c.Docs), func(d charts.Document) bool {
		kind := d.Object.GroupVersionKind()
		return c.Leave || kind.GroupKind() != CRDKind || kind.Version != "v1" && !c.Upgrade
	})
	return c
}

// Method returns how existing CRDs are updated.
func (c CRDs) Method() helmclient.Method { return helmclient.Method{Force: c.Force, Migrate: true} }

// Phases returns the phase that applies crds/, or none if crds/ has no objects.
func (c CRDs) Phases() []event.Phase {
	if len(c.Docs) == 0 {
		return nil
	}
	var objects []plan.Object
	for _, r := range charts.Resources(c.Docs, c.Namespace, charts.OfflineScope(c.Docs...)) {
		objects = append(objects, r.Object)
	}
	group := oneGroup("crds/", c.Root+":crds/", objects...)
	return []event.Phase{{Name: PhaseCRDs, Kind: event.PhaseCRDs, Groups: []*plan.Group{group}}}
}

// NamespacePhase returns the phase that creates the namespace.
func NamespacePhase(name string) event.Phase {
	g := oneGroup(PhaseNamespace, "namespace:"+name, plan.Object{Kind: "Namespace", Name: name})
	return event.Phase{Name: PhaseNamespace, Kind: event.PhaseNamespace, Groups: []*plan.Group{g}}
}

// NamespaceManifest returns the manifest of the namespace that the operation creates: the one in the target's own
// manifest, or else Helm's. owned is set for the former: it gets the label and annotations of the release, as
// Helm would refuse to adopt it later.
func (p *Prepared) NamespaceManifest() (manifest string, owned bool, err error) {
	name := p.Common.Namespace
	docs, _, err := charts.ParseManifestWith(p.Common.reader, p.Target.Release.Manifest, p.Target.Root())
	if err != nil {
		return "", false, fmt.Errorf("read the manifest of release %s: %w", p.Common.Release, err)
	}
	for _, d := range docs {
		if isNamespace(d.Object, name) {
			return "---\n# Source: " + d.Source + "\n" + d.Raw + "\n", true, nil
		}
	}
	return DefaultNamespace(name), false, nil
}

func isNamespace(u *unstructured.Unstructured, name string) bool {
	return u.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"} && u.GetName() == name
}

// DefaultNamespace returns the manifest of the namespace that --create-namespace creates in Helm.
func DefaultNamespace(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %q\n  labels:\n    name: %[1]q\n", name)
}

func oneGroup(name, id string, objects ...plan.Object) *plan.Group {
	return &plan.Group{ID: id, Name: name, After: []string{}, Objects: objects, Waves: []plan.Wave{{Count: len(objects)}}}
}

// Build builds the objects in crds/.
func (c CRDs) Build(b *manifest.Builder) (helmkube.ResourceList, error) {
	if len(c.Docs) == 0 {
		return nil, nil
	}
	var text strings.Builder
	for _, d := range c.Docs {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", d.Source, d.Raw)
	}
	list, _, err := b.Build(text.String())
	return list, err
}
