// Package manifest builds the objects of a manifest. A Builder returns resource.Infos and keeps a
// Fact about each: its annotations and readiness rule, its state in the cluster before the
// operation, and whether its kind or name is still unknown.
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
	"lockstep/kube/readiness"
)

// factPrefix starts the Source of an Info, which is the key of its Fact.
const factPrefix = "lockstep#"

// Builder builds resource.Infos from manifests. Unlike Helm's Build, it accepts kinds that a CRD
// defines later (R29), shares one REST client per group and version, and flattens lists. It may be
// used by several goroutines.
type Builder struct {
	client *connect.Client
	helm   *connect.Helm
	reader *documents.Reader
	scope  Scope
	shared *sharedState
}

// sharedState is shared by the builders of one operation.
type sharedState struct {
	mu      sync.Mutex
	facts   map[string]*Fact
	keys    int // the number of facts added so far
	clients map[schema.GroupVersion]resource.RESTClient
	// hasStatus says whether kinds have a status subresource, by the CRDs that the operation has applied.
	hasStatus map[schema.GroupVersionKind]bool
}

// Scope is the release that manifests are built for.
type Scope struct {
	// Release owns the objects, "" if unknown. Namespace is the default for objects without one.
	Release, Namespace string
	// Root is the chart path of objects without a Source comment (R6).
	Root string
	// Readiness is what the operator says about the readiness of objects, nil for nothing.
	Readiness *readiness.Operator
}

// Owner returns the release in the form that OwnerOf returns, "" if it is unknown.
func (s Scope) Owner() string {
	if s.Release == "" {
		return ""
	}
	return Owner(s.Release, s.Namespace)
}

// NewBuilder returns a builder that looks up kinds with the client and parses manifests with
// r, which may be nil.
func NewBuilder(client *connect.Client, helm *connect.Helm, r *documents.Reader, scope Scope) *Builder {
	return &Builder{client: client, helm: helm, reader: r, scope: scope,
		shared: &sharedState{facts: map[string]*Fact{}, clients: map[schema.GroupVersion]resource.RESTClient{},
			hasStatus: map[schema.GroupVersionKind]bool{}}}
}

// For returns a builder for another scope that shares all facts with b.
func (b *Builder) For(scope Scope) *Builder {
	return &Builder{client: b.client, helm: b.helm, reader: b.reader, scope: scope, shared: b.shared}
}

func (b *Builder) Scope() Scope { return b.scope }

// Build returns the Infos of a manifest, in its order. Objects of kinds that the cluster does not
// have but a CRD could define are late (R29); the error names all objects of other unknown kinds.
func (b *Builder) Build(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	return b.build(manifest, refuseUnknown)
}

// BuildTarget is like Build, but also marks objects of unknown built-in kinds as late instead of
// returning an error. The checks of preflight report those kinds.
func (b *Builder) BuildTarget(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	return b.build(manifest, acceptUnknown)
}

// BuildStored is like BuildTarget for the manifest of a stored revision: an object is in the version that the cluster serves of its
// kind, whatever its version in the record is (R28). The warnings say which are in another one.
func (b *Builder) BuildStored(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	return b.build(manifest, replaceUnknown)
}

// RebuildTarget is like BuildTarget, but first drops the cached list of the cluster's kinds.
func (b *Builder) RebuildTarget(manifest string) (helmkube.ResourceList, []plan.Warning, error) {
	mapper, err := b.client.Getter.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	meta.MaybeResetRESTMapper(mapper)
	return b.build(manifest, acceptUnknown)
}

// onUnknown says what becomes of an object in a version that the cluster does not serve.
type onUnknown int

const (
	refuseUnknown onUnknown = iota
	acceptUnknown
	replaceUnknown
)

// build is Build, BuildTarget or BuildStored.
func (b *Builder) build(manifest string, unknown onUnknown) (helmkube.ResourceList, []plan.Warning, error) {
	docs, warnings, err := charts.ParseManifestWith(b.reader, manifest, rootOf(manifest, b.scope.Root))
	if err != nil {
		return nil, nil, err
	}
	mapper, err := b.client.Getter.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	defined := DefinedKinds(docs)
	list := make(helmkube.ResourceList, 0, len(docs))
	mappings := map[schema.GroupVersionKind]*meta.RESTMapping{}
	var refused []error
	for _, d := range docs {
		gvk := d.Object.GroupVersionKind()
		mapping, late := mappings[gvk], false
		if mapping == nil {
			mapping, late, err = mapKind(mapper, gvk, defined)
			noMatch := meta.IsNoMatchError(err)
			if unknown == replaceUnknown && (noMatch || late && defined[gvk] == nil) {
				mapping, err = servedMapping(mapper, gvk)
				noMatch, late = meta.IsNoMatchError(err), false
			}
			if noMatch && unknown != refuseUnknown {
				mapping, late, err = guessMapping(gvk), true, nil
			}
			if err != nil {
				err = fmt.Errorf("find the API of %s/%s (%s): %w", gvk.Kind, d.Object.GetName(), d.Source, err)
				if !noMatch {
					return nil, nil, err
				}
				refused = append(refused, fmt.Errorf("%w%s", err, RemovalHint(gvk)))
				continue
			}
			if !late {
				mappings[gvk] = mapping
			}
		}
		if now := mapping.GroupVersionKind; now != gvk {
			d.Object.SetGroupVersionKind(now)
			warnings = append(warnings, plan.Warning{Rule: "R28", Message: fmt.Sprintf("%s/%s is recorded in %s, which the cluster no longer serves: it is sent in %s", gvk.Kind, d.Object.GetName(), gvk.GroupVersion(), now.GroupVersion())})
		}
		info, err := b.info(d, mapping, late)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, info)
	}
	return list, warnings, errors.Join(refused...)
}

