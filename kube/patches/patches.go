// Package patches changes rendered objects with kustomize's patches: JSON patches and strategic merge patches. The central
// types are Patch and the post-renderer that Renderer returns. An object that no patch changes keeps its text.
//
// kube/helmfile reads patches from a file.
package patches

import (
	"bytes"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/postrenderer"
	"sigs.k8s.io/kustomize/api/filters/patchjson6902"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
)

// Patch changes the objects that it selects.
type Patch struct {
	// at is where the patch is, for errors.
	at string
	// target selects the objects of a JSON patch, operations.
	target     *types.SelectorRegex
	labels     string
	operations string
	// merge is a strategic merge patch. It changes the object that it names.
	merge *resource.Resource
}

var factory = provider.NewDefaultDepProvider().GetResourceFactory()

// JSON reads a JSON patch: a target, and a list of operations under patch. at is where it is, for errors.
func JSON(at string, text []byte) (Patch, error) {
	var read struct {
		Target types.Selector `json:"target"`
		Patch  []any          `json:"patch"`
		Path   string         `json:"path"`
	}
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		return Patch{}, fmt.Errorf("%s: a JSON patch needs target and patch: %w", at, err)
	}
	switch {
	case read.Path != "":
		return Patch{}, fmt.Errorf("%s: lockstep does not read path; write the operations under patch", at)
	case len(read.Patch) == 0:
		return Patch{}, fmt.Errorf("%s: a JSON patch needs a list of operations under patch", at)
	case read.Target == (types.Selector{}):
		return Patch{}, fmt.Errorf("%s: a JSON patch needs a target, such as {kind: Deployment, name: web}", at)
	}
	operations, err := yaml.Marshal(read.Patch)
	if err != nil {
		return Patch{}, fmt.Errorf("%s: %w", at, err)
	}
	target, err := types.NewSelectorRegex(&read.Target)
	if err != nil {
		return Patch{}, fmt.Errorf("%s: target: %w", at, err)
	}
	p := Patch{at: at, target: target, labels: read.Target.LabelSelector, operations: string(operations)}
	if read.Target.AnnotationSelector != "" {
		return Patch{}, fmt.Errorf("%s: lockstep does not support annotationSelector; select by kind, name or labelSelector", at)
	}
	return p, nil
}

// StrategicMerge reads strategic merge patches: objects with the fields to change.
func StrategicMerge(at string, text []byte) (list []Patch, err error) {
	objects, err := factory.SliceFromBytes(text)
	if err != nil {
		return nil, fmt.Errorf("%s: a strategic merge patch needs apiVersion, kind and metadata.name: %w", at, err)
	}
	for _, o := range objects {
		list = append(list, Patch{at: at, merge: o})
	}
	return list, nil
}

// Renderer returns a post-renderer that applies patches, one after the other, and then calls next, unless that is nil. Without
// patches it is next.
func Renderer(list []Patch, next postrenderer.PostRenderer) postrenderer.PostRenderer {
	if len(list) == 0 {
		return next
	}
	return renderer{list, next}
}

type renderer struct {
	patches []Patch
	next    postrenderer.PostRenderer
}

// object is a document of a manifest.
type object struct {
	text    string
	parsed  *resource.Resource // nil if patches cannot change it
	changed bool
}

// Run implements postrenderer.PostRenderer.
func (r renderer) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	var objects []*object
	for _, doc := range documents.Split(manifests.String()) {
		objects = append(objects, parse(doc))
	}
	for _, p := range r.patches {
		if err := p.apply(objects); err != nil {
			return nil, fmt.Errorf("%s: %w", p.at, err)
		}
	}
	var out bytes.Buffer
	for _, o := range objects {
		text, err := o.result()
		if err != nil {
			return nil, err
		}
		if text != "" {
			out.WriteString("---\n" + strings.TrimSuffix(text, "\n") + "\n")
		}
	}
	if r.next != nil {
		return r.next.Run(&out)
	}
	return &out, nil
}

// parse parses a document. One that is no object with a name is not patched.
func parse(doc string) *object {
	o := &object{text: doc}
	if found, err := factory.SliceFromBytes([]byte(doc)); err == nil && len(found) == 1 {
		o.parsed = found[0]
	}
	return o
}

// result returns the text of an object, "" if a patch deleted it.
func (o *object) result() (string, error) {
	if !o.changed {
		return o.text, nil
	}
	if o.parsed.IsNilOrEmpty() {
		return "", nil
	}
	text, err := o.parsed.AsYAML()
	return string(text), err
}

// apply applies the patch to all objects that it selects.
func (p Patch) apply(objects []*object) error {
	found := false
	for _, o := range objects {
		if o.parsed == nil || o.parsed.IsNilOrEmpty() {
			continue
		}
		selected, err := p.selects(o.parsed)
		if err != nil {
			return err
		}
		if !selected {
			continue
		}
		found, o.changed = true, true
		if err := p.change(o.parsed); err != nil {
			return err
		}
	}
	if !found && p.merge != nil { // as in kustomize, a JSON patch may match nothing
		return fmt.Errorf("no object of the chart matches the patch of %s; correct its apiVersion, kind, name or namespace (objects in crds/ are not patched)", p.name())
	}
	return nil
}

// name names the object of a strategic merge patch.
func (p Patch) name() string { return p.merge.GetKind() + "/" + p.merge.GetName() }

func (p Patch) selects(r *resource.Resource) (bool, error) {
	if p.merge != nil {
		return r.CurId().Equals(p.merge.CurId()), nil
	}
	id := r.CurId()
	if !p.target.MatchNamespace(id.EffectiveNamespace()) && !p.target.MatchNamespace(id.Namespace) || !p.target.MatchName(id.Name) ||
		!p.target.MatchGvk(resid.GvkFromNode(&r.RNode)) {
		return false, nil
	}
	return r.MatchesLabelSelector(p.labels)
}

// kept are the annotations by which Helm finds the template of an object after a post-renderer.
const kept = "postrenderer.helm.sh/postrender-filename"

// change applies the patch to one object.
func (p Patch) change(r *resource.Resource) error {
	name, file := r.GetKind()+"/"+r.GetName(), r.GetAnnotations()[kept]
	if err := p.changeFields(r); err != nil {
		return fmt.Errorf("patch %s: %w", name, err)
	}
	annotations := r.GetAnnotations()
	if file == "" || r.IsNilOrEmpty() || annotations[kept] == file {
		return nil
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[kept] = file
	return r.SetAnnotations(annotations)
}

func (p Patch) changeFields(r *resource.Resource) error {
	if p.merge == nil {
		return r.ApplyFilter(patchjson6902.Filter{Patch: p.operations})
	}
	return r.ApplySmPatch(p.merge.DeepCopy())
}
