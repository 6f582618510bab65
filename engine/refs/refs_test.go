package refs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
)

// TestIfMissing: IfMissing returns "" for an optional reference, for a built-in object, and for a use without a
// consequence.
func TestIfMissing(t *testing.T) {
	for want, list := range map[string][]Ref{
		"pods cannot start without it":        {{Use: Volume, To: plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "c"}}},
		"no pods can be created without it":   {{Use: Priority, To: plan.Object{Kind: "PriorityClass", Name: "high"}}},
		"the autoscaler has nothing to scale": {{Use: Target, To: plan.Object{Kind: "Deployment", Namespace: "ns", Name: "web"}}},
		"requests to it fail":                 {{Use: Backend, To: plan.Object{Kind: "Service", Namespace: "ns", Name: "default"}}},
		"": {
			{Use: Volume, To: plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "c"}, Optional: true},
			{Use: Volume, To: plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "kube-root-ca.crt"}},
			{Use: Account, To: plan.Object{Kind: "ServiceAccount", Namespace: "ns", Name: "default"}},
			{Use: Priority, To: plan.Object{Kind: "PriorityClass", Name: "system-node-critical"}},
			{Use: Storage, To: plan.Object{Kind: "StorageClass", Name: "fast"}},
		},
	} {
		for _, r := range list {
			if got := r.IfMissing(); got != want {
				t.Errorf("%s %s: %q, want %q", r.Use, r.To, got, want)
			}
		}
	}
}