// rootOf returns the name of a manifest's root chart from its first Source comment, because an old
// revision may have used another chart. It returns fallback if there is no such comment (R6).
func rootOf(manifest, fallback string) string {
	_, rest, found := strings.Cut(manifest, "# Source: ")
	if root, _, ok := strings.Cut(rest, "/"); found && ok && !strings.ContainsAny(root, " \n") {
		return root
	}
	return fallback
}

func (b *Builder) info(d charts.Document, mapping *meta.RESTMapping, late bool) (*resource.Info, error) {
	u := d.Object
	if err := d.Check(); err != nil {
		return nil, err
	}
	client, err := b.RESTClient(mapping)
	if err != nil {
		return nil, err
	}
	setNamespace(u, mapping, b.scope.Namespace)
	scope := func(schema.GroupVersionKind) bool { return mapping.Scope.Name() == meta.RESTScopeNameNamespace }
	res := charts.Resources([]charts.Document{d}, b.scope.Namespace, scope)[0]
	rule, _ := b.scope.Readiness.RuleOf(res.Object, res.Labels, res.Annotations) // plan.Build reports the error
	res.Wait = b.scope.Readiness.Wait(res.Object, res.Labels, res.Wait)
	res.Wait.By = string(rule.Own(u))
	res.WaitFor = b.Outside(res.WaitFor)
	respell(u)
	leaveAssigned(u)
	generated := u.GetName() == ""
	f := &Fact{Resource: res, Rule: rule, Late: late, Generated: generated}
	f.before.Known = late || generated
	key := b.addFact(f)
	return &resource.Info{Client: client, Mapping: mapping, Namespace: u.GetNamespace(), Name: u.GetName(), Source: key, Object: u}, nil
}

// addFact stores a fact and returns its key.
func (b *Builder) addFact(f *Fact) string {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	b.shared.keys++ // len(facts) would repeat keys, because Forget deletes facts
	key := fmt.Sprintf("%s%d", factPrefix, b.shared.keys)
	b.shared.facts[key] = f
	return key
}

// setNamespace sets the namespace of a namespaced object without one, and removes it from a
// cluster-scoped object.
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
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	if c := b.shared.clients[gv]; c != nil {
		return c, nil
	}
	c, err := b.helm.Factory.UnstructuredClientForMapping(mapping)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", gv, err)
	}
	b.shared.clients[gv] = c
	return c, nil
}

// Fact returns the fact about an Info, nil if the builder did not build it or forgot it.
func (b *Builder) Fact(info *resource.Info) *Fact {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	return b.shared.facts[info.Source]
}

// Forget deletes the facts about a list. Its objects then no longer count as the release's (see HasReleaseObjects).
func (b *Builder) Forget(list helmkube.ResourceList) {
	b.shared.mu.Lock()
	defer b.shared.mu.Unlock()
	for _, i := range list {
		delete(b.shared.facts, i.Source)
	}
}

// HasReleaseObjects reports whether the list has objects of the release, other than hooks and objects that Helm
// writes itself.
func (b *Builder) HasReleaseObjects(list helmkube.ResourceList) bool {
	return slices.ContainsFunc(b.facts(list), func(f *Fact) bool { return !f.Rule.Hook })
}

// Resources returns the planner's view of a list.
func (b *Builder) Resources(list helmkube.ResourceList) (out []plan.Resource) {
	for _, f := range b.facts(list) {
		out = append(out, f.Resource)
	}
	return out
}

// facts returns the known facts about a list.
func (b *Builder) facts(list helmkube.ResourceList) (out []*Fact) {
	for _, i := range list {
		if f := b.Fact(i); f != nil {
			out = append(out, f)
		}
	}
	return out
}

// Index finds Infos like Helm's ResourceList, by group, kind, namespace and name, but in
// constant time.
type Index map[identity]*resource.Info

type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func identityOf(i *resource.Info) identity {
	return identity{i.Mapping.GroupVersionKind.GroupKind(), i.Namespace, i.Name}
}

// NewIndex indexes a list. Of Infos with the same identity it keeps the first.
func NewIndex(list helmkube.ResourceList) Index {
	x := make(Index, len(list))
	for _, i := range list {
		if id := identityOf(i); x[id] == nil {
			x[id] = i
		}
	}
	return x
}

// Get returns the Info of the same object, nil if there is none.
func (x Index) Get(i *resource.Info) *resource.Info { return x[identityOf(i)] }

// Without returns the Infos of a list that are not in others.
func Without(list, others helmkube.ResourceList) helmkube.ResourceList {
	x := NewIndex(others)
	return list.Filter(func(i *resource.Info) bool { return x.Get(i) == nil })
}
