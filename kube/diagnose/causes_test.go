package diagnose

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

func forbidden(resource, name, words string) error {
	return apierrors.NewForbidden(schema.ParseGroupResource(resource), name, errors.New(words))
}

// TestForbidden covers 403 responses of real API servers. Only those of RBAC mean a missing permission.
func TestForbidden(t *testing.T) {
	const advice = "this user lacks permission: ask an administrator to grant it"
	rbac := `User "bob" cannot patch resource "pods" in API group "" in the namespace "lab"`
	podSecurity := `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), ` +
		`unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), ` +
		`seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`
	if err := Explain(forbidden("pods", "big", rbac)); !strings.Contains(err.Error(), advice) || !LacksPermission(err) {
		t.Errorf("RBAC's refusal is explained as %q", err)
	}
	for _, words := range []string{
		"exceeded quota: small, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1",
		"maximum cpu usage per Container is 1, but limit is 2",
		podSecurity,
		"ValidatingAdmissionPolicy 'lab-vap' with binding 'lab-vapb' denied request: a Service needs a label team",
		`admission webhook "check.example.com" denied the request: no`,
		"no PriorityClass with name nope was found",
		`error looking up service account lab/nope: serviceaccount "nope" not found`,
		"unable to create new content in namespace dead because it is being terminated",
		"only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
	} {
		err := fmt.Errorf("server-side apply failed: %w", forbidden("pods", "big", words))
		got := Explain(err)
		var why run.FindingError
		if !errors.As(got, &why) || !errors.Is(got, err) {
			t.Fatalf("%v has no finding", got)
		}
		f := why.Finding()
		cause := "refused by the API server: " + quotaInFigures(words)
		if reason, policy := strings.CutPrefix(words, "ValidatingAdmissionPolicy 'lab-vap' with binding 'lab-vapb' denied request: "); policy {
			cause = "refused: " + reason + " (ValidatingAdmissionPolicy lab-vap)"
			if by, _ := DeniedBy(got); by != "lab-vap" || !strings.HasSuffix(got.Error(), `pods "big" is forbidden: `+cause) {
				t.Errorf("refused by policy %q: %v", by, got)
			}
		}
		if LacksPermission(err) || strings.Contains(got.Error(), advice) || f.Cause != cause || f.Evidence[0] != `pods "big" is forbidden: `+words {
			t.Errorf("%s\nis explained as %q\ncause %q\nevidence %q", words, got, f.Cause, f.Evidence)
		}
	}
}

// TestQuotaInFigures: a message about an exceeded quota becomes figures: the requested amount and the rest. Other messages stay.
func TestQuotaInFigures(t *testing.T) {
	for message, want := range map[string]string{
		"exceeded quota: q, requested: limits.cpu=1,requests.memory=2Gi, used: limits.cpu=0,requests.memory=3Gi, limited: limits.cpu=500m,requests.memory=4Gi": "exceeded quota q: requested limits.cpu=1 (500m left), requests.memory=2Gi (1Gi left)",
		"exceeded quota: none, requested: pods=1, used: pods=3, limited: pods=0":                                                                               "exceeded quota none: requested pods=1 (0 left)",
		"exceeded quota: q, requested: pods=1, used: pods=0":                                                                                                   "exceeded quota: q, requested: pods=1, used: pods=0",
		"exceeded quota: q, requested: pods=x, used: pods=0, limited: cpu=1":                                                                                   "exceeded quota: q, requested: pods=x, used: pods=0, limited: cpu=1",
		"no": "no",
	} {
		if got := quotaInFigures(message); got != want {
			t.Errorf("%s\nbecomes %q\nwant    %q", message, got, want)
		}
	}
}

// answer is an error of the API server with a reason.
func answer(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message}}
}

