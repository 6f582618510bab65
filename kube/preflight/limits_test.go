package preflight

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

func fromYAML[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// checkWarnings checks that each warning contains the text at the same index of want.
func checkWarnings(t *testing.T, found []plan.Warning, want ...string) {
	t.Helper()
	ok := len(found) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.Contains(found[i].Message, want[i])
	}
	if !ok {
		t.Errorf("found %v\nwant %q", found, want)
	}
}

func workload(kind, spec string) string {
	return "{apiVersion: apps/v1, kind: " + kind + ", metadata: {name: web}, spec: {replicas: 3, template: {metadata: {labels: {app: web}}, spec: {" + spec + "}}}}\n---\n"
}

// TestQuotasWithScopes: a quota counts only the pods in its scopes.
func TestQuotasWithScopes(t *testing.T) {
	const (
		plain          = `containers: [{name: a}]`
		withCPURequest = `containers: [{name: a, resources: {requests: {cpu: 200m}}}]`
		withDeadline   = `activeDeadlineSeconds: 60, containers: [{name: a, resources: {requests: {cpu: 200m}}}]`
		high           = `priorityClassName: high, containers: [{name: a, resources: {requests: {cpu: 200m}}}]`
		over           = "ResourceQuota/q in namespace ns: pods: the release needs 3, but the quota has only 2 left (0 of 2 used)"
	)
	tests := map[string]struct {
		scope, pods string
		ranges      string
		want        []string
	}{
		"none":                                 {"", withCPURequest, "", []string{over}},
		"terminating":                          {"scopes: [Terminating]", withDeadline, "", []string{over}},
		"terminating, others":                  {"scopes: [Terminating]", withCPURequest, "", nil},
		"not terminating":                      {"scopes: [NotTerminating]", withCPURequest, "", []string{over}},
		"best effort":                          {"scopes: [BestEffort]", plain, "", []string{over}},
		"best effort, others":                  {"scopes: [BestEffort]", withCPURequest, "", nil},
		"BestEffort, LimitRange sets requests": {"scopes: [BestEffort]", plain, "limits: [{type: Container, defaultRequest: {cpu: 1}}]", nil},
		"not best effort":                      {"scopes: [NotBestEffort]", withCPURequest, "", []string{over}},
		"both":                                 {"scopes: [NotBestEffort, Terminating]", withCPURequest, "", nil},
		"PriorityClass In":                     {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}", high, "", []string{over}},
		"PriorityClass In, other":              {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}", high, "", nil},
		"PriorityClass NotIn":                  {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [low]}]}", high, "", []string{over}},
		"the cluster's class, unknown":         {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}", withCPURequest, "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := fromYAML[corev1.ResourceQuota](t, "{metadata: {name: q, namespace: ns}, status: {hard: {pods: 2, count/deployments.apps: 5}, used: {pods: 0}}}")
			q.Spec = fromYAML[corev1.ResourceQuotaSpec](t, "{"+tt.scope+"}")
			ranges := []corev1.LimitRange{{Spec: fromYAML[corev1.LimitRangeSpec](t, "{"+tt.ranges+"}")}}
			objects := parsePlanned(t, workload("Deployment", tt.pods)).objects
			checkWarnings(t, overQuota(q, quotaNeeds(q, objects, ranges)), tt.want...)
		})
	}
	q := fromYAML[corev1.ResourceQuota](t, "{metadata: {name: q, namespace: ns}, spec: {hard: {requests.cpu: 1}, scopes: [Terminating]}}")
	checkWarnings(t, missingResources(q, parsePlanned(t, workload("Deployment", plain)).objects, nil))
	checkWarnings(t, missingResources(q, parsePlanned(t, workload("Deployment", "activeDeadlineSeconds: 9, "+plain)).objects, nil), "Deployment/web does not set requests.cpu for container a, which ResourceQuota/q in namespace ns requires; no pods can be created")
	q = fromYAML[corev1.ResourceQuota](t, "{metadata: {name: q, namespace: ns}, spec: {hard: {requests.cpu: 1, limits.memory: 1Gi}}}")
	checkWarnings(t, missingResources(q, parsePlanned(t, workload("Deployment", "containers: [{name: a}, {name: b}]")).objects, nil),
		"does not set requests.cpu for container a, requests.cpu for container b, limits.memory for container a and limits.memory for container b, which ResourceQuota/q")
}

