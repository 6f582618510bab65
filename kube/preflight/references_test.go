package preflight

import (
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// parsePlanned returns the objects of a text, in groups, and hooks before them.
// All objects are new.
func parsePlanned(t *testing.T, text string) *plannedObjects {
	t.Helper()
	docs, _, err := charts.ParseManifest(strings.ReplaceAll("---\n"+text, "---\n", "---\n# Source: c/templates/x.yaml\n"), "c")
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
	phases := []event.Phase{{Name: "pre-install"}, {Name: "apply", Groups: p.Groups}, {Name: "post-install"}}
	for n, r := range charts.Resources(hooks, "ns", charts.OfflineScope()) { // by weight
		phase := &phases[0]
		if hooks[n].Object.GetAnnotations()["helm.sh/hook"] == "post-install" {
			phase = &phases[2]
		}
		g := &plan.Group{ID: phase.Name + ":" + r.Object.String(), Objects: []plan.Object{r.Object}}
		for _, earlier := range phase.Groups {
			g.After = append(g.After, earlier.ID)
		}
		phase.Groups = append(phase.Groups, g)
	}
	out := &plannedObjects{byObject: map[plan.Object]*incomingObject{}, dependencies: map[string]map[string]bool{}}
	positions := out.addPhases(phases)
	add := func(o *incomingObject) {
		o.position, o.new = positions[o.Object], true
		out.objects = append(out.objects, o)
		out.byObject[o.Object] = o
	}
	addDocs(hooks, "ns", true, add)
	addDocs(rest, "ns", false, add)
	return out
}

const webUsingSecret = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: a, envFrom: [{secretRef: {name: wanted}}]}]}}}
---
`

const webWaitingForJob = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {initContainers: [{name: wait-for-migrations}], containers: [{name: a}]}}}
---
`

