package preflight

import (
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

// Incoming are the objects an operation will apply, as built for planning. The zero
// value stands for an operation that only runs hooks.
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
	// new is set if the object is not in the cluster, as far as known.
	new bool
}

// unit is a position in the plan.
type unit struct {
	phase int
	group *plan.Group
}

// target holds all objects of an operation, in plan order, and their order. has also
// contains what other releases provide.
type target struct {
	objects []*incomingObject
	has     map[plan.Object]*incomingObject
	before  map[string]map[string]bool // for a group the ids of those that it waits for
}

// targetOf collects the objects of an operation: crds/, its namespace, its hooks and
// its objects, without those in no phase, such as hooks of other events.
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

// units returns the first positions of objects; it also fills in what each group waits for.
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
			t.waits(g.ID, after)
		}
	}
	return at
}

// waits finds all groups that a group waits for, directly or not.
func (t *target) waits(id string, after map[string][]string) map[string]bool {
	if known := t.before[id]; known != nil {
		return known
	}
	all := map[string]bool{}
	t.before[id] = all
	for _, a := range after[id] {
		all[a] = true
		for b := range t.waits(a, after) {
			all[b] = true
		}
	}
	return all
}

// earlier reports whether b waits for a.
func (t *target) earlier(a, b unit) bool {
	return a.phase < b.phase || a.phase == b.phase && t.before[b.group.ID][a.group.ID]
}

// passive are the API groups whose objects create nothing that others refer to.
var passive = []string{"monitoring.coreos.com", "networking.istio.io", "security.istio.io", "traefik.io", "projectcontour.io"}

// mayBring reports whether the plan probably creates an object it does not contain: a
// custom resource that mentions or has its name (a Certificate, an ExternalSecret, a
// database), a command, script or annotation that mentions it, or a role that may create
// its kind.
func (t *target) mayBring(what plan.Object) bool {
	return slices.ContainsFunc(t.objects, func(o *incomingObject) bool { return o.mayBring(what) })
}

func (o *incomingObject) mayBring(what plan.Object) bool {
	name := what.Name
	metadata, _ := o.fields["metadata"].(map[string]any)
	if refs.Mentions(metadata["annotations"], name) {
		return true
	}
	switch pods, ok := refs.PodsOf(o.Object, o.fields); {
	case ok:
		return commanded(pods, name)
	case o.Object.Group == "" && (o.Kind == "ConfigMap" || o.Kind == "Secret"):
		return refs.Mentions(o.fields["data"], name) || refs.Mentions(o.fields["stringData"], name)
	case custom(o.Object) && !slices.Contains(passive, o.Object.Group):
		return o.Name == name || len(name) > len(o.Name) && name[:len(o.Name)] == o.Name && (name[len(o.Name)] == '-' || name[len(o.Name)] == '.') ||
			refs.Mentions(o.fields["spec"], name)
	}
	return o.Kind == "Role" && o.Namespace == what.Namespace && o.lets(what) || o.Kind == "ClusterRole" && o.lets(what)
}

// lets reports whether a role grants the right to create a kind.
func (o *incomingObject) lets(what plan.Object) bool {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: what.Group, Kind: what.Kind})
	rules, _ := o.fields["rules"].([]any)
	return slices.ContainsFunc(rules, func(r any) bool {
		rule, _ := r.(map[string]any)
		has := func(field, word string) bool {
			list, _ := rule[field].([]any)
			return slices.Contains(list, any(word)) || slices.Contains(list, any("*"))
		}
		return has("apiGroups", what.Group) && has("resources", plural.Resource) && has("verbs", "create")
	})
}

// commanded reports whether commands, arguments or environment of containers mention a
// name.
func commanded(pods refs.Pods, name string) bool {
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

// labels returns those of the object.
func (o *incomingObject) labels() labels.Set {
	return (&unstructured.Unstructured{Object: o.fields}).GetLabels()
}