// TestReplicas counts the pods that a Job creates at once.
func TestReplicas(t *testing.T) {
	for spec, want := range map[string]int64{
		"template: {}":                                 1,
		"parallelism: 3, template: {}":                 3,
		"parallelism: 3, completions: 2, template: {}": 2,
		"completions: 5, template: {}":                 1,
	} {
		job := parsePlanned(t, "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {"+spec+"}}").objects[0]
		if got := replicas(job); got != want {
			t.Errorf("%s: %d pods, want %d", spec, got, want)
		}
	}
}

// TestLimitRanges checks the limits of containers, pods, and claims, including those of
// StatefulSets.
func TestLimitRanges(t *testing.T) {
	const two = `containers: [{name: a, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}, {name: b, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]`
	set := "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {template: {spec: {containers: []}}, volumeClaimTemplates: [{spec: {resources: {requests: {storage: 5Gi}}}}]}}"
	tests := map[string]struct {
		limits, objects string
		want            []string
	}{
		"pods, too much":          {"{type: Pod, max: {cpu: 3}}", workload("Deployment", two), []string{"Deployment/web violates LimitRange/l in namespace ns, so no pods can be created: the pod's cpu limit is 4, but the maximum is 3"}},
		"pods, enough":            {"{type: Pod, max: {cpu: 4}}", workload("Deployment", two), nil},
		"pods, too little":        {"{type: Pod, min: {cpu: 3}}", workload("Deployment", two), []string{"the pod's cpu request is 2, but the minimum is 3"}},
		"pods, not set":           {"{type: Pod, max: {memory: 1Gi}}", workload("Deployment", two), []string{"the pod's memory limit is not set, but the maximum is 1Gi"}},
		"pods, ratio":             {"{type: Pod, maxLimitRequestRatio: {cpu: 1500m}}", workload("Deployment", two), []string{"the pod's cpu limit is 4 and its request 2, but the limit may be at most 1.5 times the request"}},
		"containers, ratio":       {"{type: Container, maxLimitRequestRatio: {cpu: 1}}", workload("Deployment", strings.Replace(two, "cpu: 2", "cpu: 1", 1)), []string{"container b's cpu limit is 2 and its request 1"}},
		"containers, ratio kept":  {"{type: Container, maxLimitRequestRatio: {cpu: 2}}", workload("Deployment", two), nil},
		"claims":                  {"{type: PersistentVolumeClaim, max: {storage: 1Gi}}", "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {resources: {requests: {storage: 2Gi}}}}", []string{"PersistentVolumeClaim/c violates LimitRange/l in namespace ns: it requests 2Gi of storage, but the maximum is 1Gi"}},
		"claims of a StatefulSet": {"{type: PersistentVolumeClaim, max: {storage: 1Gi}}", set, []string{"StatefulSet/db violates LimitRange/l in namespace ns: it requests 5Gi of storage, but the maximum is 1Gi"}},
		"claims, enough":          {"{type: PersistentVolumeClaim, min: {storage: 1Gi}}", set, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := fromYAML[corev1.LimitRange](t, "{metadata: {name: l, namespace: ns}, spec: {limits: ["+tt.limits+"]}}")
			var found []plan.Warning
			for _, o := range parsePlanned(t, tt.objects).objects {
				found = append(found, outOfRange(o, []corev1.LimitRange{l})...)
			}
			checkWarnings(t, found, tt.want...)
		})
	}
}

