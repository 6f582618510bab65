package charts

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/documents"
)

// Document is one object of a rendered manifest.
type Document struct {
	// Source is the name of the template, from Helm's "# Source:" comment.
	Source string
	// Chart is the chart path, "shop/db" (R6).
	Chart  string
	Object *unstructured.Unstructured
	// Raw is the text, without the comment.
	Raw string
	// index counts the objects with the same generateName, from 0.
	index int
}

// ParseManifest returns the objects of a manifest in its order, with the items of lists instead
// of the lists. It keeps duplicates. root is the name of the root chart. Objects without a usable
// Source comment, for example because a post-renderer dropped it, belong to the root chart, with a
// warning.
//
// Rule R6: a resource belongs to the chart in its Source comment, else to the root chart.
func ParseManifest(manifest, root string) ([]Document, []plan.Warning, error) {
	return ParseManifestWith(nil, manifest, root)
}

// ParseManifestWith is like ParseManifest, with a reader that caches documents.
func ParseManifestWith(r *documents.Reader, manifest, root string) ([]Document, []plan.Warning, error) {
	docs, _, warnings, err := parseDocuments(nil, r, manifest, root, false)
	return docs, warnings, err
}

// errNoKind matches errors about a document without apiVersion or kind, for errors.Is.
var errNoKind = errors.New("no kind or apiVersion")

// noTypeError names a document and the fields that it lacks.
type noTypeError struct{ document, fields, advice string }

func (e noTypeError) Error() string { return e.document + " has no " + e.fields + "; " + e.advice }

func (e noTypeError) Is(target error) bool { return target == errNoKind }

// missingType returns the error about an object that lacks its kind, apiVersion or both.
func missingType(d Document) error {
	e := noTypeError{document: "the document named " + d.Object.GetName(), fields: "apiVersion", advice: "add it"}
	if d.Object.GetName() == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(d.Raw), "\n")
		e.document = fmt.Sprintf("the document that starts with %.80q", first)
	}
	switch {
	case d.Object.GetKind() == "" && d.Object.GetAPIVersion() == "":
		e.fields, e.advice = "apiVersion and no kind", "add both"
	case d.Object.GetKind() == "":
		e.fields = "kind"
	}
	return e
}

// parseDocuments is like ParseManifestWith, but also returns the documents without an object: those
// with only comments and, if kindless is set, those without a kind, which are otherwise an error. parsed are the documents if they
// have been parsed.
func parseDocuments(parsed []documents.Value, r *documents.Reader, manifest, root string, kindless bool) (
	docs, others []Document, warnings []plan.Warning, err error) {
	var noSource []string
	texts := documents.Split(manifest)
	sources := make([]string, len(texts))
	for i, text := range texts {
		sources[i], texts[i] = documents.CutSource(text)
	}
	if len(parsed) != len(texts) {
		parsed = r.ParseAll(texts)
	}
	for i, value := range parsed {
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
				noSource = append(noSource, d.Object.GetKind()+"/"+d.Object.GetName())
			}
		}
		docs = append(docs, found...)
	}
	numberGenerated(docs)
	return docs, others, noSourceWarning(noSource, root), nil
}

// numberGenerated sets the index of objects with a generateName. Two of them are two objects,
// not duplicates.
func numberGenerated(docs []Document) {
	type key struct{ group, kind, prefix string }
	seen := map[key]int{}
	for i, d := range docs {
		if d.Object.GetName() == "" {
			gvk := d.Object.GroupVersionKind()
			k := key{gvk.Group, gvk.Kind, d.Object.GetGenerateName()}
			docs[i].index = seen[k]
			seen[k]++
		}
	}
}

// CRDs returns the objects in crds/ of the chart and of the subcharts that the values enable, in the order
// in which Helm applies them. An object that several charts contain is returned once: from the last of them, because Helm
// applies one after the other, or with clientSide from the first, because Helm then leaves existing CRDs as they are.
func (c *Chart) CRDs(values map[string]any, clientSide bool) ([]Document, error) {
	h, err := c.processed(values)
	if err != nil {
		return nil, err
	}
	docs, err := crdsOf(h)
	if err != nil {
		return nil, err
	}
	positions := map[plan.Object]int{}
	var distinct []Document
	for i, r := range Resources(docs, "", OfflineScope(docs...)) {
		if at, repeated := positions[r.Object]; repeated {
			if !clientSide {
				distinct[at] = docs[i]
			}
			continue
		}
		positions[r.Object] = len(distinct)
		distinct = append(distinct, docs[i])
	}
	return distinct, nil
}

// RenderedCRDs is like Chart.CRDs for a release that Helm has rendered, but also returns repeated objects,
// which "helm template" prints.
func RenderedCRDs(rel *release.Release) ([]Document, error) { return crdsOf(rel.Chart) }

