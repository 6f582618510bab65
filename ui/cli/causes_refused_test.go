package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// owned has the labels and annotations of an object of the release.
	owned    = `labels: {app.kubernetes.io/managed-by: Helm}, annotations: {meta.helm.sh/release-name: c, meta.helm.sh/release-namespace: $NS}`
	harmless = `securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: main, image: "x:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`
	insecure = `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false \(container "main" must set securityContext.allowPrivilegeEscalation=false\), ` +
		`unrestricted capabilities \(container "main" must set securityContext.capabilities.drop=\["ALL"\]\), runAsNonRoot != true \(pod or container "main" must set securityContext.runAsNonRoot=true\), ` +
		`seccompProfile \(pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"\)`
)

// refusals are objects that the API server refuses.
var refusals = []cause{
	{"quota", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: much}, spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, ` + oneContainer + `}}}}}}`, "CronJob/much",
		`refused by the API server: exceeded quota small: requested count/cronjobs.batch=1 \(0 left\)`, `cronjobs.batch "much" is forbidden`},
	{"limits", `{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {` + harmless + `, resources: {limits: {cpu: "2"}}}]}}`, "Pod/big",
		`refused by LimitRange limits: maximum cpu usage per Container is 1, but limit is 2`, `maximum cpu usage`},
	{"insecure", `{apiVersion: v1, kind: Pod, metadata: {name: free}, spec: {` + oneContainer + `}}`, "Pod/free", `refused by the API server: ` + insecure, `seccompProfile.type to "RuntimeDefault" or "Localhost"`},
	{"insecure-pods", deployment("bare", "", oneContainer), "Deployment/bare", `no pods can be created: ` + insecure, `seccompProfile.type to "RuntimeDefault" or "Localhost"`},
	{"priority", `{apiVersion: v1, kind: Pod, metadata: {name: urgent}, spec: {priorityClassName: none-such, ` + harmless + `}]}}`, "Pod/urgent", `refused by the API server: no PriorityClass with name none-such was found`, `none-such`},
	{"account", `{apiVersion: v1, kind: Pod, metadata: {name: somebody}, spec: {serviceAccountName: nobody, ` + harmless + `}]}}`, "Pod/somebody",
		`refused by the API server: error looking up service account \$NS/nobody: serviceaccount "nobody" not found`, `nobody`},
	{"policy", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: teamless}}`, "ServiceAccount/teamless",
		`refused: it needs a label team \(ValidatingAdmissionPolicy \$NS\)`, `denied request`},
	{"port", `{apiVersion: v1, kind: Service, metadata: {name: port}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30978}]}}`, "Service/port",
		`refused by the API server: spec.ports\[0\].nodePort: Invalid value: 30978: provided port is already allocated`, `already allocated`},
	{"invalid", deployment("odd", "", "tolerations: [{operator: Exists, value: x}], "+oneContainer), "Deployment/odd",
		`refused by the API server: spec.template.spec.tolerations\[0\].operator: Invalid value: .*`, `tolerations`},
	{"type", `{apiVersion: v1, kind: Service, metadata: {name: typed}, spec: {ports: [{port: eighty}]}}`, "Service/typed", `refused by the API server: .*spec.ports\[0\].port.*|refused by the API server: .*port.*`, `port`},
	{"silent-hook", `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: checked}, spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}}`, "PodDisruptionBudget/checked",
		`webhook check.example.com of ValidatingWebhookConfiguration \$NS failed: .*; Service \$NS/hook: selector app=hook matches no pods`, `failed calling webhook`},
	{"strict-hook", `{apiVersion: v1, kind: ConfigMap, metadata: {name: refused, labels: {ask: me}}}`, "ConfigMap/refused",
		`refused: only on weekdays \(webhook strict.example.com of ValidatingWebhookConfiguration \$NS-strict\)`, `only on weekdays`},
	{"immutable", `{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}, data: {more: x}}`, "ConfigMap/fixed",
		"refused by the API server: data: field is immutable when `immutable` is set; replace it with --replace ConfigMap/fixed \\(upgrade, rollback and up\\), or rename it in the chart", `field is immutable`},
	{"conflict", `{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {mode: ours}}`, "ConfigMap/shared",
		`refused by the API server: "somebody" owns .data.mode; remove the field from the chart or give it the live value, or take it over with --force-conflicts`, `"somebody" owns .data.mode`},
	{"going", `{apiVersion: v1, kind: ConfigMap, metadata: {name: late, namespace: $NS-going}}`, "ConfigMap/late",
		`namespace \$NS-going is being deleted and accepts no new objects: .*`, `finalizer example.com/hold`},
	{"version", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: cubes.$NS.example}, spec: {group: $NS.example, scope: Namespaced, names: {kind: Cube, listKind: CubeList, plural: cubes, singular: cube},
		versions: [{name: v1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}, {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}` + "\n---\n" +
		`{apiVersion: $NS.example/v1, kind: Cube, metadata: {name: old}}`, "Cube/old", `the cluster does not serve version v1 of Cube: CustomResourceDefinition cubes.\$NS.example serves v2`, `no matches for kind`},
}

// TestCausesOfRefusals: each refusal of the API server is reported with its own message and with the
// object that caused it. None is reported as a missing permission.
func TestCausesOfRefusals(t *testing.T) {
	t.Parallel()
	const ns = "causes-of-refusals"
	c := inCluster(t)
	c.namespace(ns)
	c.refuse(ns)
	s := installCauses(t, ns, refusals, "--readiness-timeout", "30s", "--timeout", "4m", "--skip-preflight") // the checks would refuse one of them before the run
	s.check()
	s.checkTimes()
	for _, e := range s.events {
		if strings.Contains(e.Message+e.Cause, "this user lacks permission") {
			t.Errorf("%s %v: %s", e.Kind, e.Object, e.Message)
		}
	}
}

// refuse creates the objects that cause the refusals in a namespace.
func (c *clusterClient) refuse(ns string) {
	c.t.Helper()
	mine := "{matchLabels: {of: $NS}}"
	c.create(ns,
		`{apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {count/cronjobs.batch: "0"}}}`,
		`{apiVersion: v1, kind: LimitRange, metadata: {name: limits}, spec: {limits: [{type: Container, max: {cpu: "1"}}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: $NS}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [serviceaccounts]}]},
			validations: [{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: it needs a label team}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: $NS}, spec: {policyName: $NS, validationActions: [Deny], matchResources: {namespaceSelector: `+mine+`}}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: $NS}, webhooks: [{name: check.example.com, clientConfig: {service: {namespace: $NS, name: hook}}, sideEffects: None, admissionReviewVersions: [v1],
			namespaceSelector: `+mine+`, rules: [{operations: [CREATE, UPDATE], apiGroups: [policy], apiVersions: [v1], resources: [poddisruptionbudgets]}]}]}`,
		`{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {selector: {app: hook}, ports: [{port: 443}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: taken}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30978}]}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed, `+owned+`}, immutable: true, data: {one: x}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: shared, `+owned+`}, data: {mode: theirs}}`,
	)
	c.strictHook(ns)
	c.namespace(ns + "-going")
	c.create(ns+"-going", `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}`)
	ctx := c.t.Context()
	if err := c.kube.CoreV1().Namespaces().Delete(ctx, ns+"-going", metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the namespace names the finalizer that holds it", func() bool {
		going, err := c.kube.CoreV1().Namespaces().Get(ctx, ns+"-going", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(going.Status.Conditions, func(n corev1.NamespaceCondition) bool {
			return strings.Contains(n.Message, "example.com/hold")
		})
	})
	label := `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`
	if _, err := c.kube.CoreV1().Namespaces().Patch(ctx, ns, types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the policy and the quota are in effect", func() bool {
		_, policy := c.kube.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "try"}}, metav1.CreateOptions{DryRun: []string{"All"}})
		quota, err := c.kube.CoreV1().ResourceQuotas(ns).Get(ctx, "small", metav1.GetOptions{})
		return policy != nil && err == nil && len(quota.Status.Hard) > 0
	})
}

// strictHook creates a webhook that refuses objects with the label ask: me.
func (c *clusterClient) strictHook(ns string) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": map[string]any{"uid": review.Request.UID, "allowed": false, "status": map[string]any{"message": "only on weekdays"}}})
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	c.t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	c.create(ns, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: $NS-strict}, webhooks: [{name: strict.example.com, clientConfig: {url: "`+server.URL+`", caBundle: `+ca+`}, sideEffects: None, admissionReviewVersions: [v1],
		namespaceSelector: {matchLabels: {of: $NS}}, objectSelector: {matchLabels: {ask: me}}, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}]}`)
	c.t.Cleanup(func() {
		_ = c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.Background(), ns+"-strict", metav1.DeleteOptions{})
	})
}

// eventually waits until a condition holds.
func (c *clusterClient) eventually(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("after three minutes still not true: %s", what)
		}
	}
}
