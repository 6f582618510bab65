package graph

import (
	"strings"

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

func ShortObject(o plan.Object) string {
	if k, ok := shortKinds[o.Kind]; ok {
		return k + "/" + o.Name
	}
	return o.String()
}

// ObjectIn fits an object's name into a width: with kubectl's short kind if needed, then
// without the release's prefix or the middle of the name.
func (p *Graph) ObjectIn(o plan.Object, w int, ellipsis string) string {
	name := canvas.Clean(ShortObject(o))
	if canvas.Width(name) <= w {
		return name
	}
	kind := o.Kind
	if k, ok := shortestKinds[kind]; ok {
		kind = k
	}
	kind, name = canvas.Clean(kind)+"/", canvas.Clean(o.Name)
	room := w - canvas.Width(kind)
	rest, cut := strings.CutPrefix(name, canvas.Clean(p.release)+"-")
	switch {
	case cut && canvas.Width(name) > room && room > min(canvas.Width(rest), 4):
		return kind + ellipsis + canvas.Tail(rest, room-1)
	case room >= min(canvas.Width(name), 5):
		return kind + canvas.FitMiddle(name, room, ellipsis)
	}
	return canvas.FitMiddle(kind+name, w, ellipsis)
}

// NameIn fits a node's name into a width, without the prefix cut.
func (p *Graph) NameIn(n *Node, cut string, w int, ellipsis string) string {
	if n.Single() {
		return p.ObjectIn(n.Objects[0].Object, w, ellipsis)
	}
	if rest, ok := strings.CutPrefix(canvas.Clean(n.Name), cut); ok && cut != "" {
		return canvas.FitMiddle(ellipsis+rest, w, ellipsis)
	}
	return GroupIn(n.Name, w, ellipsis)
}

// GroupIn fits a group's name into a width.
func GroupIn(name string, w int, ellipsis string) string {
	name = canvas.Clean(name)
	if chart, ok := strings.CutSuffix(name, plan.ShortUnsequenced); ok && canvas.Width(name) > w {
		name = chart + ellipsis // the chart's name matters more
	}
	return canvas.FitMiddle(name, w, ellipsis)
}
