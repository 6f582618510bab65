package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
	"lockstep/kube/session"
)

// Incoming are the objects that an operation will apply, as Builder built them for the plan. The
// zero value is for an operation that only runs hooks.
type Incoming struct {
	Builder *manifest.Builder
	List    helmkube.ResourceList
}

// incomingObject is an object that the operation will apply.
type incomingObject struct {
	plan.Object
	gvk    schema.GroupVersionKind
	fields map[string]any
	// defines is the kind that a CustomResourceDefinition defines.
	defines  plan.GroupKind
	position position
	hook     bool
	new      bool // not in the cluster, as far as known; never set for crds/ and hooks
}

// position is a group of the plan and the index of its phase; provided objects have phase -1.
type position struct {
	phase int
	group *plan.Group
}

// plannedObjects holds the objects that an operation applies: the namespace, crds/, the hooks and
// the objects of the manifest.
type plannedObjects struct {
	objects  []*incomingObject
	byObject map[plan.Object]*incomingObject // including objects that other releases provide
	// dependencies are the ids of the groups that a group waits for, directly or indirectly, by its id.
	dependencies map[string]map[string]bool
	gated        []position // groups that wait for objects outside the release
	undeclared   bool       // see session.Target
}

func newPlannedObjects(p *session.Prepared, incoming Incoming) (*plannedObjects, error) {
	planned := &plannedObjects{byObject: providedObjects(p.Common.Provided), dependencies: map[string]map[string]bool{}, undeclared: p.Target.Undeclared}
	positions := planned.addPhases(p.Phases)
	add := func(o *incomingObject) {
		pos, ok := positions[o.Object]
		if !ok {
			return
		}
		o.position = pos
		planned.objects = append(planned.objects, o)
		planned.byObject[o.Object] = o
	}
	if p.Target.NewNamespace {
		labels := map[string]any{"name": p.Common.Namespace} // as in DefaultNamespace
		add(&incomingObject{
			Object: plan.Object{Kind: "Namespace", Name: p.Common.Namespace}, new: true,
			fields: map[string]any{"metadata": map[string]any{"labels": labels}},
		})
	}
	addDocs(p.Target.CRDs.Docs, p.Common.Namespace, false, add)
	for _, h := range p.Target.Release.Hooks {
		docs, _, err := charts.ParseManifestWith(p.Common.Reader(), h.Manifest, p.Target.Root())
		if err != nil {
			return nil, fmt.Errorf("hook %s/%s: %w", h.Kind, h.Name, err)
		}
		addDocs(docs, p.Common.Namespace, true, add)
	}
	for _, i := range incoming.List {
		u, ok := i.Object.(*unstructured.Unstructured)
		if f := incoming.Builder.Fact(i); ok && f != nil {
			add(&incomingObject{
				Object: f.Resource.Object, gvk: u.GroupVersionKind(), fields: u.Object, defines: f.Resource.Defines,
				new: f.Late || f.Generated || f.Before().Absent(),
			})
		}
	}
	return planned, nil
}

func addDocs(docs []charts.Document, namespace string, hook bool, add func(*incomingObject)) {
	for n, r := range charts.Resources(docs, namespace, charts.OfflineScope(docs...)) {
		u := docs[n].Object
		add(&incomingObject{Object: r.Object, gvk: u.GroupVersionKind(), fields: u.Object, defines: r.Defines, hook: hook})
	}
}

// addPhases adds the dependencies of all groups that apply objects, and returns the first position of
// each object.
func (planned *plannedObjects) addPhases(phases []event.Phase) map[plan.Object]position {
	first := map[plan.Object]position{}
	for n, p := range phases {
		if p.Kind == event.PhaseRemove {
			continue
		}
		for _, g := range p.Groups {
			if len(g.WaitFor) > 0 {
				planned.gated = append(planned.gated, position{n, g})
			}
			for _, o := range g.Objects {
				if _, ok := first[o]; !ok {
					first[o] = position{n, g}
				}
			}
		}
		planned.addDependencies(p.Groups)
	}
	return first
}

