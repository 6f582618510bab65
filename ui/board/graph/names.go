package graph

import (
	"cmp"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
)

// shortKinds are common abbreviations of long kinds.
var shortKinds = map[string]string{
	"CustomResourceDefinition":       "CRD",
	"PersistentVolumeClaim":          "PVC",
	"HorizontalPodAutoscaler":        "HPA",
	"PodDisruptionBudget":            "PDB",
	"MutatingWebhookConfiguration":   "MutatingWebhook",
	"ValidatingWebhookConfiguration": "ValidatingWebhook",
}

// shortestKinds are kubectl's short names.
var shortestKinds = map[string]string{
	"ConfigMap": "cm", "CronJob": "cj", "CustomResourceDefinition": "crd", "DaemonSet": "ds", "Deployment": "deploy",
	"Endpoints": "ep", "HorizontalPodAutoscaler": "hpa", "Ingress": "ing", "Job": "job", "LimitRange": "limits",
	"Namespace": "ns", "NetworkPolicy": "netpol", "PersistentVolume": "pv", "PersistentVolumeClaim": "pvc", "Pod": "po",
	"PodDisruptionBudget": "pdb", "PriorityClass": "pc", "ReplicaSet": "rs", "ResourceQuota": "quota", "Secret": "secret",
	"Service": "svc", "ServiceAccount": "sa", "StatefulSet": "sts", "StorageClass": "sc",
}

func shortestKind(o plan.Object) string { return canvas.Clean(cmp.Or(shortestKinds[o.Kind], o.Kind)) }

func shortestName(o plan.Object) string { return shortestKind(o) + "/" + canvas.Clean(o.Name) }

func shortKind(o plan.Object) string { return cmp.Or(shortKinds[o.Kind], o.Kind) }

// ShortObject returns an object's name with a short kind.
func ShortObject(o plan.Object) string { return shortKind(o) + "/" + o.Name }

// Object returns an object's name as the whole screen writes it.
func (g *Graph) Object(o plan.Object) string {
	if g.ShortKinds {
		return shortestKind(o) + "/" + o.Name
	}
	return ShortObject(o)
}

// Name returns a group's name as the whole screen writes it.
func (g *Graph) Name(n *Node) string {
	if n.Single() {
		return g.Object(n.Objects[0].Object)
	}
	return n.Name
}

// ShortName returns a group's name with a short kind.
func (g *Graph) ShortName(n *Node) string {
	if n.Single() {
		return shortestName(n.Objects[0].Object)
	}
	return n.Name
}

// ObjectIn fits an object's name into a width: if needed, without the release's prefix or the middle of the name.
func (g *Graph) ObjectIn(o plan.Object, w int, ellipsis string) string {
	if name := canvas.Clean(g.Object(o)); canvas.Width(name) <= w {
		return name
	}
	kind, name := shortestKind(o)+"/", canvas.Clean(o.Name)
	room := w - canvas.Width(kind)
	rest, cut := strings.CutPrefix(name, canvas.Clean(g.release)+"-")
	switch {
	case cut && canvas.Width(name) > room && room > min(canvas.Width(rest), 4):
		return kind + ellipsis + canvas.Tail(rest, room-1)
	case room >= min(canvas.Width(name), 5):
		return kind + canvas.FitMiddle(name, room, ellipsis)
	}
	return canvas.FitMiddle(kind+name, w, ellipsis)
}

// NameIn fits a group's name into a width, without the prefix cut.
func (g *Graph) NameIn(n *Node, cut string, w int, ellipsis string) string {
	if n.Single() {
		return g.ObjectIn(n.Objects[0].Object, w, ellipsis)
	}
	if rest, ok := strings.CutPrefix(canvas.Clean(n.Name), cut); ok && cut != "" {
		return canvas.FitMiddle(ellipsis+rest, w, ellipsis)
	}
	return GroupIn(n.Name, w, ellipsis)
}

