package charts

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"lockstep/engine/plan"
	"lockstep/kube/documents"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Document is one object of a rendered manifest.
type Document struct {
	// Source is the template, as in Helm's "# Source:" comment.
	Source string
	// Chart is the chart path, "shop/db" (R6).
	Chart  string
	Object *unstructured.Unstructured
	// Raw is the text, without the comment.
	Raw string
	// again is how many objects of the same generateName come before this one.
	again int
}

// Parse cuts the manifest of a release of the chart root into objects, in the
// order in which they come. Lists are taken apart; an object that comes twice
// is there twice. Objects whose origin is lost, to a post-renderer for
// instance, are counted as the root chart's, with a warning (R6).
//
// Rule R6: a resource is of the chart that its Source comment names, else of the root.
func Parse(manifest, root string) ([]Document, []plan.Warning, error) {
	return ParseBy(nil, manifest, root)
}

// ParseBy returns Parse by a reader that may know the documents.
func ParseBy(r *documents.Reader, manifest, root string) ([]Document, []plan.Warning, error) {
	docs, _, warnings, err := parseManifest(r, manifest, root, false)
	return docs, warnings, err
}

// errNoKind is the error about a document that has no kind or no apiVersion.
var errNoKind = errors.New("document has no apiVersion or kind")

// parseManifest returns Parse, which also returns the documents that hold no object:
// nothing but comments, and where kindless is set what has no kind.
func parseManifest(r *documents.Reader, manifest, root string, kindless bool) (docs, others []Document, _ []plan.Warning, _ error) {
	var lost []string
	texts := documents.Split(manifest)
	sources := make([]string, len(texts))
	for i, text := range texts {
		sources[i], texts[i] = documents.CutSource(text)
	}
	for i, value := range r.Read(texts) {
		chart, ok := chartPath(sources[i], root)
		if !ok {
			chart = root
		}
		doc := Document{Source: sources[i], Chart: chart, Raw: texts[i]}
		found, err := parseValue(doc, value)
		if err != nil && !(kindless && errors.Is(err, errNoKind)) {
			return nil, nil, nil, err
		}
		if err != nil || len(found) == 0 {
			others = append(others, doc)
			continue
		}
		for _, d := range found {
			if !ok {
				lost = append(lost, d.Object.GetKind()+"/"+d.Object.GetName())
			}
		}
		docs = append(docs, found...)
	}
	countGenerated(docs)
	return docs, others, lostWarning(lost, root), nil
}

// countGenerated tells objects of one generateName apart: each is one of its
// own, and no copy of the first.
func countGenerated(docs []Document) {
	type maker struct{ group, kind, prefix string }
	seen := map[maker]int{}
	for i, d := range docs {
		if d.Object.GetName() == "" {
			gvk := d.Object.GroupVersionKind()
			m := maker{gvk.Group, gvk.Kind, d.Object.GetGenerateName()}
			docs[i].again = seen[m]
			seen[m]++
		}
	}
}

// CRDs returns the objects in crds/ of the chart and the charts below it, in
// the order in which Helm creates them.
func CRDs(c *chart.Chart) ([]Document, error) {
	var docs []Document
	for _, crd := range c.CRDObjects() {
		at := path.Dir(path.Dir(crd.Filename))
		texts := documents.Split(string(crd.File.Data))
		for i, value := range (*documents.Reader)(nil).Read(texts) {
			found, err := parseValue(Document{
				Source: crd.Filename, Chart: strings.ReplaceAll(at, "/charts/", "/"), Raw: texts[i],
			}, value)
			if err != nil {
				return nil, err
			}
			docs = append(docs, found...)
		}
	}
	return docs, nil
}

// chartPath returns the chart path of a template of the chart root:
// shop/charts/db/templates/x.yaml is of shop/db.
func chartPath(source, root string) (string, bool) {
	parts := strings.Split(source, "/")
	if parts[0] != root {
		return "", false
	}
	chart, parts := root, parts[1:]
	for len(parts) > 2 && parts[0] == "charts" {
		chart, parts = chart+"/"+parts[1], parts[2:]
	}
	return chart, len(parts) > 1 && parts[0] == "templates"
}

// parseValue returns the objects in the value of d.Raw: none if there is nothing
// but comment, several where it is a list.
func parseValue(d Document, v documents.Value) ([]Document, error) {
	if v.Err != nil {
		return nil, fmt.Errorf("%s: %w", d.Source, v.Err)
	}
	if v.Value == nil {
		return nil, nil
	}
	object, ok := v.Value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: not a Kubernetes object: %.40q", d.Source, strings.TrimSpace(d.Raw))
	}
	return parseObject(d, object)
}

// parseObject returns the objects in the one that is the value of d.Raw.
func parseObject(d Document, object map[string]any) ([]Document, error) {
	if len(object) == 0 {
		return nil, nil
	}
	d.Object = &unstructured.Unstructured{Object: object}
	if d.Object.GetKind() == "" || d.Object.GetAPIVersion() == "" {
		return nil, fmt.Errorf("%s: %w: %.40q", d.Source, errNoKind, strings.TrimSpace(d.Raw))
	}
	if !d.Object.IsList() {
		return []Document{d}, nil
	}
	return parseItems(d)
}

// parseItems takes a list apart. In a list of one kind the items may leave out
// what they are.
func parseItems(d Document) ([]Document, error) {
	itemKind := strings.TrimSuffix(d.Object.GetKind(), "List")
	items, _ := d.Object.Object["items"].([]any)
	var docs []Document
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: item %d of the %s is not an object", d.Source, i, d.Object.GetKind())
		}
		if object["kind"] == nil && itemKind != "" {
			object["kind"], object["apiVersion"] = itemKind, d.Object.GetAPIVersion()
		}
		raw := ""
		if inner := (&unstructured.Unstructured{Object: object}); !inner.IsList() { // nobody needs the text of a list
			text, err := yaml.Marshal(object)
			if err != nil {
				return nil, fmt.Errorf("%s: item %d: %w", d.Source, i, err)
			}
			raw = string(text)
		}
		found, err := parseObject(Document{Source: d.Source, Chart: d.Chart, Raw: raw}, object)
		if err != nil {
			return nil, err
		}
		docs = append(docs, found...)
	}
	return docs, nil
}

// lostWarning returns the one warning of R6 about all objects whose chart is not
// known.
func lostWarning(lost []string, root string) []plan.Warning {
	if len(lost) == 0 {
		return nil
	}
	first := join(lost[:min(len(lost), 3)])
	if len(lost) > 3 {
		first += ", …"
	}
	return []plan.Warning{{Rule: "R6", Chart: root, Message: fmt.Sprintf(
		"%s: %d objects lost the comment that names their chart (%s); they count as this chart's own", root, len(lost), first)}}
}