// addDependencies adds the ids of the groups that each group waits for, directly or indirectly.
func (planned *plannedObjects) addDependencies(groups []*plan.Group) {
	after := map[string][]string{}
	for _, g := range groups {
		after[g.ID] = g.After
	}
	var visit func(id string) map[string]bool
	visit = func(id string) map[string]bool {
		if known := planned.dependencies[id]; known != nil {
			return known
		}
		ids := map[string]bool{}
		planned.dependencies[id] = ids
		for _, a := range after[id] {
			ids[a] = true
			maps.Copy(ids, visit(a))
		}
		return ids
	}
	for _, g := range groups {
		visit(g.ID)
	}
}

// before reports whether b waits for a, directly or indirectly.
func (planned *plannedObjects) before(a, b position) bool {
	return a.phase < b.phase || a.phase == b.phase && planned.dependencies[b.group.ID][a.group.ID]
}

// waitsFor reports whether a group starts only once an object outside the release is ready (R22d).
func (planned *plannedObjects) waitsFor(at position, o plan.Object) bool {
	return slices.ContainsFunc(planned.gated, func(p position) bool {
		return (p == at || planned.before(p, at)) && slices.Contains(p.group.WaitFor, o)
	})
}

// passiveGroups are API groups of custom resources that create no objects.
var passiveGroups = []string{"monitoring.coreos.com", "networking.istio.io", "security.istio.io", "traefik.io", "projectcontour.io"}

// mayCreate reports whether an object in the plan may create one that is missing: a custom resource
// that has or mentions its name (a Certificate, an ExternalSecret, a database); a command, script,
// environment variable or annotation that mentions it; or a role that permits creating its kind.
func (planned *plannedObjects) mayCreate(missing plan.Object) bool {
	return slices.ContainsFunc(planned.objects, func(o *incomingObject) bool { return o.mayCreate(missing) })
}

func (o *incomingObject) mayCreate(missing plan.Object) bool {
	name := missing.Name
	metadata, _ := o.fields["metadata"].(map[string]any)
	if refs.Mentions(metadata["annotations"], name) {
		return true
	}
	switch pods, ok := refs.FindPods(o.Object, o.fields); {
	case ok:
		return podsMention(pods, name)
	case o.Object.Group == "" && (o.Kind == "ConfigMap" || o.Kind == "Secret"):
		return refs.Mentions(o.fields["data"], name) || refs.Mentions(o.fields["stringData"], name)
	case isActive(o.Object):
		return o.Name == name || strings.HasPrefix(name, o.Name+"-") || strings.HasPrefix(name, o.Name+".") ||
			refs.Mentions(o.fields["spec"], name)
	}
	return (o.Kind == "ClusterRole" || o.Kind == "Role" && o.Namespace == missing.Namespace) && o.grants(missing, "create")
}

// isActive reports whether an object is a custom resource that may create other objects.
func isActive(o plan.Object) bool {
	return refs.IsCustom(o) && !slices.Contains(passiveGroups, o.Group)
}

// grants reports whether a role permits one of the verbs on objects of the kind of another object.
func (o *incomingObject) grants(other plan.Object, verbs ...string) bool {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: other.Group, Kind: other.Kind})
	rules, _ := o.fields["rules"].([]any)
	return slices.ContainsFunc(rules, func(r any) bool {
		rule, _ := r.(map[string]any)
		has := func(field, word string) bool {
			list, _ := rule[field].([]any)
			return slices.Contains(list, any(word)) || slices.Contains(list, any("*"))
		}
		return has("apiGroups", other.Group) && has("resources", plural.Resource) && slices.ContainsFunc(verbs, func(verb string) bool { return has("verbs", verb) })
	})
}