// TestFieldConflict expects that cause and evidence name each manager with its fields.
func TestFieldConflict(t *testing.T) {
	for _, tt := range []struct {
		managersAndFields []string
		owners, advice    string
	}{
		{[]string{`"hpa" with subresource "scale" using apps/v1`, ".spec.replicas"}, `"hpa" owns .spec.replicas`, "remove the field from the chart or give it the live value, or take it over with --force-conflicts"},
		{[]string{`"kubectl-edit" using v1`, ".data.a", `"an \"operator\"" using v1`, ".data.b", `"kubectl-edit" using v1`, ".data.c"},
			`"kubectl-edit" owns .data.a, .data.c; "an \"operator\"" owns .data.b`, "remove these fields from the chart or give them the live values, or take them over with --force-conflicts"},
	} {
		var causes []metav1.StatusCause
		for pair := range slices.Chunk(tt.managersAndFields, 2) {
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: "conflict with " + pair[0], Field: pair[1]})
		}
		var found run.FindingError
		if err := Explain(apierrors.NewApplyConflict(causes, "Apply failed with some conflicts")); !errors.As(err, &found) {
			t.Fatal(err)
		}
		if f := found.Finding(); f.Cause != "refused by the API server: "+tt.owners+"; "+tt.advice || !slices.Equal(f.Evidence, []string{tt.owners}) {
			t.Errorf("cause %q, evidence %q", f.Cause, f.Evidence)
		}
	}
}

