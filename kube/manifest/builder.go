// Package manifest makes the objects of a manifest's text: it owns each
// resource.Info, what is known of it beyond that, its API, which may be found
// only once its group starts, and the names that the API server makes up.
package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/plan"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
	"lockstep/kube/documents"
	"lockstep/kube/status"
)

const factPrefix = "lockstep#"

// Builder turns manifests into resource.Infos. It is in for Helm's Build:
// with kinds resolved late (R29), one REST client per group and version, and
// kind List flattened. It may be used by several goroutines.
type Builder struct {
	client *connect.Client
	helm   *connect.Helm
	reader *documents.Reader
	scope  Scope
	known  *knowledge
}

// knowledge is what builders of one operation share.
type knowledge struct {
	mu      sync.Mutex
	facts   map[string]*Fact
	keys    int // that facts have been given
	clients map[schema.GroupVersion]resource.RESTClient
}

// Scope says what manifests are built for.
type Scope struct {
	// Release owns the objects, in the namespace of that name where they name
	// none of their own. Release is empty if that is not known.
	Release, Namespace string
	// Root is the chart path of what has lost its source (R6).
	Root string
}

// Owner returns the release as OwnerOf names it, empty if it is not known.
func (s Scope) Owner() string {
	if s.Release == "" {
		return ""
	}
	return Owner(s.Release, s.Namespace)
}

// NewBuilder returns a builder that finds kinds with the client, and reads manifests
// by a reader, nil for one that remembers nothing.
func NewBuilder(client *connect.Client, helm *connect.Helm, r *documents.Reader, scope Scope) *Builder {
	return &Builder{client: client, helm: helm, reader: r, scope: scope,
		known: &knowledge{facts: map[string]*Fact{}, clients: map[schema.GroupVersion]resource.RESTClient{}}}
}

// For returns the builder for another scope. Both know the objects of both.
func (b *Builder) For(scope Scope) *Builder {
	return &Builder{client: b.client, helm: b.helm, reader: b.reader, scope: scope, known: b.known}
}

// Scope says what the builder's manifests are built for.
func (b *Builder) Scope() Scope { return b.scope }

// Build makes the Infos of a manifest, in its order. The error names all objects
// of kinds that the cluster does not have.
func (b *Builder) Build(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	return b.build(manifest, false)
}

// BuildTarget returns Build for checks, which tell of kinds that the cluster does not
// have together with all else: they count as late (R29).
func (b *Builder) BuildTarget(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	return b.build(manifest, true)
}

// Anew returns BuildTarget once the cluster has got kinds that it did not know.
func (b *Builder) Anew(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	mapper, err := b.client.Getter.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	meta.MaybeResetRESTMapper(mapper)
	return b.build(manifest, true)
}

