package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// trouble is an object that does not come up, in a group of its own.
type trouble struct {
	doc      string
	object   string // as plan.Object prints it
	cause    string // the whole of it, or its beginning where it ends with …
	evidence string // part of a line
}

// inTrouble is a chart of objects that begin together, each in a group of its
// own, and of one that waits for all.
func inTrouble(t *testing.T, all []trouble, more ...string) *charts.Chart {
	var groups []string
	docs := slices.Clone(more)
	for i, x := range all {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(x.doc), &o); err != nil {
			t.Fatal(err, x.doc)
		}
		u := unstructured.Unstructured{Object: o}
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		groups = append(groups, fmt.Sprintf("g%d", i))
		a[plan.AnnotationGroup] = groups[i]
		u.SetAnnotations(a)
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(text))
	}
	return one(t, append(docs, object("v1/Service/end", group("end", groups...), "spec: {ports: [{port: 80}]}"))...)
}

// causes checks what is told of each: the sentence, the object and the evidence, of
// the object, of its diagnosis and of its group.
func (out outcome) causes(t *testing.T, all []trouble) {
	t.Helper()
	for i, x := range all {
		var o *event.ObjectState
		g := out.state.Find("apply", fmt.Sprintf("edge:g%d", i))
		for _, s := range g.Objects {
			if s.Object.String() == x.object {
				o = s
			}
		}
		if o == nil {
			t.Errorf("%s is not in the run", x.object)
			continue
		}
		says := func(cause string) bool {
			head, cut := strings.CutSuffix(x.cause, "…")
			return cause == head || cut && strings.HasPrefix(cause, head)
		}
		if !says(o.Cause) {
			t.Errorf("%s: cause %q\nwant %q\n%q", x.object, o.Cause, x.cause, o.Diagnosis)
		}
		if !slices.ContainsFunc(o.Evidence, func(l string) bool { return strings.Contains(l, x.evidence) }) {
			t.Errorf("%s: evidence %q\nlacks %q", x.object, o.Evidence, x.evidence)
		}
		told := slices.ContainsFunc(out.events, func(e event.Event) bool {
			return e.Kind == event.KindDiagnosis && e.Object.String() == x.object && says(e.Cause) && len(e.Evidence) > 0
		})
		if !told {
			t.Errorf("%s: no diagnosis tells so", x.object)
		}
	}
	if out.state.Root == nil || out.state.Cause == "" {
		t.Errorf("the end of the run names no object and no cause: %v %q", out.state.Root, out.state.Cause)
	}
	for _, e := range out.events {
		if strings.Contains(e.Message+e.Cause, "lacks the right") {
			t.Errorf("%s %v: %s", e.Kind, e.Object, e.Message)
		}
	}
}

