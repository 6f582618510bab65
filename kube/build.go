package kube

import (
	"fmt"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/status"
)

// fact is what is known of an object beyond its resource.Info. Info.Source
// holds its key, which survives the copies that Helm makes of an Info.
type fact struct {
	// resource is the object with the annotations it was rendered with; some
	// of them cannot be sent to a cluster (R3).
	resource plan.Resource
	rule     status.Rule
	// sent is the object as it was sent the first time: the answer takes its
	// place in the Info, and cannot be sent again (R44).
	sent *unstructured.Unstructured
	// late means that the cluster did not know the kind at Build (R29).
	late bool
	// bare objects lack the label that Helm gives to release objects.
	bare bool
	// scoped is the hook in the plan that the object belongs to, or nil.
	scoped *scopedHook
	// hook is the unit that the object belongs to, nil for release objects.
	hook *hookUnit
	// known tells that before was looked up: the resourceVersion the object
	// had before the operation, empty where it was not there.
	known  bool
	before string
	// owner is the release that the object belonged to then, as owner has it.
	owner string
	// generate means that the object has no name but a generateName, which is
	// its name in resource.
	generate bool
}

const factPrefix = "lockstep#"

// builder turns manifests into resource.Infos. It stands in for Helm's Build:
// with kinds resolved late (R29), one REST client per group and version, and
// kind List flattened.
type builder struct {
	client    *Client
	factory   cmdutil.Factory
	namespace string // of the release
	root      string // chart path of what has lost its source (R6)
	facts     map[string]*fact
	keys      int // that facts have been given
	clients   map[schema.GroupVersion]resource.RESTClient
}

func newBuilder(c *Client, factory cmdutil.Factory, namespace, root string) *builder {
	return &builder{client: c, factory: factory, namespace: namespace, root: root,
		facts: map[string]*fact{}, clients: map[schema.GroupVersion]resource.RESTClient{}}
}

// build makes the Infos of a manifest, in its order.
func (b *builder) build(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	docs, warnings, err := charts.Parse(manifest, rootOf(manifest, b.root))
	if err != nil {
		return nil, nil, err
	}
	mapper, err := b.client.getter.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	brought := broughtKinds(docs)
	list := make(helmkube.ResourceList, 0, len(docs))
	maps := map[schema.GroupVersionKind]*meta.RESTMapping{}
	for _, d := range docs {
		gvk := d.Object.GroupVersionKind()
		mapping, late := maps[gvk], false
		if mapping == nil {
			if mapping, late, err = mapKind(mapper, gvk, brought); err != nil {
				return nil, nil, fmt.Errorf("find the API of %s/%s (%s): %w", gvk.Kind, d.Object.GetName(), d.Source, err)
			}
			if !late {
				maps[gvk] = mapping
			}
		}
		info, err := b.info(d, mapping, late)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, info)
	}
	return list, warnings, nil
}

// rootOf is the chart that a manifest is of: the one that its templates are
// named after, which a revision of another chart has other than the present
// one, or where all have lost their names (R6) the given one.
func rootOf(manifest, otherwise string) string {
	_, rest, found := strings.Cut(manifest, "# Source: ")
	if root, _, ok := strings.Cut(rest, "/"); found && ok && !strings.ContainsAny(root, " \n") {
		return root
	}
	return otherwise
}

func (b *builder) info(d charts.Document, mapping *meta.RESTMapping, late bool) (*resource.Info, error) {
	u := d.Object
	if u.GetName() == "" && u.GetGenerateName() == "" {
		return nil, fmt.Errorf("%s: %s has no metadata.name", d.Source, u.GetKind())
	}
	for _, field := range []string{"labels", "annotations"} {
		// Rule R2a: what has no value is taken, as Helm takes it; a number is not.
		if _, _, err := unstructured.NestedNullCoercingStringMap(u.Object, "metadata", field); err != nil {
			return nil, fmt.Errorf("%s: %s/%s: metadata.%s must hold strings, quote what is a number or a boolean: %w", d.Source, u.GetKind(), u.GetName(), field, err)
		}
	}
	client, err := b.restClient(mapping)
	if err != nil {
		return nil, err
	}
	setNamespace(u, mapping, b.namespace)
	scope := func(schema.GroupVersionKind) bool { return mapping.Scope.Name() == meta.RESTScopeNameNamespace }
	res := charts.Resources([]charts.Document{d}, b.namespace, scope)[0]
	rule, _, _ := status.ParseRule(res.Annotations) // the plan has the warnings and the errors
	stripKeys(u)
	generate := u.GetName() == ""
	key := b.remember(&fact{resource: res, rule: rule, late: late, known: late || generate, generate: generate})
	return &resource.Info{Client: client, Mapping: mapping, Namespace: u.GetNamespace(), Name: u.GetName(), Source: key, Object: u}, nil
}

