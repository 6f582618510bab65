package preflight

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"lockstep/engine/plan"
)

// checkPodSecurity finds pods that the level of their namespace forbids. Somebody
// may be exempt, and webhooks may mend pods, so these are warnings.
func checkPodSecurity(t *target, namespaces map[string]*corev1.Namespace) (warnings []plan.Warning) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil
	}
	for _, o := range t.objects {
		meta, spec, ok := podsOf(o)
		if !ok {
			continue
		}
		level, err := api.PolicyToEvaluate(t.labelsOf(o.Namespace, namespaces), api.Policy{Enforce: api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}})
		if len(err) > 0 || level.Enforce.Level == api.LevelPrivileged {
			continue
		}
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(level.Enforce, &meta, &spec))
		if result.Allowed {
			continue
		}
		warnings = append(warnings, plan.Warning{Object: &o.Object, Message: fmt.Sprintf("%s breaks the PodSecurity level %s of namespace %s: %s: no pods can be created",
			o, level.Enforce.Level, o.Namespace, result.ForbiddenDetail())})
	}
	return warnings
}

// labelsOf are those of a namespace, with what the plan makes of them.
func (t *target) labelsOf(name string, namespaces map[string]*corev1.Namespace) labels.Set {
	var set labels.Set
	if ns := namespaces[name]; ns != nil {
		set = ns.Labels
	}
	if b := t.has[plan.Object{Kind: "Namespace", Name: name}]; b != nil {
		set = labels.Merge(set, b.labels())
	}
	return set
}