// create makes an object as somebody else would.
func (r *rig) create(docs ...string) {
	r.t.Helper()
	mapper, err := r.client.Getter.ToRESTMapper()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, doc := range docs {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), u); err != nil {
			r.t.Fatal(err, doc)
		}
		m, err := mapper.RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
		if err != nil {
			r.t.Fatal(err)
		}
		client := r.client.Dynamic.Resource(m.Resource)
		if m.Scope.Name() == "namespace" {
			_, err = client.Namespace(r.namespace).Create(r.t.Context(), u, metav1.CreateOptions{})
		} else {
			_, err = client.Create(r.t.Context(), u, metav1.CreateOptions{})
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestRefusedObjectsAreExplained has the API server refuse objects, each for another
// reason: each is told in its own words, followed to what has refused, and none
// is called a lack of rights.
func TestRefusedObjectsAreExplained(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	label := fmt.Sprintf(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted","of":%q}}}`, r.namespace)
	if _, err := r.cluster.CoreV1().Namespaces().Patch(t.Context(), r.namespace, types.MergePatchType, []byte(label), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	mine := "{matchLabels: {of: " + r.namespace + "}}"
	r.create(
		object("v1/ResourceQuota/small", nil, `spec: {hard: {count/cronjobs.batch: "0"}}`),
		object("v1/LimitRange/limits", nil, `spec: {limits: [{type: Container, max: {cpu: "1"}}]}`),
		object("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy/"+r.namespace, nil, "spec:",
			"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [serviceaccounts]}]}",
			"  validations: [{expression: \"'team' in object.metadata.labels\", message: it needs a label team}]"),
		object("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding/"+r.namespace, nil, "spec: {policyName: "+r.namespace+", validationActions: [Deny], matchResources: {namespaceSelector: "+mine+"}}"),
		object("admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration/"+r.namespace, nil, "webhooks:",
			"- name: check.example.com", "  clientConfig: {service: {namespace: "+r.namespace+", name: hook}}", "  sideEffects: None", "  admissionReviewVersions: [v1]",
			"  namespaceSelector: "+mine, "  rules: [{operations: [CREATE, UPDATE], apiGroups: [policy], apiVersions: [v1], resources: [poddisruptionbudgets]}]"),
		object("v1/Service/hook", nil, "spec: {selector: {app: hook}, ports: [{port: 443}]}"),
		object("v1/Service/taken", nil, "spec: {type: NodePort, ports: [{port: 80, nodePort: 30977}]}"),
	)
	secure := "securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}"
	pod := func(name, spec, container string) string {
		return object("v1/Pod/"+name, nil, "spec:", "  "+spec, "  containers: [{name: c, image: example/app:1"+container+"}]")
	}
	safe := ", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
	all := []trouble{
		{object("batch/v1/CronJob/much", nil, "spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'x:1'}]}}}}}"),
			"CronJob/much", "refused: exceeded quota: small, requested: count/cronjobs.batch=1, used: count/cronjobs.batch=0, limited: count/cronjobs.batch=0", `cronjobs.batch "much" is forbidden`},
		{pod("big", secure, safe+`, resources: {limits: {cpu: "2"}}`), "Pod/big", "refused by LimitRange limits: maximum cpu usage per Container is 1, but limit is 2", "maximum cpu usage"},
		{pod("free", "restartPolicy: Never", ""), "Pod/free", `refused: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), ` +
			`unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), ` +
			`seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`, `seccompProfile.type to "RuntimeDefault" or "Localhost"`},
		{pod("urgent", "priorityClassName: none-such", safe), "Pod/urgent", "refused: no PriorityClass with name none-such was found", "none-such"},
		{pod("somebody", "serviceAccountName: nobody", safe), "Pod/somebody", `refused: error looking up service account ` + r.namespace + `/nobody: serviceaccount "nobody" not found`, "nobody"},
		{object("v1/ServiceAccount/teamless", nil, ""), "ServiceAccount/teamless", "refused: ValidatingAdmissionPolicy '" + r.namespace + "' with binding '" + r.namespace + "' denied request: …", "denied request"},
		{object("v1/Service/port", nil, "spec: {type: NodePort, ports: [{port: 80, nodePort: 30977}]}"), "Service/port", "refused: spec.ports[0].nodePort: Invalid value: 30977: provided port is already allocated", "already allocated"},
		{object("apps/v1/Deployment/odd", nil, "spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: b}}, spec: {containers: [{name: c, image: 'x:1'}]}}}"),
			"Deployment/odd", "refused: spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not match template `labels`", "does not match template"},
		{object("apps/v1/Deployment/tolerated", nil, "spec: {selector: {matchLabels: {app: t}}, template: {metadata: {labels: {app: t}}, spec: {tolerations: [{operator: Exists, value: x}], containers: [{name: c, image: 'x:1'}]}}}"),
			"Deployment/tolerated", "refused: spec.template.spec.tolerations[0].operator: Invalid value: …", "tolerations"},
		{object("policy/v1/PodDisruptionBudget/checked", nil, "spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}"), "PodDisruptionBudget/checked",
			"webhook check.example.com of ValidatingWebhookConfiguration " + r.namespace + ` does not answer: …`, "failed calling webhook"},
		{deployment("bare", nil, "0s"), "Deployment/bare", `no pods can be created: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false …`, `seccompProfile.type to "RuntimeDefault" or "Localhost"`},
	}
	r.eventually("the policy and the quota count", func() bool {
		_, policy := r.cluster.CoreV1().ServiceAccounts(r.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "try"}}, metav1.CreateOptions{DryRun: []string{"All"}})
		quota, err := r.cluster.CoreV1().ResourceQuotas(r.namespace).Get(t.Context(), "small", metav1.GetOptions{})
		return policy != nil && err == nil && len(quota.Status.Hard) > 0
	})
	op, err := r.install("plain", use(inTrouble(t, all), func(i *Install) { i.ReadinessTimeout = 4 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, nil)
	out.causes(t, all)
	for _, o := range out.state.Find("apply", "edge:g9").Objects {
		if !strings.Contains(o.Cause, "Service "+r.namespace+"/hook: no pod has its labels: app=hook") {
			t.Errorf("the webhook's Service is not followed to its pods: %s", o.Cause)
		}
	}
}

// expects are readiness annotations.
func expects(success, failure string, more ...string) map[string]string {
	list := func(e string) string { b, _ := json.Marshal([]string{e}); return string(b) }
	m := map[string]string{plan.AnnotationReadinessSuccess: list(success), plan.AnnotationReadinessFailure: list(failure)}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// TestWhatObjectsWaitForIsFound has objects that the API server takes and that
// never become ready, for want of something else than their pods: each is followed
// to that.
func TestWhatObjectsWaitForIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	api := r.namespace + ".example"
	crd := func(plural, kind, list string) string {
		return object("apiextensions.k8s.io/v1/CustomResourceDefinition/"+plural+"."+api, nil, "spec:", "  group: "+api, "  scope: Namespaced",
			"  names: {kind: "+kind+", listKind: "+list+", plural: "+plural+", singular: "+strings.ToLower(kind)+"}",
			"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]")
	}
	r.create(crd("things", "Thing", "ThingList"),
		object("storage.k8s.io/v1/StorageClass/late-"+r.namespace, nil, "provisioner: csi.example.com", "volumeBindingMode: WaitForFirstConsumer"))
	thing := func(name string, a map[string]string) string {
		return object(api+"/v1/Thing/"+name, a, "spec: {size: 1}")
	}
	ready := `{.conditions[?(@.type=="Ready")].status} == True`
	never := "{.never} == x"
	claim := func(name, class string) string {
		return object("v1/PersistentVolumeClaim/"+name, nil, "spec: {storageClassName: "+class+", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}")
	}
	backend := "rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: nowhere, port: {number: 80}}}}]}}]"
	all := []trouble{
		{claim("classless", "none-such"), "PersistentVolumeClaim/classless", "no volume: there is no StorageClass none-such, …", "classless"},
		{claim("early", "late-"+r.namespace), "PersistentVolumeClaim/early", "no volume: StorageClass late-" + r.namespace + " makes one only for a pod that uses it (WaitForFirstConsumer), …", "first consumer"},
		{object("apps/v1/StatefulSet/db", nil, "spec:", "  serviceName: db", "  selector: {matchLabels: {app: db}}", "  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: 'x:1'}]}}",
			"  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: none-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"),
			"StatefulSet/db", "pod db-0 cannot be scheduled: claim data-db-0 has no volume: there is no StorageClass none-such, …", "unbound immediate PersistentVolumeClaims"},
		{object("v1/Service/front", expects("{.loadBalancer.ingress[*].ip} != x", never, "sandbox/fail", "never"), "spec: {type: LoadBalancer, selector: {app: db}, ports: [{port: 80}]}"),
			"Service/front", "no address: …", ""},
		{object("networking.k8s.io/v1/Ingress/classless", expects("{.loadBalancer.ingress[*].ip} != x", never, "sandbox/fail", "never"), "spec: {ingressClassName: none-such, "+backend+"}"),
			"Ingress/classless", "there is no IngressClass none-such", "IngressClass"},
		{object("networking.k8s.io/v1/Ingress/nowhere", expects("{.loadBalancer.ingress[*].ip} != x", never, "sandbox/fail", "never", "kubernetes.io/ingress.class", "old"), "spec: {"+backend+"}"),
			"Ingress/nowhere", "its backend Service nowhere does not exist", ""},
		{object("autoscaling/v2/HorizontalPodAutoscaler/targetless", expects(`{.conditions[?(@.type=="AbleToScale")].status} == True`, never), "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: nowhere}}"),
			"HorizontalPodAutoscaler/targetless", `{.conditions[?(@.type=="AbleToScale")].status} == True: saw False; AbleToScale is False: FailedGetScale: …`, `"nowhere" not found`},
		{object("autoscaling/v2/HorizontalPodAutoscaler/blind", expects(`{.conditions[?(@.type=="ScalingActive")].status} == True`, never), "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: fine}}"),
			"HorizontalPodAutoscaler/blind", `{.conditions[?(@.type=="ScalingActive")].status} == True: saw False; ScalingActive is False: FailedGetResourceMetric: …`, "metrics.k8s.io"},
		{thing("broken", expects(ready, `{.phase} == Broken`, "sandbox/ready-after", "10ms", "sandbox/status", `{"phase":"Broken","conditions":[{"type":"Ready","status":"False","reason":"NoDisk","message":"the disk is full"}]}`)),
			"Thing/broken", "failed by {.phase} == Broken: saw Broken; Ready is False: NoDisk: the disk is full", "Ready is False: NoDisk"},
		{thing("slow", expects(ready, `{.phase} == Broken`, "sandbox/ready-after", "10ms", "sandbox/status", `{"phase":"Trying","conditions":[{"type":"Ready","status":"False","reason":"NoHost","message":"no route to host"}]}`)),
			"Thing/slow", ready + ": saw False; Ready is False: NoHost: no route to host", "Ready is False: NoHost"},
		{thing("mute", expects(ready, `{.phase} == Broken`)), "Thing/mute", ready + ": nobody has written a status yet (does the controller of Thing." + api + " run?)", ""},
		{crd("thingz", "Thing", "ThingList"), "CustomResourceDefinition/thingz." + api, `"ThingList" is already in use…`, "NamesAccepted is False"},
		{job("asleep", expects("{.succeeded} == 1", "{.failed} > 0"), "0s", "  suspend: true"), "Job/asleep", "it is suspended (spec.suspend: true), so it starts nothing", ""},
	}
	op, err := r.install("plain", use(inTrouble(t, all, deployment("fine", group("g0"), "0s")), func(i *Install) { i.ReadinessTimeout = 6 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, nil)
	out.causes(t, all)
}

// TestAPIServiceWithoutAService tells why an API that somebody else is to serve is
// not available. It runs alone: Helm itself refuses to work on such a cluster.
func TestAPIServiceWithoutAService(t *testing.T) {
	r := newRig(t)
	api := r.namespace + ".example"
	all := []trouble{{object("apiregistration.k8s.io/v1/APIService/v1."+api, nil, "spec: {group: "+api+", version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: "+r.namespace+", name: nowhere}}"),
		"APIService/v1." + api, `Available is False: ServiceNotFound: service/nowhere in "` + r.namespace + `" is not present; Service ` + r.namespace + "/nowhere: it is not in the cluster", "ServiceNotFound"}}
	t.Cleanup(func() {
		_ = r.client.Dynamic.Resource(apiServiceResource).Delete(context.Background(), "v1."+api, metav1.DeleteOptions{})
	})
	op, err := r.install("plain", use(inTrouble(t, all), func(i *Install) { i.ReadinessTimeout = 3 * time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	out := r.run(op, nil)
	out.causes(t, all)
	if g := out.state.Find("apply", "edge:g0"); g.Status != event.Failed {
		t.Errorf("R22: an APIService that is not available counts as %s", g.Status)
	}
}
