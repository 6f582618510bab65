package preflight

import (
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestSuspendedJobs: a suspended Job that must complete is named before the first write (R22).
func TestSuspendedJobs(t *testing.T) {
	const (
		job     = "{apiVersion: batch/v1, kind: Job, metadata: {name: x, annotations: {ANNOTATIONS}}, spec: {suspend: SUSPEND, template: {spec: {containers: [{name: a}]}}}}\n---\n"
		waiting = "{apiVersion: v1, kind: ConfigMap, metadata: {name: after, annotations: {helm.sh/resource-group: b, helm.sh/depends-on-resource-groups: '[\"a\"]'}}}"
	)
	for _, c := range []struct {
		annotations, suspend, rest string
		jobs                       plan.Jobs
		want                       bool
	}{
		{"helm.sh/resource-group: a", "true", waiting, plan.AwaitedJobs, true},
		{"helm.sh/resource-group: a", "false", waiting, plan.AwaitedJobs, false},
		{"helm.sh/resource-group: a", "true", waiting, plan.StartedJobs, false},
		{"helm.sh/resource-group: a", "true", "", plan.AwaitedJobs, false},
		{"helm.sh/resource-group: a", "true", "", plan.AllJobs, true},
		{"helm.sh/layer: a", "true", "", plan.StartedJobs, true},
		{"helm.sh/hook: pre-install", "true", "", plan.StartedJobs, true},
	} {
		planned := parsePlanned(t, strings.NewReplacer("ANNOTATIONS", c.annotations, "SUSPEND", c.suspend).Replace(job)+c.rest)
		var groups []*plan.Group
		for _, o := range planned.objects {
			if !o.hook {
				groups = append(groups, o.position.group)
			}
		}
		c.jobs.Complete(groups)
		if found := planned.checkJobs(); (len(found) == 1) != c.want {
			t.Errorf("%s, suspended %s, --wait-for-jobs=%q: %v", c.annotations, c.suspend, c.jobs, found)
		}
	}
}