// TestMissingKeys checks for missing keys in ConfigMaps and Secrets of the plan and of the
// cluster.
func TestMissingKeys(t *testing.T) {
	const pods = `containers: [{name: a, env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: color}}}]}]`
	const config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {shape: round}}"
	missing := "Deployment/web needs key color in ConfigMap/c (spec.template.spec.containers[0].env[0].valueFrom.configMapKeyRef.name), but the ConfigMap does not have it: pods cannot start without it"
	inCluster := plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "c"}
	tests := map[string]struct {
		objects string
		live    map[plan.Object][]string
		want    []string
	}{
		"key missing in chart":        {workload("Deployment", pods) + config, nil, []string{missing}},
		"key in chart":                {workload("Deployment", pods) + strings.Replace(config, "shape", "color", 1), nil, nil},
		"key missing in cluster":      {workload("Deployment", pods), map[plan.Object][]string{inCluster: {"shape"}}, []string{missing}},
		"key in cluster":              {workload("Deployment", pods), map[plan.Object][]string{inCluster: {"color"}}, nil},
		"ConfigMap missing":           {workload("Deployment", pods), nil, nil}, // checkReferences reports it
		"optional":                    {workload("Deployment", strings.Replace(pods, "key:", "optional: true, key:", 1)) + config, nil, nil},
		"a volume":                    {workload("Deployment", `containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, configMap: {name: c, items: [{key: a, path: a}, {key: shape, path: b}, {key: d, path: d}]}}]`) + config, nil, []string{"needs keys a, d in ConfigMap/c (spec.template.spec.volumes[0].configMap.name), but the ConfigMap does not have them: pods cannot start without them"}},
		"a Secret's text":             {workload("Deployment", strings.Replace(pods, "configMapKeyRef", "secretKeyRef", 1)) + "{apiVersion: v1, kind: Secret, metadata: {name: c}, stringData: {color: red}}", nil, nil},
		"Job may patch the ConfigMap": {workload("Deployment", pods) + config + "\n---\n{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: {containers: [{name: a, args: [patch, configmap/c]}]}}}}", nil, nil},
		"no replicas":                 {strings.Replace(workload("Deployment", pods), "replicas: 3", "replicas: 0", 1) + config, nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			planned := parsePlanned(t, tt.objects)
			checkWarnings(t, planned.keyWarnings(planned.requiredKeys(), tt.live), tt.want...)
		})
	}
}

// TestIdleBudgets checks for PodDisruptionBudgets that select no pods of the plan.
func TestIdleBudgets(t *testing.T) {
	pdb := func(selector string) string {
		return "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {selector: " + selector + "}}\n---\n"
	}
	web := workload("Deployment", "containers: []")
	tests := map[string]struct {
		objects string
		want    []string
	}{
		"a workload with 0 replicas":      {pdb("{matchLabels: {app: web}}") + strings.Replace(web, "replicas: 3", "replicas: 0", 1), nil},
		"no matching pods":                {pdb("{matchLabels: {app: wbe}}") + web, []string{"PodDisruptionBudget/b matches pods with app=wbe, but neither the chart nor namespace ns has any, so it protects nothing"}},
		"matching pods":                   {pdb("{matchLabels: {app: web}}") + web, nil},
		"by expression":                   {pdb("{matchExpressions: [{key: app, operator: In, values: [web]}]}") + web, nil},
		"for all":                         {pdb("{}") + web, nil},
		"custom resource may create pods": {pdb("{matchLabels: {app: db}}") + "{apiVersion: postgresql.cnpg.io/v1, kind: Cluster, metadata: {name: db}}", nil},
		"in another namespace":            {strings.Replace(pdb("{matchLabels: {app: web}}"), "name: b", "name: b, namespace: other", 1) + web, []string{"namespace other"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var found []plan.Warning
			for _, b := range parsePlanned(t, tt.objects).idleBudgets() {
				found = append(found, b.warning())
			}
			checkWarnings(t, found, tt.want...)
		})
	}
}

// TestQuotaOfThePlan: a quota that the operation changes counts as it will be.
func TestQuotaOfThePlan(t *testing.T) {
	q := fromYAML[corev1.ResourceQuota](t, "{metadata: {name: q, namespace: ns}, spec: {hard: {pods: 2}}, status: {hard: {pods: 2}, used: {pods: 0}}}")
	pods := workload("Deployment", "containers: [{name: a}]")
	quota := func(pods string) string {
		return "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: " + pods + "}}}\n---\n"
	}
	for text, want := range map[string][]string{
		pods:                   {"pods: the release needs 3, but the quota has only 2 left (0 of 2 used)"},
		pods + quota("3"):      nil,
		pods + quota("\"1\""):  {"pods: the release needs 3, but the quota has only 1 left (0 of 1 used)"},
		pods + quota("[lots]"): {"only 2 left"},
	} {
		planned := parsePlanned(t, text)
		q := planned.quota(q)
		checkWarnings(t, overQuota(q, quotaNeeds(q, planned.objects, nil)), want...)
	}
}
