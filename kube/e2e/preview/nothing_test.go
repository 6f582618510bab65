package preview

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// otherwiseStored are objects that the API server stores in another form than they are sent, or whose empty fields the cluster fills in.
const otherwiseStored = `
networking.k8s.io/v1/NetworkPolicy/empty spec: {podSelector: {}, ingress: [], policyTypes: [Ingress]}
networking.k8s.io/v1/NetworkPolicy/except spec: {podSelector: {matchLabels: {}}, ingress: [{ports: [], from: [{ipBlock: {cidr: 10.0.0.0/8, except: []}}]}]}
networking.k8s.io/v1/Ingress/ingress spec: {defaultBackend: {service: {name: x, port: {name: http}}}, tls: [{hosts: []}]}
v1/Service/service spec: {clusterIP: '', type: '', selector: {a: b}, ports: [{port: 80, nodePort: 0, name: '', protocol: ''}], externalIPs: [], sessionAffinity: ''}
v1/Secret/texts {stringData: {a: x, b: ''}, data: {a: eA==, c: ''}}
v1/ConfigMap/binary {data: {a: 'yes', b: ''}, binaryData: {c: aGVsbG8=}, immutable: false}
v1/ConfigMap/nothing {data: null, binaryData: {}}
v1/ResourceQuota/quota spec: {hard: {requests.storage: 102400Mi, pods: 1000, count/jobs.batch: '07'}, scopes: []}
policy/v1/PodDisruptionBudget/budget spec: {minAvailable: 0%, selector: {}, unhealthyPodEvictionPolicy: null}
v1/PersistentVolumeClaim/claim spec: {volumeName: '', accessModes: [ReadWriteOnce], storageClassName: null, resources: {requests: {storage: 1073741824}}, selector: null}
v1/Pod/pod spec: {nodeName: '', volumes: [], containers: [{name: main, image: 'example/app:1.0', volumeMounts: [], env: [], ports: [{containerPort: 80, protocol: ''}], resources: {limits: {cpu: 1000m, memory: 1024Mi}}}]}
rbac.authorization.k8s.io/v1/Role/role {rules: []}
rbac.authorization.k8s.io/v1/ClusterRole/NAME-aggregated {aggregationRule: {clusterRoleSelectors: [{matchLabels: {aggregate: NAME}}]}, rules: []}
rbac.authorization.k8s.io/v1/ClusterRole/NAME-null {aggregationRule: {clusterRoleSelectors: [{matchLabels: {aggregate: NAME}}]}, rules: null}
admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration/NAME {webhooks: [{name: a.example.com, admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Ignore, rules: [], clientConfig: {caBundle: '', url: 'https://x.example.com'}}]}
admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy/NAME spec: {failurePolicy: Ignore, variables: [], validations: [{expression: 'true'}], matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], resources: [xs], operations: [CREATE]}]}}
autoscaling/v2/HorizontalPodAutoscaler/scaler spec: {maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, behavior: {}, metrics: [{type: Pods, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 1000m}}}]}
apps/v1/Deployment/web spec: {replicas: 1, strategy: {}, selector: {matchLabels: {app: web}}, template: {metadata: {creationTimestamp: null, labels: {app: web}, annotations: {}}, spec: {securityContext: {}, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: []}}, initContainers: null, volumes: [{name: e, emptyDir: {medium: '', sizeLimit: 1024Mi}}], containers: [{name: main, image: 'example/app:1.0', env: [{name: A, value: null}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 0}}}], ports: [{containerPort: 80, protocol: ''}, {containerPort: 81, protocol: TCP, name: more}], resources: {limits: {cpu: 1000m}, requests: {cpu: 0.1}}}]}}}
apps/v1/StatefulSet/set spec: {serviceName: '', selector: {matchLabels: {app: set}}, updateStrategy: {}, template: {metadata: {labels: {app: set}}, spec: {containers: [{name: main, image: 'example/app:1.0'}]}}, volumeClaimTemplates: [{metadata: {name: data, labels: {}, creationTimestamp: null}, spec: {volumeName: '', accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}, status: {}}]}
apiextensions.k8s.io/v1/CustomResourceDefinition/things.NAME.example.com {spec: {group: NAME.example.com, scope: Namespaced, names: {kind: Thing, plural: things, singular: '', shortNames: [], categories: []}, versions: [{name: v1, served: true, storage: true, additionalPrinterColumns: [], schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {mode: {type: string, default: fast}, set: {type: array, x-kubernetes-list-type: set, items: {type: string}}, map: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, proto], items: {type: object, required: [name], properties: {name: {type: string}, proto: {type: string, default: TCP}}}}, emb: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}}}}]}, status: {conditions: [], storedVersions: []}}
NAME.example.com/v1/Thing/thing spec: {mode: null, big: 9007199254740993, set: [b, a], map: [{name: x}, {name: x, proto: UDP}], free: {a: [], b: {c: {}}, f: 1.0}, emb: {apiVersion: v1, kind: Pod, metadata: {name: x, labels: {}, creationTimestamp: null}}}`

