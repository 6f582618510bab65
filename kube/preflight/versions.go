package preflight

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/plan"
	"lockstep/kube/manifest"
)

// checkVersions warns about objects in deprecated API versions.
func (s *clusterView) checkVersions(t *plannedObjects) (warnings []plan.Warning) {
	var kinds []schema.GroupVersionKind
	of := map[schema.GroupVersionKind][]*incomingObject{}
	for _, o := range t.objects {
		if l, known := manifest.LifecycleOf(o.gvk); !known || l.DeprecatedMajor == 0 {
			continue
		}
		if of[o.gvk] == nil {
			kinds = append(kinds, o.gvk)
		}
		of[o.gvk] = append(of[o.gvk], o)
	}
	if len(kinds) == 0 {
		return nil
	}
	version, err := s.Client.Clientset.Discovery().ServerVersion()
	if s.recordFailure(err, "the version of the API server", "") {
		return nil
	}
	major, minor := number(version.Major), number(version.Minor)
	for _, gvk := range kinds {
		l, _ := manifest.LifecycleOf(gvk)
		reached := func(a, b int) bool { return major > a || major == a && minor >= b }
		if !reached(l.DeprecatedMajor, l.DeprecatedMinor) || l.RemovedMajor > 0 && reached(l.RemovedMajor, l.RemovedMinor) { // CheckKinds refuses removed ones
			continue
		}
		first, verb := of[gvk][0], "uses"
		if len(of[gvk]) > 1 {
			verb = "use"
		}
		text := fmt.Sprintf("%s %s apiVersion %s, which is deprecated since Kubernetes %d.%d", andMore(first, len(of[gvk])), verb, gvk.GroupVersion(), l.DeprecatedMajor, l.DeprecatedMinor)
		if l.RemovedMajor > 0 {
			text += fmt.Sprintf(" and removed in %d.%d", l.RemovedMajor, l.RemovedMinor)
		}
		warnings = append(warnings, plan.Warning{Object: &first.Object, Message: text + l.Use()})
	}
	return warnings
}

// number parses a part of a version, such as "33+". It returns 0 for text that is no number.
func number(s string) int {
	n, _ := strconv.Atoi(strings.TrimRight(s, "+"))
	return n
}