// podsMention reports whether a command, argument or environment variable of a container, or an
// annotation of the pods mentions a name.
func podsMention(pods refs.Pods, name string) bool {
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

// runsToCompletion reports whether an object runs once, as a migration does.
func runsToCompletion(o *incomingObject) bool { return o.Kind == "Job" || o.Kind == "Pod" }

const rbacGroup = "rbac.authorization.k8s.io"

// hasAccess reports whether the pods of an object may change another one through the API server: they call kubectl, a role
// of the chart or of an earlier release lets them, or roles that are not known.
func (planned *plannedObjects) hasAccess(o *incomingObject, other plan.Object) bool {
	pods, ok := refs.FindPods(o.Object, o.fields)
	if !ok {
		return false
	}
	account := plan.Object{Kind: "ServiceAccount", Namespace: o.Namespace, Name: accountOf(pods)}
	if podsMention(pods, "kubectl") || hasClient(pods) || account.Name != "default" && planned.byObject[account] == nil {
		return true
	}
	for _, x := range planned.byObject {
		switch x.Kind {
		case "ConfigMap":
			if refs.Mentions(x.fields["data"], "kubectl") {
				return true
			}
		case "ClusterRole", "Role":
			if x.fields["aggregationRule"] != nil || x.grants(other, "delete", "deletecollection", "update", "patch") {
				return true
			}
		case "ClusterRoleBinding", "RoleBinding":
			if x.binds(account) && planned.byObject[x.role()] == nil {
				return true
			}
		}
	}
	return false
}

// accountOf returns the name of the ServiceAccount of pods.
func accountOf(pods refs.Pods) string {
	for _, field := range []string{"serviceAccountName", "serviceAccount"} {
		if name, _ := pods.Spec[field].(string); name != "" {
			return name
		}
	}
	return "default"
}

// hasClient reports whether the name of an image says that it contains a client of the API server, such as kubectl, k8s or
// helm. The registry does not count.
func hasClient(pods refs.Pods) bool {
	for _, kind := range []string{"initContainers", "containers"} {
		list, _ := pods.Spec[kind].([]any)
		for _, c := range list {
			c, _ := c.(map[string]any)
			image, _ := c["image"].(string)
			if host, name, ok := strings.Cut(image, "/"); ok && strings.ContainsAny(host, ".:") {
				image = name
			}
			if slices.ContainsFunc([]string{"kube", "k8s", "helm", "openshift"}, func(part string) bool { return strings.Contains(image, part) }) {
				return true
			}
		}
	}
	return false
}

// binds reports whether a binding gives its role to a ServiceAccount, directly or by a group.
func (o *incomingObject) binds(account plan.Object) bool {
	subjects, _ := o.fields["subjects"].([]any)
	return slices.ContainsFunc(subjects, func(s any) bool {
		subject, _ := s.(map[string]any)
		name, _ := subject["name"].(string)
		namespace, _ := subject["namespace"].(string)
		if subject["kind"] == "ServiceAccount" {
			return name == account.Name && (namespace == "" || namespace == account.Namespace)
		}
		return strings.HasPrefix(name, "system:serviceaccount") || name == "system:authenticated"
	})
}

// role returns the role of a binding.
func (o *incomingObject) role() plan.Object {
	ref, _ := o.fields["roleRef"].(map[string]any)
	kind, _ := ref["kind"].(string)
	name, _ := ref["name"].(string)
	role := plan.Object{Group: rbacGroup, Kind: kind, Name: name}
	if kind == "Role" {
		role.Namespace = o.Namespace
	}
	return role
}

// warning returns a warning about the object.
func (o *incomingObject) warning(format string, args ...any) plan.Warning {
	object := o.Object
	return plan.Warning{Object: &object, Message: fmt.Sprintf(format, args...)}
}

func (o *incomingObject) labels() labels.Set {
	return (&unstructured.Unstructured{Object: o.fields}).GetLabels()
}

// andMore names the first of n objects and counts the others: "Deployment/web and 2 more".
func andMore(first *incomingObject, n int) string {
	if n == 1 {
		return first.String()
	}
	return fmt.Sprintf("%s and %d more", first, n-1)
}