// TestRefusals covers the causes of the API server's refusals of an object.
func TestRefusals(t *testing.T) {
	hooks := `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: policy}, webhooks: [{name: check.example.com}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: sidecars}, webhooks: [{name: inject.example.com}]}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: ns}, spec: {selector: {app: api}}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: small, namespace: ns}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: live}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ns, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [x/y]}}
---
` + pod("p", "x", crashed7)
	failing := func(name, address, why string) error {
		return answer(http.StatusInternalServerError, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "`+name+`": failed to call webhook: Post "`+address+`": `+why)
	}
	const deleting = "namespace ns is being deleted: waiting for finalizer x/y: its controller has not removed it"
	for _, tt := range []struct {
		name  string
		err   error
		cause string
	}{
		{"a webhook refuses", forbidden("pods", "p", `admission webhook "check.example.com" denied the request: no`), "refused: no (webhook check.example.com of ValidatingWebhookConfiguration policy)"},
		{"a webhook refuses without a reason", forbidden("pods", "p", `admission webhook "inject.example.com" denied the request without explanation`),
			"refused: no reason given (webhook inject.example.com of MutatingWebhookConfiguration sidecars)"},
		{"a webhook's pods are not ready", failing("check.example.com", "https://s.ns.svc:443/v?timeout=10s", `no endpoints available for service "s"`),
			`webhook check.example.com of ValidatingWebhookConfiguration policy failed: no endpoints available for service "s"; Service ns/s: 0 of 1 pods are ready; container c exited with code 7 (2 restarts): fake logs`},
		{"a webhook has no Service", failing("check.example.com", "https://none.ns.svc:443/", `service "none" not found`),
			`webhook check.example.com of ValidatingWebhookConfiguration policy failed: service "none" not found; Service ns/none: not in the cluster, and ` + deleting},
		{"a webhook has no Service, in a namespace that exists", failing("check.example.com", "https://none.live.svc:443/", `service "none" not found`),
			`webhook check.example.com of ValidatingWebhookConfiguration policy failed: service "none" not found; create the Service, or delete the webhook`},
		{"a webhook outside the cluster", failing("check.example.com", "https://127.0.0.1:1/", "dial tcp 127.0.0.1:1: connect: connection refused"),
			"webhook check.example.com of ValidatingWebhookConfiguration policy failed: dial tcp 127.0.0.1:1: connect: connection refused (https://127.0.0.1:1/)"},
		{"a webhook's certificate is not trusted", failing("inject.example.com", "https://127.0.0.1:1/", "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
			"webhook inject.example.com of MutatingWebhookConfiguration sidecars failed: tls: failed to verify certificate: x509: certificate signed by unknown authority; its caBundle does not match its certificate (https://127.0.0.1:1/)"},
		{"a conversion webhook has no Service", answer(http.StatusInternalServerError, "", `conversion webhook for conv.example.com/v2, Kind=Db failed: Post "https://conv.ns.svc:443/?timeout=30s": service "conv" not found`),
			`the conversion webhook for conv.example.com/v2 Db failed: service "conv" not found; Service ns/conv: not in the cluster, and ` + deleting},
		{"a LimitRange", forbidden("pods", "p", "maximum cpu usage per Container is 1, but limit is 2"), "refused by LimitRange small: maximum cpu usage per Container is 1, but limit is 2"},
		{"a namespace is being deleted", forbidden("configmaps", "c", "unable to create new content in namespace ns because it is being terminated"),
			"namespace ns is being deleted and accepts no new objects: waiting for finalizer x/y: its controller has not removed it"},
		{"a conflict", answer(http.StatusConflict, metav1.StatusReasonConflict, "other"), "refused by the API server: other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := cluster(t, hooks)
			err := d.ExplainRefusal(t.Context(), named("", "Pod", "p"), tt.err)
			var why run.FindingError
			if !errors.As(err, &why) {
				t.Fatal(err)
			}
			f := why.Finding()
			if f.Cause != tt.cause {
				t.Errorf("%q\nwant %q", f.Cause, tt.cause)
			}
			if !strings.Contains(tt.err.Error(), f.Evidence[0]) || !strings.Contains(err.Error(), strings.TrimPrefix(tt.cause, "refused by the API server: ")) {
				t.Errorf("evidence %q, error %v", f.Evidence, err)
			}
		})
	}
}

// TestNamespaceDeletedMeanwhile: an object that is deleted with its namespace, or whose pods are, fails because of that, whatever its
// conditions and pods say (R21).
func TestNamespaceDeletedMeanwhile(t *testing.T) {
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: ns, uid: x%s}, spec: {selector: {matchLabels: {app: api}}}, status: {failed: 1, conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded}]}}`
	const deleted = `, deletionTimestamp: "2026-01-01T00:00:00Z"`
	const ns = "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: ns%s}}"
	goingPod := "\n---\n" + strings.Replace(pod("p", "x", `phase: Running`), "labels:", `deletionTimestamp: "2026-01-01T00:00:00Z", labels:`, 1)
	for name, tt := range map[string]struct {
		objects string
		want    bool
	}{
		"the Job":            {fmt.Sprintf(job, deleted) + fmt.Sprintf(ns, deleted), true},
		"its pods":           {fmt.Sprintf(job, "") + goingPod + fmt.Sprintf(ns, deleted), true},
		"only the Job":       {fmt.Sprintf(job, deleted) + fmt.Sprintf(ns, ""), false},
		"failed before that": {fmt.Sprintf(job, "") + fmt.Sprintf(ns, deleted), false},
	} {
		d, _ := cluster(t, tt.objects)
		r := d.Object(t.Context(), named("batch", "Job", "j"))
		if got := strings.HasPrefix(r.Cause, "namespace ns is being deleted"); got != tt.want || tt.want && r.Symptom {
			t.Errorf("%s: cause %q, symptom %t", name, r.Cause, r.Symptom)
		}
	}
}

// TestIngressesAndServices covers the objects that an Ingress or a Service needs but that are missing or not ready.
func TestIngressesAndServices(t *testing.T) {
	const ingress = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: ns}, spec: {ingressClassName: nginx, rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}`
	const class = "\n---\n{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx}, spec: {controller: x}}"
	const service = "\n---\n{apiVersion: v1, kind: Service, metadata: {name: s, namespace: ns}, spec: {selector: {app: api}, ports: [{port: 80, name: web}]}}"
	of := named("networking.k8s.io", "Ingress", "i")
	for _, tt := range []struct {
		name           string
		object         plan.Object
		text           string
		want, evidence string
	}{
		{"no such class", of, ingress + strings.Replace(class, "nginx", "traefik", 1), "IngressClass nginx does not exist", "available IngressClasses: traefik"},
		{"no class", of, strings.Replace(ingress, "ingressClassName: nginx, ", "", 1) + class, "it names no IngressClass, and there is no default", "nginx"},
		{"no backend", of, ingress + class, "its backend Service s does not exist", ""},
		{"no port", of, ingress + class + strings.Replace(service, "port: 80", "port: 8080", 1), "its backend Service s has no port 80 (available: 8080 web)", ""},
		{"no pods", of, ingress + class + service, "its backend Service s: selector app=api matches no pods", ""},
		{"no controller", of, ingress + class + service + "\n---\n" + pod("p", "x", readyPod), "no address: no ingress controller serves it or any other Ingress of its class", ""},
		{"pods with similar labels", named("", "Service", "s"), strings.TrimPrefix(service, "\n---\n") + "\n---\n" + strings.Replace(pod("p", "x", readyPod), "app: api", "app: apis", 1),
			"selector app=api matches no pods; pod p has app=apis", ""},
		{"a workload with similar labels", named("", "Service", "s"), strings.TrimPrefix(service, "\n---\n") + "\n---\n" + strings.Replace(deployment, "template: {}", "template: {metadata: {labels: {app.kubernetes.io/name: api}}}", 1) + strings.Replace(pod("p", "x", readyPod), "app: api", "app: other", 1),
			"selector app=api matches no pods; the pods of Deployment/api have app.kubernetes.io/name=api", ""},
		{"a workload without pods", named("", "Service", "s"), strings.TrimPrefix(service, "\n---\n") + "\n---\n" + `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns, uid: d}, spec: {replicas: 1, selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}}}}` +
			incident("e", "db", "StatefulSet", "FailedCreate", "create Pod db-0 failed: no quota"), "selector app=api matches no pods: StatefulSet/db has none: no pods can be created: create Pod db-0 failed: no quota", ""},
		{"no selector and no endpoints", named("", "Service", "s"), strings.TrimPrefix(strings.Replace(service, "selector: {app: api}, ", "", 1), "\n---\n"), "it has no selector, and no EndpointSlice lists endpoints for it", ""},
		{"another load balancer", named("", "Service", "s"), strings.TrimPrefix(strings.Replace(service, "spec: {", "spec: {type: LoadBalancer, ", 1), "\n---\n") + "\n---\n" + pod("p", "x", readyPod) +
			"\n---\n{apiVersion: v1, kind: Service, metadata: {name: t, namespace: other}, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}", "no address: no load balancer has assigned one yet; Service other/t has one", ""},
		{"no load balancer of a class", named("", "Service", "s"), strings.TrimPrefix(strings.Replace(service, "spec: {", "spec: {type: LoadBalancer, loadBalancerClass: x/y, ", 1), "\n---\n") + "\n---\n" + pod("p", "x", readyPod) +
			"\n---\n{apiVersion: v1, kind: Service, metadata: {name: t, namespace: other}, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}", "no address: no load balancer of class x/y has assigned one to any Service in the cluster", ""},
		{"another Ingress", of, ingress + class + service + "\n---\n" + pod("p", "x", readyPod) + "\n---\n{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: j, namespace: other}, spec: {ingressClassName: nginx}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}",
			"no address: no ingress controller serves it yet; Ingress other/j of the same class has an address", ""},
		{"no load balancer", named("", "Service", "s"), strings.TrimPrefix(strings.Replace(service, "spec: {", "spec: {type: LoadBalancer, ", 1), "\n---\n"),
			"no address: selector app=api matches no pods", ""},
		{"a load balancer that fails", named("", "Service", "s"), strings.TrimPrefix(strings.Replace(service, "spec: {", "spec: {type: LoadBalancer, ", 1), "\n---\n") +
			incident("e", "s", "Service", "SyncLoadBalancerFailed", "no subnet"), "no address: SyncLoadBalancerFailed: no subnet", ""},
		{"suspended", named("batch", "Job", "j"), `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: ns}, spec: {suspend: true, template: {}}}`, "suspended (spec.suspend: true)", ""},
		{"claim in use", named("", "PersistentVolumeClaim", "c"), unusedClaim + "\n---\n" + strings.Replace(pod("p", "x", readyPod), "spec: {", "spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], ", 1),
			"being deleted: waiting for finalizer kubernetes.io/pvc-protection: in use by pod p", "finalizer kubernetes.io/pvc-protection: in use by pod p"},
		{"claim that no pod uses", named("", "PersistentVolumeClaim", "c"), unusedClaim, "being deleted: waiting for finalizer kubernetes.io/pvc-protection: its controller has not removed it", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := cluster(t, tt.text)
			r := d.Object(t.Context(), tt.object)
			if r.Cause != tt.want || tt.evidence != "" && !slices.ContainsFunc(r.Evidence, func(l string) bool { return strings.Contains(l, tt.evidence) }) {
				t.Errorf("%q, evidence %q\nwant %q, %q", r.Cause, r.Evidence, tt.want, tt.evidence)
			}
		})
	}
}

// TestWorstCondition expects the condition that explains most.
func TestWorstCondition(t *testing.T) {
	for _, tt := range []struct{ name, conditions, expression, want string }{
		{"none", `[]`, "", ""},
		{"healthy", `[{"type":"Ready","status":"True"},{"type":"Degraded","status":"False"}]`, "", ""},
		{"not ready", `[{"type":"Ready","status":"False","reason":"NoDisk","message":"no disk"},{"type":"Synced","status":"True"}]`, "", "Ready is False: NoDisk: no disk"},
		{"negative conditions first", `[{"type":"Ready","status":"False","message":"not yet"},{"type":"Stalled","status":"True","reason":"Bad","message":"bad spec"}]`, "", "Stalled is True: Bad: bad spec"},
		{"conditions in expressions first", `[{"type":"Degraded","status":"True","message":"x"},{"type":"Synced","status":"False","message":"no key"}]`, `{.conditions[?(@.type=="Synced")].status} == True`, "Synced is False: no key"},
		{"completed pod", `[{"type":"Ready","status":"False","reason":"PodCompleted"},{"type":"ContainersReady","status":"False","reason":"PodCompleted"}]`, "", ""},
		{"failed pod", `[{"type":"Ready","status":"False","reason":"PodFailed"},{"type":"ContainersReady","status":"False","reason":"PodFailed"}]`, "", ""},
		{"unknown", `[{"type":"Ready","status":"Unknown","message":"no answer"}]`, "", "Ready is Unknown: no answer"},
		{"the newest", `[{"type":"A","status":"False","message":"old","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"B","status":"False","message":"new","lastTransitionTime":"2026-01-01T00:01:00Z"}]`, "", "B is False: new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON([]byte(`{"apiVersion":"x/v1","kind":"X","status":{"conditions":` + tt.conditions + `}}`)); err != nil {
				t.Fatal(err)
			}
			got := ""
			if c := worstCondition(u, tt.expression); c != nil {
				got = c.String()
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestHealthyConditionsAreNoEvidence expects that a condition is not evidence if a healthy object has the same.
func TestHealthyConditionsAreNoEvidence(t *testing.T) {
	pairs := func(healthy string, kinds ...string) (all []string) {
		other := map[string]string{"True": "False", "False": "True"}[healthy]
		for _, kind := range kinds {
			all = append(all, kind+"="+healthy+" "+kind+"="+other)
		}
		return all
	}
	cases := slices.Concat(
		pairs("True", "Progressing", "Available", "Ready", "ContainersReady", "PodScheduled", "Initialized", "PodReadyToStartContainers", "Established",
			"NamesAccepted", "AbleToScale", "ScalingActive", "DisruptionAllowed", "Synced", "Healthy", "Complete", "SuccessCriteriaMet", "Accepted", "Programmed", "ResolvedRefs"),
		pairs("False", "ReplicaFailure", "Failed", "FailureTarget", "DisruptionTarget", "Suspended", "Stalled", "Reconciling", "Degraded", "Terminating",
			"NonStructuralSchema", "MemoryPressure", "NetworkUnavailable", "FileSystemResizePending", "PodResizePending", "Resizing",
			"NamespaceContentRemaining", "NamespaceDeletionContentFailure", "ControllerResizeError"),
		[]string{"Progressing=False,Degraded=False Progressing=True,Degraded=False", "ScalingLimited=True Ready=False", "ScalingLimited=False Ready=Unknown"},
	)
	mentions := func(conditions string) []string {
		var list []any
		for _, c := range strings.Split(conditions, ",") {
			kind, value, _ := strings.Cut(c, "=")
			list = append(list, map[string]any{"type": kind, "status": value, "reason": "Why", "message": "test message"})
		}
		b := &reportBuilder{live: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Topic", "status": map[string]any{"conditions": list}}}}
		lines := slices.Concat(b.evidence(), phrase.Details(b.details()), []string{b.conditionCause().cause})
		return slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "test message") })
	}
	for _, c := range cases {
		healthy, unhealthy, _ := strings.Cut(c, " ")
		if got := mentions(healthy); len(got) > 0 {
			t.Errorf("%s is evidence: %q", healthy, got)
		}
		if len(mentions(unhealthy)) == 0 {
			t.Errorf("%s is not mentioned", unhealthy)
		}
	}
}

// TestLogLinesKeepOrder expects the decisive line first, then the newest others in their order.
func TestLogLinesKeepOrder(t *testing.T) {
	for n := range 12 {
		b := &reportBuilder{live: &unstructured.Unstructured{Object: map[string]any{}}}
		for i := range n {
			b.Logs = append(b.Logs, fmt.Sprintf("step %02d", i))
		}
		b.Logs = append(b.Logs, "FATAL: no route to db", "bye")
		got := b.evidence()
		want := append([]string{"FATAL: no route to db"}, append(b.Logs[:n:n], "bye")[max(n+1-maxTail, 0):]...)
		if !slices.Equal(got, want) {
			t.Errorf("of %q: %q, want %q", b.Logs, got, want)
		}
	}
}

// TestMissingPermissionsAreReported expects failed reads in the evidence, and in the cause if that is only a symptom.
func TestMissingPermissionsAreReported(t *testing.T) {
	d, kube := cluster(t, strings.TrimSuffix(deployment, "---\n"))
	for _, r := range []string{"pods", "events"} {
		kube.PrependReactor("list", r, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, forbidden(r, "", `User "bob" cannot list resource "`+r+`" in API group "" in the namespace "ns"`)
		})
	}
	r := d.Object(t.Context(), named("apps", "Deployment", "api"))
	pods, events := "pods cannot be read: user bob may not list pods", "events cannot be read: user bob may not list events"
	if want := "0 of 1 updated (details unavailable: " + pods + "; " + events + ")"; r.Cause != want || !r.Symptom {
		t.Errorf("%q\nwant %q", r.Cause, want)
	}
	for _, want := range []string{pods, events} {
		if !slices.Contains(r.Evidence, want) || !slices.Contains(r.Details.Notes, want) {
			t.Errorf("%q is not in the evidence %q and the details %+v", want, r.Evidence, r.Details)
		}
	}
	d, kube = cluster(t, deployment+pod("p", "r2", crashed7))
	kube.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.EventList{}, forbidden("events", "", `User "bob" cannot list resource "events" in API group "" in the namespace "ns"`)
	})
	if r = d.Object(t.Context(), named("apps", "Deployment", "api")); strings.Contains(r.Cause, "unavailable") || !slices.Contains(r.Evidence, events) {
		t.Errorf("known crash: cause %q, evidence %q", r.Cause, r.Evidence)
	}
}

