package preflight

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// targetOfText returns a target with the objects of a text, in groups, and hooks before them.
// All objects are new.
func targetOfText(t *testing.T, text string) *target {
	t.Helper()
	docs, _, err := charts.Parse(strings.ReplaceAll("---\n"+text, "---\n", "---\n# Source: c/templates/x.yaml\n"), "c")
	if err != nil {
		t.Fatal(err)
	}
	var hooks, rest []charts.Document
	for _, d := range docs {
		if d.Object.GetAnnotations()["helm.sh/hook"] != "" {
			hooks = append(hooks, d)
		} else {
			rest = append(rest, d)
		}
	}
	p, err := plan.Build(&plan.Chart{Path: "c"}, charts.Resources(rest, "ns", charts.OfflineScope(rest...)))
	if err != nil {
		t.Fatal(err)
	}
	before := &plan.Group{ID: "hooks"}
	for _, r := range charts.Resources(hooks, "ns", charts.OfflineScope()) {
		before.Objects = append(before.Objects, r.Object)
	}
	out := &target{has: map[plan.Object]*incomingObject{}, before: map[string]map[string]bool{}}
	at := out.units([]event.Phase{{Name: "pre-install", Groups: []*plan.Group{before}}, {Name: "apply", Groups: p.Groups}})
	add := func(o *incomingObject) {
		o.at, o.new = at[o.Object], true
		out.objects = append(out.objects, o)
		out.has[o.Object] = o
	}
	out.addDocs(hooks, "ns", true, add)
	out.addDocs(rest, "ns", false, add)
	return out
}

const mounts = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: a, envFrom: [{secretRef: {name: wanted}}]}]}}}
---
`

// TestMissingReferences: there is one warning per missing object, and none if something in the
// plan is likely to create it.
func TestMissingReferences(t *testing.T) {
	tests := map[string]struct{ objects, want string }{
		"a Secret":                {mounts, "Deployment/web needs Secret/wanted (spec.template.spec.containers[0].envFrom[0].secretRef.name), which neither the chart nor namespace ns has: pods cannot start without it"},
		"twice":                   {mounts + strings.ReplaceAll(mounts, "web", "api"), "Deployment/web and 1 more need Secret/wanted ("},
		"in the chart":            {mounts + "{apiVersion: v1, kind: Secret, metadata: {name: wanted}}", ""},
		"in another namespace":    {mounts + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, namespace: other}}", "Secret/wanted"},
		"another kind":            {mounts + "{apiVersion: v1, kind: ConfigMap, metadata: {name: wanted}}", "Secret/wanted"},
		"no replicas":             {strings.Replace(mounts, "spec: {", "spec: {replicas: 0, ", 1), ""},
		"optional":                {strings.Replace(mounts, "name: wanted", "name: wanted, optional: true", 1), ""},
		"a Certificate":           {mounts + "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: x}, spec: {secretName: wanted}}", ""},
		"an ExternalSecret":       {mounts + "{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {name: x}, spec: {target: {name: wanted}}}", ""},
		"a SealedSecret":          {mounts + "{apiVersion: bitnami.com/v1alpha1, kind: SealedSecret, metadata: {name: wanted}}", ""},
		"a database's":            {strings.Replace(mounts, "wanted", "db-app", 1) + "{apiVersion: postgresql.cnpg.io/v1, kind: Cluster, metadata: {name: db}}", ""},
		"a monitor of that name":  {strings.Replace(mounts, "wanted", "db-app", 1) + "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: db}}", "Secret/db-app"},
		"a hook that makes it":    {mounts + "{apiVersion: batch/v1, kind: Job, metadata: {name: x, annotations: {helm.sh/hook: pre-install}}, spec: {template: {spec: {containers: [{name: a, args: [create, --secret-name=wanted]}]}}}}", ""},
		"a script that makes it":  {mounts + "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {run: 'kubectl create secret generic wanted'}}", ""},
		"an annotation":           {mounts + "{apiVersion: v1, kind: Service, metadata: {name: x, annotations: {service.beta.openshift.io/serving-cert-secret-name: wanted}}}", ""},
		"a claim of a template":   {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}, volumeClaimTemplates: [{metadata: {name: data}}]}}", ""},
		"a label does not":        {mounts + "{apiVersion: v1, kind: Service, metadata: {name: x, labels: {app: wanted}}}", "Secret/wanted"},
		"who may create Secrets":  {mounts + "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get, create]}]}", ""},
		"who may read Secrets":    {mounts + "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}", "Secret/wanted"},
		"built in":                {"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {serviceAccountName: default, priorityClassName: system-node-critical, volumes: [{configMap: {name: kube-root-ca.crt}}]}}", ""},
		"classes":                 {"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {priorityClassName: high}}", "Pod/x needs PriorityClass/high (spec.priorityClassName), which neither the chart nor the cluster has: no pods can be created without it"},
		"certificate":             {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x}, spec: {tls: [{secretName: wanted}]}}", "Ingress/x needs Secret/wanted (spec.tls[0].secretName)"},
		"certificate to be made":  {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x, annotations: {cert-manager.io/cluster-issuer: le}}, spec: {tls: [{secretName: wanted}]}}", ""},
		"before it, in a hook":    {strings.Replace(strings.Replace(strings.Replace(mounts, "apps/v1", "batch/v1", 1), "Deployment", "Job", 1), "{name: web}", "{name: web, annotations: {helm.sh/hook: pre-install}}", 1) + "{apiVersion: v1, kind: Secret, metadata: {name: wanted}}", "Job/web needs Secret/wanted (spec.template.spec.containers[0].envFrom[0].secretRef.name), which is created after it (c:(unsequenced)): pods cannot start without it"},
		"before it, in a group":   {strings.Replace(mounts, "{name: web}", "{name: web, annotations: {helm.sh/resource-group: a}}", 1) + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, annotations: {helm.sh/resource-group: b, helm.sh/depends-on-resource-groups: '[\"a\"]'}}}", "which is created after it (c:b)"},
		"beside it, in the group": {strings.Replace(mounts, "{name: web}", "{name: web, annotations: {helm.sh/resource-group: a}}", 1) + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, annotations: {helm.sh/resource-group: a}}}", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			target := targetOfText(t, tt.objects)
			missing, late := target.needs(waiting{groups: true})
			absent := map[plan.Object]bool{}
			for _, n := range slices.Concat(missing, late) {
				absent[n.To] = true
			}
			found := target.referenceWarnings(missing, late, absent)
			if tt.want == "" && len(found) > 0 || tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].Message, tt.want)) {
				t.Errorf("found %v, want %q", found, tt.want)
			}
			if found = target.referenceWarnings(missing, late, nil); len(found) > 0 {
				t.Errorf("where the cluster has everything: %v", found)
			}
		})
	}
}