// remember keeps a fact and returns the key that leads to it.
func (b *builder) remember(f *fact) string {
	b.keys++ // never used twice: facts are also forgotten
	key := fmt.Sprintf("%s%d", factPrefix, b.keys)
	b.facts[key] = f
	return key
}

// setNamespace gives a namespaced object without one that of the release, and
// takes it away from an object of cluster scope.
func setNamespace(u *unstructured.Unstructured, mapping *meta.RESTMapping, namespace string) {
	switch {
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		u.SetNamespace("")
	case u.GetNamespace() == "":
		u.SetNamespace(namespace)
	}
}

func (b *builder) restClient(mapping *meta.RESTMapping) (resource.RESTClient, error) {
	gv := mapping.GroupVersionKind.GroupVersion()
	if c := b.clients[gv]; c != nil {
		return c, nil
	}
	c, err := b.factory.UnstructuredClientForMapping(mapping)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", gv, err)
	}
	b.clients[gv] = c
	return c, nil
}

// fact returns what is known of an Info, or nil for one that is not ours.
func (b *builder) fact(info *resource.Info) *fact { return b.facts[info.Source] }

// ours reports whether the list holds objects of the release: neither hooks
// nor what Helm writes besides.
func (b *builder) ours(list helmkube.ResourceList) bool {
	return slices.ContainsFunc(list, func(i *resource.Info) bool {
		f := b.fact(i)
		return f != nil && f.hook == nil
	})
}

// resources are the planner's view of a list.
func (b *builder) resources(list helmkube.ResourceList) []plan.Resource {
	var out []plan.Resource
	for _, i := range list {
		if f := b.fact(i); f != nil {
			out = append(out, f.resource)
		}
	}
	return out
}

// mapKind finds the API of a kind. One that the cluster does not know yet is
// taken from a CRD of the same manifest, or else guessed; late then says that
// it has to be looked up again when its group starts (R17, R29).
func mapKind(mapper meta.RESTMapper, gvk schema.GroupVersionKind, brought map[schema.GroupVersionKind]*meta.RESTMapping) (mapping *meta.RESTMapping, late bool, err error) {
	if gvk.Kind == "" || gvk.Version == "" {
		return nil, false, fmt.Errorf("kind and apiVersion must be set")
	}
	mapping, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case err == nil:
		return mapping, false, nil
	case !meta.IsNoMatchError(err):
		return nil, false, err
	case brought[gvk] != nil:
		return brought[gvk], true, nil
	}
	if !strings.Contains(gvk.Group, ".") {
		return nil, false, err // no CRD can bring a built-in kind
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return &meta.RESTMapping{Resource: plural, GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace}, true, nil
}

// broughtKinds are the kinds that CRDs among the documents bring.
func broughtKinds(docs []charts.Document) map[schema.GroupVersionKind]*meta.RESTMapping {
	out := map[schema.GroupVersionKind]*meta.RESTMapping{}
	for _, d := range docs {
		u := d.Object
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		at := func(path ...string) string {
			s, _, _ := unstructured.NestedString(u.Object, path...)
			return s
		}
		scope := meta.RESTScopeNamespace
		if at("spec", "scope") == "Cluster" {
			scope = meta.RESTScopeRoot
		}
		versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
		for _, v := range versions {
			m, _ := v.(map[string]any)
			name, _ := m["name"].(string)
			gvk := schema.GroupVersionKind{Group: at("spec", "group"), Version: name, Kind: at("spec", "names", "kind")}
			out[gvk] = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(at("spec", "names", "plural")), GroupVersionKind: gvk, Scope: scope}
		}
	}
	return out
}

// stripKeys removes the annotations whose keys the API server refuses, and the
// same ones in the spelling of a stored manifest: a rollback, which starts from
// that, then sends what the installation sent. The others stay as they are,
// those without a value too.
//
// Rule R3: two slashes in a key never reach the cluster.
func stripKeys(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	n := len(annotations)
	for k := range annotations {
		if strings.Count(k, "/") > 1 {
			delete(annotations, k)
		}
	}
	for _, k := range plan.TwoSlashKeys() {
		delete(annotations, plan.StoredKey(k))
	}
	if len(annotations) == 0 && n > 0 {
		delete(metadata, "annotations")
	}
}
