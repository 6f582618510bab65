package chartchecks

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// known are the distributions that lockstep tells apart, without dashes, with what their nodes show. A distribution of OpenShift is
// known by its APIs.
var known = map[string]func(corev1.Node) bool{
	"aks":           func(n corev1.Node) bool { return hasLabel(n, "kubernetes.azure.com/role") },
	"digitalocean":  byProvider("digitalocean"),
	"dockerdesktop": func(n corev1.Node) bool { return n.Status.NodeInfo.OSImage == "Docker Desktop" },
	"eks": func(n corev1.Node) bool {
		return byProvider("aws")(n) && strings.Contains(n.Status.NodeInfo.KubeletVersion, "-eks-")
	},
	"gke": func(n corev1.Node) bool {
		return byProvider("gce")(n) && strings.Contains(n.Status.NodeInfo.KubeletVersion, "-gke.")
	},
	"k3s":      byVersion("+k3s"),
	"kind":     byProvider("kind"),
	"kurl":     func(n corev1.Node) bool { return n.Labels["kurl.sh/cluster"] == "true" },
	"microk8s": func(n corev1.Node) bool { return n.Labels["microk8s.io/cluster"] == "true" },
	"minikube": func(n corev1.Node) bool { return hasLabel(n, "minikube.k8s.io/version") },
	"rke2":     byVersion("+rke2"),
}

const openShift = "openshift"

func hasLabel(n corev1.Node, key string) bool { _, has := n.Labels[key]; return has }

func byProvider(scheme string) func(corev1.Node) bool {
	return func(n corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, scheme+":") }
}

func byVersion(suffix string) func(corev1.Node) bool {
	return func(n corev1.Node) bool { return strings.Contains(n.Status.NodeInfo.KubeletVersion, suffix) }
}

// distributions returns the distributions of which a cluster shows signs.
func distributions(cluster Cluster) (found []string, err error) {
	nodes, err := cluster.Nodes()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for name, is := range known {
		if slices.ContainsFunc(nodes, is) {
			found = append(found, name)
		}
	}
	groups, err := cluster.APIGroups()
	if err != nil {
		return nil, fmt.Errorf("list the API groups: %w", err)
	}
	if slices.ContainsFunc(groups, func(g string) bool { return strings.HasSuffix(g, ".openshift.io") }) {
		found = append(found, openShift)
	}
	return found, nil
}

// distributionMatches reports whether a condition such as "== gke" holds.
func distributionMatches(found []string, when string) (bool, error) {
	parts := strings.Fields(when)
	if len(parts) == 1 {
		parts = append([]string{"=="}, parts...)
	}
	if len(parts) != 2 {
		return false, errCondition
	}
	name := strings.ReplaceAll(strings.ToLower(parts[1]), "-", "")
	if known[name] == nil && name != openShift {
		return false, fmt.Errorf("lockstep does not know the distribution %s", parts[1])
	}
	is := slices.Contains(found, name)
	switch parts[0] {
	case "=", "==", "===":
		return is, nil
	case "!=", "!==":
		return !is, nil
	}
	return false, errCondition
}