// CRDNames returns the names of the CRDs in crds/ of a release's chart. Those that cannot be read are left out.
func CRDNames(rel *release.Release) map[string]bool {
	docs, _ := crdsOf(rel.Chart)
	names := map[string]bool{}
	for _, d := range docs {
		if d.Object.GetKind() == "CustomResourceDefinition" {
			names[d.Object.GetName()] = true
		}
	}
	return names
}

// crdsOf returns the objects in crds/ of a chart whose dependencies Helm has processed. Before that, the
// chart still has its disabled subcharts.
func crdsOf(processed *chart.Chart) ([]Document, error) {
	var docs []Document
	for _, crd := range processed.CRDObjects() {
		in, _ := chartPath(crd.Filename, processed.Name())
		d := Document{Source: crd.Filename, Chart: in}
		texts := documents.Split(string(crd.File.Data))
		for i, value := range (*documents.Reader)(nil).ParseAll(texts) {
			d.Raw = texts[i]
			found, err := parseValue(d, value)
			if err != nil {
				return nil, err
			}
			docs = append(docs, found...)
		}
	}
	return docs, nil
}

// chartPath returns the chart path of a template: shop/db for the template
// shop/charts/db/templates/x.yaml of the root chart shop.
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

// parseValue returns the objects in v, the decoded d.Raw: none if it has only comments, several
// for a list.
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

// parseObject returns the objects in object, the decoded d.Raw.
func parseObject(d Document, object map[string]any) ([]Document, error) {
	if len(object) == 0 {
		return nil, nil
	}
	d.Object = &unstructured.Unstructured{Object: object}
	if d.Object.GetKind() == "" || d.Object.GetAPIVersion() == "" {
		return nil, fmt.Errorf("%s: %w", d.Source, missingType(d))
	}
	if !d.Object.IsList() {
		return []Document{d}, nil
	}
	return parseItems(d)
}

// parseItems returns the items of a list. The items of a typed list, such as ConfigMapList,
// may omit kind and apiVersion.
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
		var raw []byte
		if inner := (&unstructured.Unstructured{Object: object}); !inner.IsList() { // the text of a list is not used
			var err error
			if raw, err = yaml.Marshal(object); err != nil {
				return nil, fmt.Errorf("%s: item %d: %w", d.Source, i, err)
			}
		}
		found, err := parseObject(Document{Source: d.Source, Chart: d.Chart, Raw: string(raw)}, object)
		if err != nil {
			return nil, err
		}
		docs = append(docs, found...)
	}
	return docs, nil
}

// CheckReadable returns an error for each document of a manifest that Helm's install refuses although ParseManifest reads it, because a
// stored manifest may have it: a list as an item of another, and an object without any field. Helm could not read the release again,
// for its status or to remove it (R2a).
func CheckReadable(r *documents.Reader, manifest string) (errs []error) {
	return checkReadable(r, manifest, nil)
}

// checkReadable is CheckReadable without the documents that are known to be readable.
func checkReadable(r *documents.Reader, manifest string, readable map[string]bool) (errs []error) {
	for _, doc := range documents.Split(manifest) {
		source, raw := documents.CutSource(doc)
		if readable[raw] || !strings.Contains(raw, "items") && !strings.Contains(raw, "{") {
			continue
		}
		value, _ := r.Parse(raw) // ParseManifest reports the error
		object, isObject := value.(map[string]any)
		if isObject && len(object) == 0 {
			errs = append(errs, fmt.Errorf("%s: an empty object ({}), which Helm cannot read: remove it, or let the template render nothing there", source))
		}
		items, _ := object["items"].([]any)
		for i, item := range items {
			inner, _ := item.(map[string]any)
			switch u := (&unstructured.Unstructured{Object: inner}); {
			case u.IsList():
				errs = append(errs, fmt.Errorf("%s: item %d of the %v is a list itself (%s), which Helm cannot read: put the items of the inner list into the outer one, or write them as documents of their own",
					source, i, object["kind"], cmp.Or(u.GetKind(), "without a kind")))
			case inner != nil && len(inner) == 0 && object["kind"] == "List":
				errs = append(errs, fmt.Errorf("%s: item %d of the List is an empty object ({}), which Helm cannot read: remove it", source, i))
			}
		}
	}
	return errs
}

// noSourceWarning returns one warning about all objects whose chart is unknown (R6), nil if there are
// none.
func noSourceWarning(noSource []string, root string) []plan.Warning {
	if len(noSource) == 0 {
		return nil
	}
	first := strings.Join(noSource[:min(len(noSource), 3)], ", ")
	if len(noSource) > 3 {
		first += ", …"
	}
	return []plan.Warning{{Rule: "R6", Chart: root, Message: fmt.Sprintf(
		"%s: no comment names the chart of %s (%s), so lockstep assumes %[1]s; configure the post-renderer to keep comments", root, text.Count(len(noSource), "object"), first)}}
}