// TestMissingReferences: there is one warning per missing object, and none if something in the
// plan is likely to create it.
func TestMissingReferences(t *testing.T) {
	tests := map[string]struct{ objects, want string }{
		"a Secret":                {webUsingSecret, "Deployment/web needs Secret/wanted (spec.template.spec.containers[0].envFrom[0].secretRef.name), which is in neither the chart nor namespace ns: pods cannot start without it"},
		"twice":                   {webUsingSecret + strings.ReplaceAll(webUsingSecret, "web", "api"), "Deployment/web and 1 more need Secret/wanted ("},
		"in the chart":            {webUsingSecret + "{apiVersion: v1, kind: Secret, metadata: {name: wanted}}", ""},
		"in another namespace":    {webUsingSecret + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, namespace: other}}", "Secret/wanted"},
		"another kind":            {webUsingSecret + "{apiVersion: v1, kind: ConfigMap, metadata: {name: wanted}}", "Secret/wanted"},
		"no replicas":             {strings.Replace(webUsingSecret, "spec: {", "spec: {replicas: 0, ", 1), ""},
		"optional":                {strings.Replace(webUsingSecret, "name: wanted", "name: wanted, optional: true", 1), ""},
		"a Certificate":           {webUsingSecret + "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: x}, spec: {secretName: wanted}}", ""},
		"an ExternalSecret":       {webUsingSecret + "{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {name: x}, spec: {target: {name: wanted}}}", ""},
		"a SealedSecret":          {webUsingSecret + "{apiVersion: bitnami.com/v1alpha1, kind: SealedSecret, metadata: {name: wanted}}", ""},
		"a database's":            {strings.Replace(webUsingSecret, "wanted", "db-app", 1) + "{apiVersion: postgresql.cnpg.io/v1, kind: Cluster, metadata: {name: db}}", ""},
		"a monitor of that name":  {strings.Replace(webUsingSecret, "wanted", "db-app", 1) + "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: db}}", "Secret/db-app"},
		"a hook that makes it":    {webUsingSecret + "{apiVersion: batch/v1, kind: Job, metadata: {name: x, annotations: {helm.sh/hook: pre-install}}, spec: {template: {spec: {containers: [{name: a, args: [create, --secret-name=wanted]}]}}}}", ""},
		"a script that makes it":  {webUsingSecret + "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {run: 'kubectl create secret generic wanted'}}", ""},
		"an annotation":           {webUsingSecret + "{apiVersion: v1, kind: Service, metadata: {name: x, annotations: {service.beta.openshift.io/serving-cert-secret-name: wanted}}}", ""},
		"a claim of a template":   {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}, volumeClaimTemplates: [{metadata: {name: data}}]}}", ""},
		"name only in a label":    {webUsingSecret + "{apiVersion: v1, kind: Service, metadata: {name: x, labels: {app: wanted}}}", "Secret/wanted"},
		"Role may create Secrets": {webUsingSecret + "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get, create]}]}", ""},
		"Role may read Secrets":   {webUsingSecret + "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}", "Secret/wanted"},
		"built in":                {"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {serviceAccountName: default, priorityClassName: system-node-critical, containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, configMap: {name: kube-root-ca.crt}}]}}", ""},
		"unmounted":               {"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c}], volumes: [{name: v, configMap: {name: wanted}}]}}", ""},
		"classes":                 {"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {priorityClassName: high}}", "Pod/x needs PriorityClass/high (spec.priorityClassName), which is in neither the chart nor the cluster: no pods can be created without it"},
		"certificate":             {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x}, spec: {tls: [{secretName: wanted}]}}", "Ingress/x needs Secret/wanted (spec.tls[0].secretName)"},
		"cert-manager Ingress":    {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x, annotations: {cert-manager.io/cluster-issuer: le}}, spec: {tls: [{secretName: wanted}]}}", ""},
		"before it, in a hook":    {strings.Replace(strings.Replace(strings.Replace(webUsingSecret, "apps/v1", "batch/v1", 1), "Deployment", "Job", 1), "{name: web}", "{name: web, annotations: {helm.sh/hook: pre-install}}", 1) + "{apiVersion: v1, kind: Secret, metadata: {name: wanted}}", "Job/web needs Secret/wanted (spec.template.spec.containers[0].envFrom[0].secretRef.name), which is created after it (c:(unsequenced)): pods cannot start without it; make it a hook of the same event as Job/web, with a lower helm.sh/hook-weight"},
		"before it, in a group":   {strings.Replace(webUsingSecret, "{name: web}", "{name: web, annotations: {helm.sh/resource-group: a}}", 1) + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, annotations: {helm.sh/resource-group: b, helm.sh/depends-on-resource-groups: '[\"a\"]'}}}", "which is created after it (c:b): pods cannot start without it; put it into the same group or an earlier one"},
		"before it, by weight":    {strings.Replace(strings.Replace(strings.Replace(webUsingSecret, "apps/v1", "batch/v1", 1), "Deployment", "Job", 1), "{name: web}", "{name: web, annotations: {helm.sh/hook: pre-install}}", 1) + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: '1'}}}", "pods cannot start without it; give it a lower helm.sh/hook-weight"},
		"before a hook's":         {webUsingSecret + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, annotations: {helm.sh/hook: post-install}}}", "which is created after it (post-install:Secret/wanted): pods cannot start without it; make it a hook before the objects, such as pre-install, remove its annotation helm.sh/hook, or deploy in Helm's order with --wait=hookOnly"},
		"waits for a hook's":      {webWaitingForJob + "{apiVersion: batch/v1, kind: Job, metadata: {name: run-migrations, annotations: {helm.sh/hook: post-install}}, spec: {template: {spec: {containers: [{name: a}]}}}}", "Deployment/web needs Job/run-migrations (spec.template.spec.initContainers[0]), which is created after it (post-install:Job/run-migrations): pods cannot start without it; make it a hook before the objects, such as pre-install, remove its annotation helm.sh/hook, or deploy in Helm's order with --wait=hookOnly"},
		"waits for an earlier":    {webWaitingForJob + "{apiVersion: batch/v1, kind: Job, metadata: {name: run-migrations, annotations: {helm.sh/hook: pre-install}}, spec: {template: {spec: {containers: [{name: a}]}}}}", ""},
		"waits for another":       {webWaitingForJob + "{apiVersion: batch/v1, kind: Job, metadata: {name: run-backups, annotations: {helm.sh/hook: post-install}}, spec: {template: {spec: {containers: [{name: a}]}}}}", ""},
		"same group":              {strings.Replace(webUsingSecret, "{name: web}", "{name: web, annotations: {helm.sh/resource-group: a}}", 1) + "{apiVersion: v1, kind: Secret, metadata: {name: wanted, annotations: {helm.sh/resource-group: a}}}", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			planned := parsePlanned(t, tt.objects)
			missing, late := planned.references(true)
			absent := map[plan.Object]bool{}
			for _, r := range slices.Concat(missing, late) {
				absent[r.To] = true
			}
			found := planned.referenceWarnings(missing, late, absent)
			if tt.want == "" && len(found) > 0 || tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].Message, tt.want)) {
				t.Errorf("found %v, want %q", found, tt.want)
			}
			if found = planned.referenceWarnings(missing, late, nil); len(found) > 0 {
				t.Errorf("warnings although all objects exist: %v", found)
			}
		})
	}
}

// TestReferenceToAnAwaitedObject: a group that starts after an object outside the release is ready does not miss it (R22d).
func TestReferenceToAnAwaitedObject(t *testing.T) {
	for _, after := range []bool{true, false} {
		depends := ""
		if after {
			depends = `, helm.sh/depends-on-resource-groups: '["a"]'`
		}
		planned := parsePlanned(t, strings.Replace(webUsingSecret, "{name: web}", "{name: web, annotations: {helm.sh/resource-group: b"+depends+"}}", 1)+
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, annotations: {helm.sh/resource-group: a}}}\n---\n"+
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: last, annotations: {helm.sh/resource-group: c, helm.sh/depends-on-resource-groups: '["a", "b"]'}}}`)
		first := planned.byObject[plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "x"}].position
		first.group.WaitFor = []plan.Object{{Kind: "Secret", Namespace: "ns", Name: "wanted"}}
		planned.gated = append(planned.gated, first)
		if missing, _ := planned.references(true); (len(missing) == 0) != after {
			t.Errorf("after the group that waits: %t, missing %v", after, missing)
		}
	}
}
