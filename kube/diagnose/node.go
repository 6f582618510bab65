package diagnose

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeOfPod follows a pod to its node, where nothing about the pod itself is wrong:
// nobody has taken it up there, or it is not ready though its containers are. Who may
// not look at nodes learns nothing from them.
func (d *Diagnoser) nodeOfPod(ctx context.Context, p Pod) lead {
	idle := p.trouble == young && p.Phase == "pending" && len(p.Containers) == 0
	if p.Node == "" || !idle && !p.lost() {
		return lead{}
	}
	n, err := d.kube.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	if err != nil {
		return lead{}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			why := condition{kind: string(c.Type), status: string(c.Status), reason: c.Reason, message: c.Message}.String()
			return lead{cause: "node " + n.Name + " is not ready: " + colon(c.Reason, c.Message), evidence: []string{"node " + n.Name + ": " + why}}
		}
	}
	return lead{}
}

// lost reports whether a pod is not ready though its containers are.
func (p Pod) lost() bool {
	for _, c := range p.Containers {
		if !c.Ready && (!c.Init || c.Sidecar) {
			return false
		}
	}
	return p.trouble == unready && p.Why == notReadyText
}
