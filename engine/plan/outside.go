package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// AnnotationWaitFor lists objects from outside the release, as ParseOutside reads them: the group of the annotated object
// starts once they exist and are ready (R22d).
const AnnotationWaitFor = "lockstep/wait-for"

// builtInGroups are the API groups of the kinds of Kubernetes, which need not be written.
var builtInGroups = groupsByKind(map[string]string{
	"": "ConfigMap Endpoints LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod ReplicationController " +
		"ResourceQuota Secret Service ServiceAccount",
	"admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
	"apiextensions.k8s.io":         "CustomResourceDefinition",
	"apiregistration.k8s.io":       "APIService",
	"apps":                         "DaemonSet Deployment ReplicaSet StatefulSet",
	"autoscaling":                  "HorizontalPodAutoscaler",
	"batch":                        "CronJob Job",
	"networking.k8s.io":            "Ingress IngressClass NetworkPolicy",
	"node.k8s.io":                  "RuntimeClass",
	"policy":                       "PodDisruptionBudget",
	"rbac.authorization.k8s.io":    "ClusterRole ClusterRoleBinding Role RoleBinding",
	"scheduling.k8s.io":            "PriorityClass",
	"storage.k8s.io":               "CSIDriver StorageClass",
})

func groupsByKind(kinds map[string]string) map[string]string {
	groups := map[string]string{}
	for group, names := range kinds {
		for kind := range strings.FieldsSeq(names) {
			groups[kind] = group
		}
	}
	return groups
}

// OutsideFormat is how to write an object from outside the release.
const OutsideFormat = "KIND[.GROUP]/[NAMESPACE/]NAME"

// ParseOutside reads the name of an object from outside the release: "Secret/db-tls", "Service/other/api" or
// "Certificate.cert-manager.io/infra/ca". Without a namespace, it is in that of the release.
func ParseOutside(text string) (Object, error) {
	text = strings.TrimSpace(text)
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || strings.ContainsFunc(text, notInName) {
		return Object{}, fmt.Errorf("%s is not an object; write %s, such as Secret/db-tls", quote(text), OutsideFormat)
	}
	o := Object{Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		o.Namespace = parts[1]
	}
	group, known := "", false
	o.Kind, group, _ = strings.Cut(parts[0], ".")
	if o.Kind == "" || o.Kind[0] < 'A' || o.Kind[0] > 'Z' {
		return Object{}, fmt.Errorf("%s: %s is not a kind; write %s, such as Secret/db-tls", quote(text), quote(parts[0]), OutsideFormat)
	}
	if o.Group = group; group == "" {
		if o.Group, known = builtInGroups[o.Kind]; !known {
			return Object{}, fmt.Errorf("%s: the API group of %s is missing; write %s.GROUP/%s%s", quote(text), o.Kind, o.Kind, strings.Join(parts[1:], "/"), similarKind(o.Kind))
		}
	}
	return o, nil
}

// similarKind asks whether the kind of Kubernetes was meant that differs only in case; "" if there is none.
func similarKind(kind string) string {
	for known := range builtInGroups {
		if strings.EqualFold(known, kind) {
			return "; did you mean " + known + "?"
		}
	}
	return ""
}

// notInName reports whether a character cannot be in the name of an object.
func notInName(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'[]{},\`, r) }

// FormatOutside writes an object from outside the release as ParseOutside reads it. Without home, the namespace of the
// release, it always names the namespace.
func FormatOutside(o Object, home string) string {
	var b strings.Builder
	b.WriteString(o.Kind)
	if _, builtIn := builtInGroups[o.Kind]; o.Group != "" && (!builtIn || builtInGroups[o.Kind] != o.Group) {
		b.WriteString("." + o.Group)
	}
	if o.Namespace != "" && o.Namespace != home {
		b.WriteString("/" + o.Namespace)
	}
	return b.String() + "/" + o.Name
}

// OutsideNames writes objects from outside the release, for people: "Secret/db-tls, Service/other/api".
func OutsideNames(objects []Object, home string) string {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = FormatOutside(o, home)
	}
	return strings.Join(names, ", ")
}

// ReadWaitFor reads AnnotationWaitFor.
func ReadWaitFor(annotations map[string]string) (objects []Object, faults []Fault) {
	value := annotations[AnnotationWaitFor]
	if blankList(value) {
		return nil, nil
	}
	fault := func(err error) ([]Object, []Fault) {
		return nil, []Fault{{"R22d", fmt.Sprintf("annotation %s: %v", AnnotationWaitFor, err)}}
	}
	list, err := ParseList(value)
	if err != nil {
		return fault(fmt.Errorf(`must be a list, such as '["Secret/db-tls"]', but is %s`, quote(value)))
	}
	var wrong []error
	for _, text := range list {
		o, err := ParseOutside(text)
		if wrong = append(wrong, err); err == nil {
			objects = append(objects, o)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return fault(err)
	}
	return objects, nil
}

// addWaitFor adds to a group the objects outside the release that its members name.
func (g *Group) addWaitFor(members []*member) {
	for _, m := range members {
		g.WaitFor = append(g.WaitFor, m.WaitFor...)
	}
	g.sortWaitFor()
}

func (g *Group) sortWaitFor() {
	slices.SortFunc(g.WaitFor, Object.Compare)
	g.WaitFor = slices.Compact(g.WaitFor)
}

// checkWaitFor refuses a wait for an object of the release itself: groups wait for it by their order.
func (p *planner) checkWaitFor() {
	own := map[Object]*member{}
	for i := range p.members {
		own[p.members[i].Object] = &p.members[i]
	}
	for i := range p.members {
		m := &p.members[i]
		for _, o := range m.WaitFor {
			if own[o] != nil {
				p.fail("R22d", m.chart.path, &m.Object, "%s: annotation %s names %s, which is part of this release; "+
					"let the group wait for the group of that object (%s)", m.Object, AnnotationWaitFor, o, AnnotationGroupDependsOn)
			}
		}
	}
}

// WaitOutside sets how the run waits for each object from outside the release.
func (g *Group) WaitOutside(how func(Object) Wait) {
	for _, o := range g.WaitFor {
		if w := how(o); w != (Wait{}) {
			g.Waits = append(g.Waits, ObjectWait{o, w})
		}
	}
}

// WaitForFirst makes the groups that wait for no other group wait for objects from outside the release. An error names
// an object that a group contains.
func WaitForFirst(groups []*Group, objects []Object) error {
	for _, g := range groups {
		for _, o := range g.Objects {
			if slices.Contains(objects, o) {
				return fmt.Errorf("the release cannot wait for %s before it starts, because that is part of it (R22d)", o)
			}
		}
		if len(g.After) == 0 {
			g.WaitFor = append(g.WaitFor, objects...)
			g.sortWaitFor()
		}
	}
	return nil
}