func (b *Builder) build(manifest string, lenient bool) (helmkube.ResourceList, []plan.Warning, error) {
	docs, warnings, err := charts.ParseBy(b.reader, manifest, rootOf(manifest, b.scope.Root))
	if err != nil {
		return nil, nil, err
	}
	mapper, err := b.client.Getter.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	brought := broughtKinds(docs)
	list := make(helmkube.ResourceList, 0, len(docs))
	maps := map[schema.GroupVersionKind]*meta.RESTMapping{}
	var unknown []error
	for _, d := range docs {
		gvk := d.Object.GroupVersionKind()
		mapping, late := maps[gvk], false
		if mapping == nil {
			mapping, late, err = mapKind(mapper, gvk, brought)
			if meta.IsNoMatchError(err) && lenient {
				mapping, late, err = guessed(gvk), true, nil
			}
			if err != nil {
				err = fmt.Errorf("find the API of %s/%s (%s): %w", gvk.Kind, d.Object.GetName(), d.Source, err)
			}
			if hint := Removed(gvk); meta.IsNoMatchError(err) {
				unknown = append(unknown, fmt.Errorf("%w%s", err, hint))
				continue
			}
			if err != nil {
				return nil, nil, err
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
	return list, warnings, errors.Join(unknown...)
}

// rootOf returns the chart that a manifest is of: the one that its templates are
// named after, which a revision of another chart has other than the present
// one, or where all have lost their names (R6) the given one.
func rootOf(manifest, otherwise string) string {
	_, rest, found := strings.Cut(manifest, "# Source: ")
	if root, _, ok := strings.Cut(rest, "/"); found && ok && !strings.ContainsAny(root, " \n") {
		return root
	}
	return otherwise
}

func (b *Builder) info(d charts.Document, mapping *meta.RESTMapping, late bool) (*resource.Info, error) {
	u := d.Object
	if u.GetName() == "" && u.GetGenerateName() == "" {
		return nil, fmt.Errorf("%s: %s has no metadata.name", d.Source, u.GetKind())
	}
	for _, field := range []string{"labels", "annotations"} {
		// Rule R2a: what has no value is taken, as Helm takes it; a number is not.
		if _, _, err := unstructured.NestedNullCoercingStringMap(u.Object, "metadata", field); err != nil {
			return nil, fmt.Errorf("%s: %s/%s: metadata.%s must contain strings; quote numbers and booleans: %w", d.Source, u.GetKind(), u.GetName(), field, err)
		}
	}
	client, err := b.RESTClient(mapping)
	if err != nil {
		return nil, err
	}
	setNamespace(u, mapping, b.scope.Namespace)
	scope := func(schema.GroupVersionKind) bool { return mapping.Scope.Name() == meta.RESTScopeNameNamespace }
	res := charts.Resources([]charts.Document{d}, b.scope.Namespace, scope)[0]
	rule, _, _ := status.ParseRule(res.Annotations) // the plan has the warnings and the errors
	strip(u)
	generate := u.GetName() == ""
	f := &Fact{Resource: res, Rule: rule, Late: late, Generated: generate}
	f.before.Known = late || generate
	key := b.remember(f)
	return &resource.Info{Client: client, Mapping: mapping, Namespace: u.GetNamespace(), Name: u.GetName(), Source: key, Object: u}, nil
}

// remember keeps a fact and returns the key that leads to it.
func (b *Builder) remember(f *Fact) string {
	b.known.mu.Lock()
	defer b.known.mu.Unlock()
	b.known.keys++ // never used twice: facts are also forgotten
	key := fmt.Sprintf("%s%d", factPrefix, b.known.keys)
	b.known.facts[key] = f
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

// RESTClient returns the client for the API of a mapping.
func (b *Builder) RESTClient(mapping *meta.RESTMapping) (resource.RESTClient, error) {
	gv := mapping.GroupVersionKind.GroupVersion()
	b.known.mu.Lock()
	defer b.known.mu.Unlock()
	if c := b.known.clients[gv]; c != nil {
		return c, nil
	}
	c, err := b.helm.Factory.UnstructuredClientForMapping(mapping)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", gv, err)
	}
	b.known.clients[gv] = c
	return c, nil
}

// Fact returns what is known of an Info, or nil for one that is not ours.
func (b *Builder) Fact(info *resource.Info) *Fact {
	b.known.mu.Lock()
	defer b.known.mu.Unlock()
	return b.known.facts[info.Source]
}

// Forget leaves the objects of a list to somebody else.
func (b *Builder) Forget(list helmkube.ResourceList) {
	b.known.mu.Lock()
	defer b.known.mu.Unlock()
	for _, i := range list {
		delete(b.known.facts, i.Source)
	}
}

// Ours reports whether the list holds objects of the release: neither hooks
// nor what Helm writes besides.
func (b *Builder) Ours(list helmkube.ResourceList) bool {
	return slices.ContainsFunc(list, func(i *resource.Info) bool {
		f := b.Fact(i)
		return f != nil && !f.Hook
	})
}

// Resources returns the planner's view of a list.
func (b *Builder) Resources(list helmkube.ResourceList) []plan.Resource {
	var out []plan.Resource
	for _, i := range list {
		if f := b.Fact(i); f != nil {
			out = append(out, f.Resource)
		}
	}
	return out
}