// storedChart returns a chart of otherwiseStored.
func storedChart(r *rig.Rig) func(*kube.Deploy) {
	var docs []string
	for line := range strings.Lines(strings.TrimSpace(strings.ReplaceAll(otherwiseStored, "NAME", r.Namespace))) {
		what, fields, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(fields, "{") {
			fields = fields[1 : len(fields)-1]
			fields = strings.Join(topLevel(fields), "\n")
		}
		docs = append(docs, rig.Object(what, nil, fields))
	}
	docs = append(docs, strings.Replace(rig.Object("rbac.authorization.k8s.io/v1/ClusterRole/"+r.Namespace+"-part", nil, "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]"),
		"metadata:\n", "metadata:\n  labels: {aggregate: "+r.Namespace+"}\n", 1))
	return rig.UseChart(rig.ChartOf(r.T, docs...), nil)
}

// topLevel splits the fields of a map in braces.
func topLevel(fields string) (out []string) {
	depth, from := 0, 0
	for n, c := range fields {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				out, from = append(out, strings.TrimSpace(fields[from:n])), n+1
			}
		}
	}
	return append(out, strings.TrimSpace(fields[from:]))
}

// TestNothingToDo (S4, S18, R50): right after an install nothing differs, an upgrade changes nothing, and a stack would pass the
// release, however the API server stores its objects and whatever the cluster fills in.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run(serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			chart := storedChart(r)
			deploy := func(d *kube.Deploy) {
				chart(d)
				d.ServerSide = serverSide
			}
			r.Deploy("plain", deploy)
			r.Eventually("the rules are filled in", func() bool {
				role, err := r.Cluster.RbacV1().ClusterRoles().Get(t.Context(), r.Namespace+"-null", metav1.GetOptions{})
				return err == nil && len(role.Rules) > 0
			})
			_, err := r.Cluster.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), r.Namespace, types.JSONPatchType,
				[]byte(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"aGVsbG8="}]`), metav1.PatchOptions{FieldManager: "injector"})
			if err != nil {
				t.Fatal(err)
			}
			if d := drift(r); len(d.Objects) > 0 || len(d.Warnings) > 0 {
				t.Errorf("drift: %s %v", strings.Join(driftLines(d), "\n"), d.Warnings)
			}
			op := r.Must(r.Upgrade("plain", deploy))
			_, changes := r.Changes(op, nil)
			for name, c := range changes {
				if c.Action != "unchanged" {
					t.Errorf("%s: %s %s %s", name, c.Action, c.Message, c.Diff)
				}
			}
			if same, err := op.Unchanged(t.Context()); !same || err != nil {
				t.Errorf("unchanged: %v, %v", same, err)
			}
			r.MustRun(op, nil)
		})
	}
}

// TestMigrationThatIsRefused (R31): a LimitRange has given a Pod resources that the manifest lacks. Helm's change from client-side to
// server-side apply would take them away, which the API server refuses: the plan says so, and a run warns before its first write.
func TestMigrationThatIsRefused(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Create("apiVersion: v1\nkind: LimitRange\nmetadata: {name: limits}\nspec: {limits: [{type: Container, default: {cpu: 500m}, defaultRequest: {cpu: 100m}}]}\n")
	deploy := func(serverSide string) func(*kube.Deploy) {
		return rig.UseChart(rig.ChartOf(t, rig.Object("v1/Pod/pod", nil, "spec: {containers: [{name: main, image: 'example/app:1.0'}]}")), func(d *kube.Deploy) { d.ServerSide = serverSide })
	}
	r.Deploy("plain", deploy("false"))
	op, err := r.Upgrade("plain", deploy("true"))
	_, changes := r.Changes(op, err)
	if c := changes["Pod/pod"]; c.Action != "change" || !strings.Contains(c.Message, "would refuse this change now: spec: pod updates may not change fields") {
		t.Errorf("plan: %s %s", c.Action, c.Message)
	}
	warned := slices.ContainsFunc(op.Warnings(), func(w plan.Warning) bool {
		return strings.Contains(w.Message, "Pod/pod: the API server would refuse this change now")
	})
	if !warned {
		t.Errorf("warnings %v", op.Warnings())
	}
	r.MustFail(op, err, "pod updates may not change fields")
}
