package preflight

import (
	"maps"
	"slices"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/refs"
	"lockstep/kube/charts"
	"lockstep/kube/manifest"
)

// Incoming are the objects that an operation will apply, as built for planning. The zero
// value is for an operation that only runs hooks.
type Incoming struct {
	Builder *manifest.Builder
	List    helmkube.ResourceList
}

// incomingObject is an object that the operation will apply.
type incomingObject struct {
	plan.Object
	gvk    schema.GroupVersionKind
	fields map[string]any
	at     unit
	hook   bool
	new    bool // not in the cluster, as far as known
}

// unit is a position in the plan.
type unit struct {
	phase int
	group *plan.Group
}

// target holds the objects of an operation in plan order.
type target struct {
	objects []*incomingObject
	has     map[plan.Object]*incomingObject // including objects that other releases provide
	before  map[string]map[string]bool      // ids of the groups that a group waits for, by its id
}

// targetOf returns the objects of an operation: crds/, its namespace, its hooks and its
// objects, except for objects in no phase, such as hooks of other events.
func targetOf(p *Prepared, incoming Incoming) (*target, error) {
	t := &target{has: p.Common.Provided.incoming(), before: map[string]map[string]bool{}}
	at := t.units(p.Phases)
	add := func(o *incomingObject) {
		u, planned := at[o.Object]
		if !planned {
			return
		}
		o.at = u
		t.objects = append(t.objects, o)
		t.has[o.Object] = o
	}
	if p.Target.NewNamespace {
		add(&incomingObject{Object: plan.Object{Kind: "Namespace", Name: p.Common.Namespace}, new: true})
	}
	crds, err := p.Target.CRDs.docs()
	if err != nil {
		return nil, err
	}
	t.addDocs(crds, p.Common.Namespace, false, add)
	for _, h := range p.Target.Release.Hooks {
		docs, _, err := charts.ParseBy(p.Common.reader, h.Manifest, p.Target.Root())
		if err != nil {
			return nil, err
		}
		t.addDocs(docs, p.Common.Namespace, true, add)
	}
	for _, i := range incoming.List {
		u, ok := i.Object.(*unstructured.Unstructured)
		if f := incoming.Builder.Fact(i); ok && f != nil {
			add(&incomingObject{Object: f.Resource.Object, gvk: u.GroupVersionKind(), fields: u.Object, new: f.Late || f.Generated || f.Before().Absent()})
		}
	}
	return t, nil
}

func (t *target) addDocs(docs []charts.Document, namespace string, hook bool, add func(*incomingObject)) {
	for n, r := range charts.Resources(docs, namespace, charts.OfflineScope(docs...)) {
		u := docs[n].Object
		add(&incomingObject{Object: r.Object, gvk: u.GroupVersionKind(), fields: u.Object, hook: hook})
	}
}

// units returns the first position of each object, and fills in t.before.
func (t *target) units(phases []event.Phase) map[plan.Object]unit {
	at := map[plan.Object]unit{}
	for n, p := range phases {
		if p.Kind == event.PhaseRemove {
			continue
		}
		after := map[string][]string{}
		for _, g := range p.Groups {
			after[g.ID] = g.After
			for _, o := range g.Objects {
				if _, ok := at[o]; !ok {
					at[o] = unit{n, g}
				}
			}
		}
		for _, g := range p.Groups {
			t.dependencies(g.ID, after)
		}
	}
	return at
}

// dependencies returns the ids of the groups that a group waits for, directly or indirectly.
func (t *target) dependencies(id string, after map[string][]string) map[string]bool {
	if known := t.before[id]; known != nil {
		return known
	}
	all := map[string]bool{}
	t.before[id] = all
	for _, a := range after[id] {
		all[a] = true
		maps.Copy(all, t.dependencies(a, after))
	}
	return all
}

// earlier reports whether b waits for a, directly or indirectly.
func (t *target) earlier(a, b unit) bool {
	return a.phase < b.phase || a.phase == b.phase && t.before[b.group.ID][a.group.ID]
}

// passive are the API groups of custom resources that create no objects.
var passive = []string{"monitoring.coreos.com", "networking.istio.io", "security.istio.io", "traefik.io", "projectcontour.io"}

// mayCreate reports whether an object that is not in the plan may be created by one that is:
// by a custom resource that has or mentions its name (a Certificate, an ExternalSecret, a
// database), by a command, script or annotation that mentions it, or through a role that
// may create its kind.
func (t *target) mayCreate(missing plan.Object) bool {
	return slices.ContainsFunc(t.objects, func(o *incomingObject) bool { return o.mayCreate(missing) })
}

func (o *incomingObject) mayCreate(missing plan.Object) bool {
	name := missing.Name
	metadata, _ := o.fields["metadata"].(map[string]any)
	if refs.Mentions(metadata["annotations"], name) {
		return true
	}
	switch pods, ok := refs.FindPods(o.Object, o.fields); {
	case ok:
		return mentions(pods, name)
	case o.Object.Group == "" && (o.Kind == "ConfigMap" || o.Kind == "Secret"):
		return refs.Mentions(o.fields["data"], name) || refs.Mentions(o.fields["stringData"], name)
	case custom(o.Object) && !slices.Contains(passive, o.Object.Group):
		return o.Name == name || len(name) > len(o.Name) && name[:len(o.Name)] == o.Name && (name[len(o.Name)] == '-' || name[len(o.Name)] == '.') ||
			refs.Mentions(o.fields["spec"], name)
	}
	return o.Kind == "Role" && o.Namespace == missing.Namespace && o.grantsCreate(missing) || o.Kind == "ClusterRole" && o.grantsCreate(missing)
}

// grantsCreate reports whether a role grants the right to create objects of a kind.
func (o *incomingObject) grantsCreate(kind plan.Object) bool {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: kind.Group, Kind: kind.Kind})
	rules, _ := o.fields["rules"].([]any)
	return slices.ContainsFunc(rules, func(r any) bool {
		rule, _ := r.(map[string]any)
		has := func(field, word string) bool {
			list, _ := rule[field].([]any)
			return slices.Contains(list, any(word)) || slices.Contains(list, any("*"))
		}
		return has("apiGroups", kind.Group) && has("resources", plural.Resource) && has("verbs", "create")
	})
}

// mentions reports whether commands, arguments or environment of containers, or annotations
// of pods mention a name.
func mentions(pods refs.Pods, name string) bool {
	for _, kind := range []string{"initContainers", "containers"} {
		list, _ := pods.Spec[kind].([]any)
		for _, c := range list {
			c, _ := c.(map[string]any)
			if refs.Mentions(c["command"], name) || refs.Mentions(c["args"], name) {
				return true
			}
			env, _ := c["env"].([]any)
			for _, e := range env {
				if e, _ := e.(map[string]any); refs.Mentions(e["value"], name) {
					return true
				}
			}
		}
	}
	return refs.Mentions(pods.Meta["annotations"], name)
}

// labels returns the labels of the object.
func (o *incomingObject) labels() labels.Set {
	return (&unstructured.Unstructured{Object: o.fields}).GetLabels()
}