// TestEventsOfPodsThatCannotBeCreated expects a single event, whatever the generated names of the pods.
func TestEventsOfPodsThatCannotBeCreated(t *testing.T) {
	refused := func(name, before, pod string) string {
		return incident(name, "api-2", "ReplicaSet", "FailedCreate", before+`Error creating: pods "`+pod+`" is forbidden: exceeded quota: small`)
	}
	d, _ := cluster(t, strings.TrimSuffix(deployment, "\n---\n")+refused("e1", "", "api-a")+refused("e2", "", "api-b")+refused("e3", "(combined from similar events): ", "api-c"))
	r := d.Object(t.Context(), named("apps", "Deployment", "api"))
	if len(r.Events) != 1 || r.Events[0].Count != 6 || r.Cause != "no pods can be created: exceeded quota: small" {
		t.Errorf("%q: %v", r.Cause, r.Events)
	}
}

func TestExplainTypes(t *testing.T) {
	for text, want := range map[string]string{
		`.data.a: expected string, got &value.valueUnstructured{Value:1}`:                                     ".data.a must be a string, but is a number; quote it",
		`.data.a: expected string, got &value.valueUnstructured{Value:true}`:                                  ".data.a must be a string, but is a boolean; quote it",
		`.data.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"d":"s3cr3t"}}`: ".data.a must be a string, but is a map",
		`.data.a: expected map, got &value.valueUnstructured{Value:[]interface {}{"s3cr3t"}}`:                 ".data.a must be a map, but is a list",
		`.data.a: expected list, got &value.valueUnstructured{Value:"s3cr3t}"}`:                               ".data.a must be a list, but is a string",
		`.spec.replicas: expected numeric (int or float), got string`:                                         ".spec.replicas must be a number, but is a string",
		`.a: expected boolean, got &{s3cr3t}`:                                                                 ".a must be a boolean, but has another type",
		".a: expected string, got int64\n  .b: expected string, got float64":                                  ".a must be a string, but is a number; quote it\n  .b must be a string, but is a number; quote it",
		"json: cannot unmarshal string into Go struct field Deployment.spec.replicas of type int32":           "a value in spec.replicas must be a number, but is a string",
		"json: cannot unmarshal object into Go struct field ConfigMap.data of type string":                    "a value in data must be a string, but is a map",
		"other": "other",
	} {
		if got := ExplainTypes(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestFieldFaults: each fault of an object is one finding, with a fix and without the value.
func TestFieldFaults(t *testing.T) {
	const patch = "failed to create typed patch object (ns/a; /v1, Kind=ConfigMap): "
	for message, want := range map[string][]FieldFault{
		patch + ".foo: field not declared in schema": {{Text: "unknown field foo", Unknown: true}},
		patch + "errors:\n  .data.a: expected string, got &value.valueUnstructured{Value:1}\n  .data.b: expected string, got &value.valueUnstructured{Value:map[string]interface {}{}}": {
			{Text: "data.a must be a string, but is a number", Quote: true}, {Text: "data.b must be a string, but is a map"}},
		`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "foo", unknown field "bar"`: {
			{Text: "unknown field foo", Unknown: true}, {Text: "unknown field bar", Unknown: true}},
		`ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string`: {
			{Text: "a value in data must be a string, but is a number", Quote: true, Undecodable: true}},
		`Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 7`: {
			{Text: "a value cannot be decoded: illegal base64 data at input byte 7", Undecodable: true}},
		"something else": nil,
	} {
		if got := FieldFaults(errors.New(message)); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", message, got, want)
		}
	}
}

func TestRetryReason(t *testing.T) {
	for text, want := range map[string]string{
		`500 Internal Server Error: Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "https://none.ns.svc:443/": service "none" not found`: `webhook w.example.com failed: service "none" not found`,
		`500 Internal Server Error: conversion webhook for a.b/v2, Kind=Db failed: Post "https://none.ns.svc:443/": service "none" not found`:                                           `the conversion webhook for a.b/v2 Db failed: service "none" not found`,
		`500 Internal Server Error: failed calling webhook "w.example.com": failed to call webhook: Post "https://w.ns.svc:443/?timeout=3s": context deadline exceeded`:                 `webhook w.example.com failed: no answer within its timeout`,
		"503 Service Unavailable": "503 Service Unavailable",
	} {
		if got := RetryReason(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