// TestFind checks the references, and their paths, in many kinds of objects.
func TestFind(t *testing.T) {
	const pod = `{serviceAccountName: sa, containers: [{name: a, env: [{name: X, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}`
	podRefs := func(path string) []string {
		return []string{"account ServiceAccount/sa in ns: " + path + ".serviceAccountName",
			"environment Secret/s in ns: " + path + ".containers[0].env[0].valueFrom.secretKeyRef.name [k]"}
	}
	tests := map[string]struct {
		object string // kind.group, and its fields
		want   []string
	}{
		"Pod":                   {"Pod spec: " + pod, podRefs("spec")},
		"PodTemplate":           {"PodTemplate template: {spec: " + pod + "}", podRefs("template.spec")},
		"ReplicationController": {"ReplicationController spec: {template: {spec: " + pod + "}}", podRefs("spec.template.spec")},
		"Deployment":            {"Deployment.apps spec: {template: {spec: " + pod + "}}", podRefs("spec.template.spec")},
		"ReplicaSet":            {"ReplicaSet.apps spec: {template: {spec: " + pod + "}}", podRefs("spec.template.spec")},
		"DaemonSet":             {"DaemonSet.apps spec: {template: {spec: " + pod + "}}", podRefs("spec.template.spec")},
		"Job":                   {"Job.batch spec: {template: {spec: " + pod + "}}", podRefs("spec.template.spec")},
		"CronJob":               {"CronJob.batch spec: {jobTemplate: {spec: {template: {spec: " + pod + "}}}}", podRefs("spec.jobTemplate.spec.template.spec")},
		"custom kind":           {"Deployment.example.com spec: {template: {spec: " + pod + "}}", nil},
		"a volume that a template replaces": {"StatefulSet.apps spec: {template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: more, persistentVolumeClaim: {claimName: more}}]}}, volumeClaimTemplates: [{metadata: {name: data}}]}",
			[]string{"claim PersistentVolumeClaim/more in ns: spec.template.spec.volumes[1].persistentVolumeClaim.claimName"}},
		"StatefulSet": {"StatefulSet.apps spec: {serviceName: peers, template: {spec: {containers: []}}, volumeClaimTemplates: [{spec: {storageClassName: fast}}, {spec: {storageClassName: ''}}]}",
			[]string{"governing Service/peers in ns: spec.serviceName", "storage StorageClass/fast: spec.volumeClaimTemplates[0].spec.storageClassName"}},
		"pod-level fields": {"Pod spec: {priorityClassName: high, runtimeClassName: gvisor, serviceAccount: old, imagePullSecrets: [{name: pull}]}", []string{
			"account ServiceAccount/old in ns: spec.serviceAccount", "priority PriorityClass/high: spec.priorityClassName",
			"runtime RuntimeClass/gvisor: spec.runtimeClassName", "pull Secret/pull in ns: spec.imagePullSecrets[0].name"}},
		"environment": {"Pod spec: {initContainers: [{envFrom: [{configMapRef: {name: c}}, {secretRef: {name: s, optional: true}}]}], containers: [{env: [{name: A, value: s}, {name: B, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}, {name: C, valueFrom: {fieldRef: {fieldPath: x}}}]}]}", []string{
			"environment ConfigMap/c in ns: spec.initContainers[0].envFrom[0].configMapRef.name", "environment Secret/s in ns: spec.initContainers[0].envFrom[1].secretRef.name optional",
			"environment ConfigMap/c in ns: spec.containers[0].env[1].valueFrom.configMapKeyRef.name optional [k]"}},
		"volumes": {"Pod spec: {containers: [{volumeMounts: [{name: a}]}], initContainers: [{volumeMounts: [{name: b}]}], volumes: [{name: a, configMap: {name: c, items: [{key: a}, {key: b}]}}, {name: b, secret: {secretName: s, optional: true}}, {emptyDir: {}}, {persistentVolumeClaim: {claimName: data}}]}", []string{
			"volume ConfigMap/c in ns: spec.volumes[0].configMap.name [a b]", "volume Secret/s in ns: spec.volumes[1].secret.secretName optional",
			"claim PersistentVolumeClaim/data in ns: spec.volumes[3].persistentVolumeClaim.claimName"}},
		"volumes that no container mounts": {"Pod spec: {containers: [{volumeMounts: [{name: other}]}], volumes: [{name: a, configMap: {name: c}}, {name: b, secret: {secretName: s}}, {name: p, projected: {sources: [{secret: {name: s}}]}}, {name: x, csi: {nodePublishSecretRef: {name: p}}}, {name: d, persistentVolumeClaim: {claimName: data}}, {ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}]}", []string{
			"claim PersistentVolumeClaim/data in ns: spec.volumes[4].persistentVolumeClaim.claimName", "storage StorageClass/fast: spec.volumes[5].ephemeral.volumeClaimTemplate.spec.storageClassName"}}, // the scheduler waits for claims
		"projected and csi volumes": {"Pod spec: {containers: [{volumeMounts: [{name: p}, {name: c}]}], volumes: [{name: p, projected: {sources: [{secret: {name: s}}, {configMap: {name: c, optional: true}}, {serviceAccountToken: {path: t}}]}}, {name: c, csi: {driver: x, nodePublishSecretRef: {name: p}}}, {ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}]}", []string{
			"volume Secret/s in ns: spec.volumes[0].projected.sources[0].secret.name", "volume ConfigMap/c in ns: spec.volumes[0].projected.sources[1].configMap.name optional",
			"volume Secret/p in ns: spec.volumes[1].csi.nodePublishSecretRef.name", "storage StorageClass/fast: spec.volumes[2].ephemeral.volumeClaimTemplate.spec.storageClassName"}},
		"ServiceAccount": {"ServiceAccount imagePullSecrets: [{name: pull}]\nsecrets: [{name: token}]",
			[]string{"pull Secret/pull in ns: imagePullSecrets[0].name", "token Secret/token in ns: secrets[0].name"}},
		"claim":                             {"PersistentVolumeClaim spec: {storageClassName: fast, volumeName: pv}", []string{"storage StorageClass/fast: spec.storageClassName", "bound PersistentVolume/pv: spec.volumeName"}},
		"claim with the beta annotation":    {"PersistentVolumeClaim metadata: {annotations: {volume.beta.kubernetes.io/storage-class: slow}}", []string{"storage StorageClass/slow: metadata.annotations.volume.beta.kubernetes.io/storage-class"}},
		"claim with an empty storage class": {"PersistentVolumeClaim spec: {storageClassName: ''}", nil},
		"Ingress": {"Ingress.networking.k8s.io spec: {ingressClassName: nginx, defaultBackend: {service: {name: d}}, rules: [{http: {paths: [{backend: {service: {name: w}}}, {backend: {resource: {kind: Bucket, name: b}}}]}}], tls: [{hosts: [h]}, {secretName: cert}]}", []string{
			"class IngressClass/nginx: spec.ingressClassName", "backend Service/d in ns: spec.defaultBackend.service.name", "backend Service/w in ns: spec.rules[0].http.paths[0].backend.service.name", "tls Secret/cert in ns: spec.tls[1].secretName"}},
		"Ingress before v1": {"Ingress.extensions spec: {backend: {serviceName: d}, rules: [{http: {paths: [{backend: {serviceName: w}}]}}]}",
			[]string{"backend Service/d in ns: spec.backend.serviceName", "backend Service/w in ns: spec.rules[0].http.paths[0].backend.serviceName"}},
		"autoscaler":                            {"HorizontalPodAutoscaler.autoscaling spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}", []string{"target Deployment.apps/web in ns: spec.scaleTargetRef.name"}},
		"autoscaler of a ReplicationController": {"HorizontalPodAutoscaler.autoscaling spec: {scaleTargetRef: {apiVersion: v1, kind: ReplicationController, name: web}}", []string{"target ReplicationController/web in ns: spec.scaleTargetRef.name"}},
		"RoleBinding": {"RoleBinding.rbac.authorization.k8s.io roleRef: {kind: Role, name: r}\nsubjects: [{kind: ServiceAccount, name: a}, {kind: ServiceAccount, name: b, namespace: other}, {kind: User, name: u}]", []string{
			"role Role.rbac.authorization.k8s.io/r in ns: roleRef.name", "subject ServiceAccount/a in ns: subjects[0].name", "subject ServiceAccount/b in other: subjects[1].name"}},
		"RoleBinding to a ClusterRole": {"RoleBinding.rbac.authorization.k8s.io roleRef: {kind: ClusterRole, name: view}", []string{"role ClusterRole.rbac.authorization.k8s.io/view: roleRef.name"}},
		"webhooks": {"ValidatingWebhookConfiguration.admissionregistration.k8s.io webhooks: [{clientConfig: {url: 'https://x'}}, {clientConfig: {service: {name: hook, namespace: sys}}}]",
			[]string{"server Service/hook in sys: webhooks[1].clientConfig.service.name"}},
		"APIService": {"APIService.apiregistration.k8s.io spec: {service: {name: api, namespace: sys}}", []string{"server Service/api in sys: spec.service.name"}},
		"CRD": {"CustomResourceDefinition.apiextensions.k8s.io spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: conv, namespace: sys}}}}}",
			[]string{"server Service/conv in sys: spec.conversion.webhook.clientConfig.service.name"}},
		"fields with the wrong type": {"Pod spec: {serviceAccountName: 3, volumes: {a: b}, containers: [x, {env: 7}], imagePullSecrets: [null, {name: [a]}]}", nil},
		"no spec":                    {"Deployment.apps data: {}", nil},
		"spec is a string":           {"Pod spec: text", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			kind, text, _ := strings.Cut(tt.object, " ")
			object := plan.Object{Namespace: "ns", Name: "x"}
			object.Kind, object.Group, _ = strings.Cut(kind, ".")
			var fields map[string]any
			if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range Find(object, fields) {
				if r.Use != Namespace {
					got = append(got, describe(r))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func describe(r Ref) string {
	kind := r.To.Kind
	if r.To.Group != "" && !clusterScoped[plan.GroupKind{Group: r.To.Group, Kind: kind}] {
		kind += "." + r.To.Group
	}
	s := fmt.Sprintf("%s %s/%s", r.Use, kind, r.To.Name)
	if r.To.Namespace != "" {
		s += " in " + r.To.Namespace
	}
	s += ": " + r.Path
	if r.Optional {
		s += " optional"
	}
	if len(r.Keys) > 0 {
		s += fmt.Sprint(" ", r.Keys)
	}
	return s
}

// TestNamespaceReference: an object refers to its namespace, unless it is cluster-scoped.
func TestNamespaceReference(t *testing.T) {
	if got := Find(plan.Object{Kind: "ConfigMap", Namespace: "ns", Name: "x"}, nil); len(got) != 1 || describe(got[0]) != "namespace Namespace/ns: metadata.namespace" {
		t.Errorf("references of ConfigMap/x: %+v, want only its namespace", got)
	}
	if got := Find(plan.Object{Kind: "PersistentVolume", Name: "x"}, nil); len(got) != 0 {
		t.Errorf("references of PersistentVolume/x: %+v, want none", got)
	}
}

// TestObjectsWithoutPods: a PodTemplate, and a workload that is suspended or whose replicas or parallelism is 0, create
// no pods.
func TestObjectsWithoutPods(t *testing.T) {
	tests := map[string]struct {
		spec map[string]any
		none bool
	}{
		"default":           {map[string]any{}, false},
		"replicas":          {map[string]any{"replicas": int64(2)}, false},
		"no replicas":       {map[string]any{"replicas": int64(0)}, true},
		"no replicas, JSON": {map[string]any{"replicas": float64(0)}, true},
		"no parallelism":    {map[string]any{"parallelism": int64(0)}, true},
		"suspended":         {map[string]any{"suspend": true}, true},
	}
	for name, tt := range tests {
		tt.spec["template"] = map[string]any{"spec": map[string]any{}}
		if p, ok := FindPods(plan.Object{Group: "apps", Kind: "Deployment"}, map[string]any{"spec": tt.spec}); !ok || p.None != tt.none {
			t.Errorf("%s: None = %v (ok = %v), want %v", name, p.None, ok, tt.none)
		}
	}
	template := map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	if p, ok := FindPods(plan.Object{Kind: "PodTemplate"}, template); !ok || !p.None {
		t.Errorf("PodTemplate: None = %v (ok = %v), want true", p.None, ok)
	}
}

// TestMentions finds names as whole words.
func TestMentions(t *testing.T) {
	tests := []struct {
		value any
		name  string
		want  bool
	}{
		{"--secret-name=web-tls", "web-tls", true},
		{"web-tls", "web-tls", true},
		{"ns/web-tls,other", "web-tls", true},
		{"kubectl create secret generic \"web-tls\"\n", "web-tls", true},
		{"my-web-tls", "web-tls", false},
		{"web-tls-2 web-tls", "web-tls", true},
		{"web-tls-2", "web-tls", false},
		{"web-tls.svc", "web-tls", false},
		{map[string]any{"a": []any{1, nil, map[string]any{"b": "x web-tls"}}}, "web-tls", true},
		{map[string]any{"web-tls": "x"}, "web-tls", false},
		{"anything", "", false},
	}
	for _, tt := range tests {
		if got := Mentions(tt.value, tt.name); got != tt.want {
			t.Errorf("%v mentions %q: %v", tt.value, tt.name, got)
		}
	}
}

// TestUnprobed expects the first container of a workload that shows nothing but that it has started (R22c).
func TestUnprobed(t *testing.T) {
	for _, tt := range []struct{ kind, spec, want string }{
		{"Deployment", `containers: [{name: app}]`, "app"},
		{"Deployment", `containers: [{name: app, readinessProbe: {}}]`, ""},
		{"StatefulSet", `containers: [{name: app, startupProbe: {}}]`, ""},
		{"DaemonSet", `containers: [{name: app, livenessProbe: {}}]`, "app"},
		{"Deployment", `containers: [{name: app, readinessProbe: {}}, {name: proxy}]`, "proxy"},
		{"Deployment", `{initContainers: [{name: first}], containers: [{name: app, readinessProbe: {}}]}`, ""},
		{"Deployment", `{initContainers: [{name: side, restartPolicy: Always}], containers: [{name: app, readinessProbe: {}}]}`, "side"},
		{"Deployment", `{initContainers: [{name: side, restartPolicy: Always, startupProbe: {}}], containers: [{name: app, readinessProbe: {}}]}`, ""},
		{"Job", `containers: [{name: app}]`, ""},
		{"CronJob", `containers: [{name: app}]`, ""},
		{"ConfigMap", `containers: [{name: app}]`, ""},
	} {
		var template map[string]any
		if err := yaml.Unmarshal([]byte(tt.spec), &template); err != nil {
			t.Fatal(err)
		}
		group := map[string]string{"Job": "batch", "CronJob": "batch", "ConfigMap": ""}
		o := plan.Object{Group: "apps", Kind: tt.kind}
		if g, ok := group[tt.kind]; ok {
			o.Group = g
		}
		spec := map[string]any{"template": map[string]any{"spec": template}}
		fields := map[string]any{"spec": spec}
		if got := Unprobed(o, fields); got != tt.want {
			t.Errorf("%s with %s: %q, want %q", tt.kind, tt.spec, got, tt.want)
		}
		if spec["replicas"] = int64(0); Unprobed(o, fields) != "" {
			t.Errorf("%s with %s and no pods: %q", tt.kind, tt.spec, Unprobed(o, fields))
		}
	}
	for policy, want := range map[string]string{"": "app", "Always": "app", "Never": "", "OnFailure": ""} {
		pod := map[string]any{"spec": map[string]any{"restartPolicy": policy, "containers": []any{map[string]any{"name": "app"}}}}
		if got := Unprobed(plan.Object{Kind: "Pod"}, pod); got != want {
			t.Errorf("Pod with restartPolicy %q: %q, want %q", policy, got, want)
		}
	}
}