// GroupIn fits a group's name into a width.
func GroupIn(name string, w int, ellipsis string) string {
	name = canvas.Clean(name)
	if strings.HasSuffix(name, plan.Unsequenced) { // the name of the chart matters more
		return canvas.Fit(name, w, ellipsis)
	}
	return canvas.FitMiddle(name, w, ellipsis)
}

// NameStyle is how one card writes the names of all its objects.
type NameStyle struct {
	Short bool   // kubectl's short kinds
	Cut   string // a prefix to omit
	Width int    // of the widest name
}

// maxMeasured limits how many names are measured: a card does not show more.
const maxMeasured = 64

// nameStyles lists the possible styles for a group's objects, the longest names first.
func nameStyles(objects []*event.ObjectState, release string) []NameStyle {
	objects = objects[:min(len(objects), maxMeasured)]
	all := []NameStyle{{}, {Short: true}, {Short: true, Cut: canvas.Clean(release) + "-"}}
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = canvas.Clean(o.Object.Name)
	}
	common := CommonPrefix(names, "-.")
	for i, c := range common { // the shortest prefix first
		if (c == '-' || c == '.') && i >= len(all[2].Cut) {
			all = append(all, NameStyle{Short: true, Cut: common[:i+1]})
		}
	}
	for i := range all {
		for _, o := range objects {
			kind, name := all[i].object(o.Object, "~")
			all[i].Width = max(all[i].Width, canvas.Width(kind+name))
		}
	}
	return all
}

// NameStyle returns the style with the longest names of a group's objects that fit a width.
func (g *Graph) NameStyle(n *Node, w int) NameStyle {
	all := n.nameStyles()
	if g.ShortKinds {
		all = all[1:]
	}
	for _, s := range all {
		if s.Width <= w {
			return s
		}
	}
	return all[len(all)-1]
}

func (n *Node) nameStyles() []NameStyle {
	if n.styles == nil { // lazily, because most nodes of a large plan are not visible
		n.styles = nameStyles(n.Objects, n.release)
	}
	return n.styles
}

// NeedsShortKinds reports whether the names of a group's objects fit a width only with short kinds.
func (n *Node) NeedsShortKinds(w int) bool { return n.nameStyles()[0].Width > w }

// Object fits an object's name into a width; if needed, it cuts the middle.
func (s NameStyle) Object(o plan.Object, w int, ellipsis string) string {
	kind, name := s.object(o, ellipsis)
	if canvas.Width(kind+name) <= w {
		return kind + name
	}
	if room := w - canvas.Width(kind); room >= min(canvas.Width(name), 5) {
		return kind + canvas.FitMiddle(name, room, ellipsis)
	}
	return canvas.FitMiddle(kind+name, w, ellipsis)
}

// Whole returns an object's name in the style, but without omitting a prefix.
func (s NameStyle) Whole(o plan.Object) string {
	s.Cut = ""
	kind, name := s.object(o, "")
	return kind + name
}

// object returns an object's kind with a slash, and its name.
func (s NameStyle) object(o plan.Object, ellipsis string) (kind, name string) {
	name = canvas.Clean(o.Name)
	if !s.Short {
		return canvas.Clean(shortKind(o)) + "/", name
	}
	if rest, cut := strings.CutPrefix(name, s.Cut); cut && s.Cut != "" && rest != "" {
		name = ellipsis + rest
	}
	return shortestKind(o) + "/", name
}

// Shared returns the prefix that a card must show once because its objects omit it; "" for the
// release's name, which everybody knows.
func (g *Graph) Shared(s NameStyle) string {
	if s.Cut == canvas.Clean(g.release)+"-" {
		return ""
	}
	return s.Cut
}

// CommonPrefix returns the common prefix of several names up to a separator. It is shorter than
// each name.
func CommonPrefix(names []string, separators string) string {
	if len(names) < 2 {
		return ""
	}
	prefix := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	for _, n := range names {
		if len(n) == len(prefix) && prefix != "" {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix[:strings.LastIndexAny(prefix, separators)+1]
}

// NameList returns the names of groups, separated by commas.
func (g *Graph) NameList(nodes []*Node) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = g.Name(n)
	}
	return strings.Join(names, ", ")
}
