package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/ui/cli/command"
)

// readiness returns readiness annotations (R23) and the further annotations in more, keys and values.
func readiness(success, failure string, more ...string) string {
	list := func(e string) string { b, _ := json.Marshal([]string{e}); return string(b) }
	a := map[string]string{plan.AnnotationReadinessSuccess: list(success), plan.AnnotationReadinessFailure: list(failure)}
	for i := 0; i+1 < len(more); i += 2 {
		a[more[i]] = more[i+1]
	}
	text, _ := json.Marshal(a)
	return string(text)
}

const (
	isReady   = `{.conditions[?(@.type=="Ready")].status} == True`
	notReady  = `not ready: readiness-success \{.conditions\[\?\(@.type=="Ready"\)\].status\} == True is not met \(status is `
	never     = `{.never} == x`
	addressed = `{.loadBalancer.ingress[*].ip} != x`
)

func claim(name, more string) string {
	return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: ` + name + `}, spec: {` + more + `, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`
}

// loadBalancer returns a Service that gets no address, because no load balancer has its class.
func loadBalancer(name, selector string) string {
	return `{apiVersion: v1, kind: Service, metadata: {name: ` + name + `, annotations: ` + unaddressed + `}, spec: {type: LoadBalancer, loadBalancerClass: $NS/none, selector: {` + selector + `}, ports: [{port: 80}]}}`
}

func budget(name, spec string) string {
	return `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: ` + name + `, annotations: ` + readiness(`{.disruptionsAllowed} > 0`, never) + `}, spec: {` + spec + `}}`
}

func ingress(name, annotations, class, service string) string {
	return fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %s, annotations: %s}, spec: {%srules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %s, port: {number: 80}}}}]}}]}}`,
		name, annotations, class, service)
}

func thing(name, annotations string) string {
	return `{apiVersion: $NS.example/v1, kind: Thing, metadata: {name: ` + name + `, annotations: ` + annotations + `}, spec: {size: 1}}`
}

func thingKind(plural string) string {
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ` + plural + `.$NS.example}, spec: {group: $NS.example, scope: Namespaced,
		names: {kind: Thing, listKind: ThingList, plural: ` + plural + `, singular: ` + plural + `-one},
		versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`
}

var (
	unaddressed = readiness(addressed, never, "sandbox/fail", "never")
	oldIngress  = readiness(addressed, never, "sandbox/fail", "never", "kubernetes.io/ingress.class", "old")
	diskFull    = `{"phase":"Broken","conditions":[{"type":"Ready","status":"False","reason":"NoDisk","message":"the disk is full"}]}`
	noRoute     = `{"phase":"Trying","conditions":[{"type":"Ready","status":"False","reason":"NoHost","message":"no route to host"}]}`
)

// waits are objects that the API server accepts and that do not become ready for reasons other than
// their pods.
var waits = []cause{
	{"no-class", claim("classless", `storageClassName: none-such`), "PersistentVolumeClaim/classless",
		`no volume: StorageClass none-such does not exist, and no volume of that class fits 1Gi, ReadWriteOnce`, `claim classless is pending: class "none-such"`},
	{"empty-class", claim("manual", `storageClassName: ""`), "PersistentVolumeClaim/manual",
		`no volume: it requests no StorageClass \(storageClassName: ""\), and no existing volume fits 1Gi, ReadWriteOnce`, `claim manual is pending`},
	{"named-volume", claim("named", `storageClassName: "", volumeName: gone`), "PersistentVolumeClaim/named", `no volume: volume gone does not exist`, `claim named is pending`},
	{"provisioner", claim("slow", `storageClassName: $NS-now`), "PersistentVolumeClaim/slow",
		`no volume: provisioner csi.example.com of StorageClass \$NS-now has not created one, and no CSIDriver with that name is installed`, `claim slow is pending`},
	{"balancer", loadBalancer("front", "app: frond") + "\n---\n" + deployment("front", "", oneContainer), "Service/front",
		`no address: selector app=frond matches no pods; the pods of Deployment/front have app=front`, `readiness-success .* is not met \(ip is not set\)`},
	{"balancer-down", loadBalancer("down", "app: down") + "\n---\n" + strings.Replace(deployment("down", "", oneContainer), "spec:", "spec:\n  replicas: 0", 1), "Service/down",
		`no address: selector app=down matches no pods: Deployment/down has none: scaled to 0 replicas`, `ip is not set`},
	{"balancers", loadBalancer("alone", "app: alone") + "\n---\n" + deployment("alone", "", oneContainer), "Service/alone",
		`no address: no load balancer of class \$NS/none has assigned one to any Service in the cluster`, `ip is not set`},
	{"ingress-class", ingress("classed", unaddressed, "ingressClassName: none-such, ", "x"), "Ingress/classed", `IngressClass none-such does not exist`, `IngressClass`},
	{"backend", ingress("nowhere", oldIngress, "", "nowhere"), "Ingress/nowhere", `its backend Service nowhere does not exist`, `ip is not set`},
	{"empty-backend", `{apiVersion: v1, kind: Service, metadata: {name: empty}, spec: {selector: {app: nothing}, ports: [{port: 80}]}}` + "\n---\n" + ingress("empty", oldIngress, "", "empty"), "Ingress/empty",
		`its backend Service empty: selector app=nothing matches no pods`, `ip is not set`},
	{"target", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: targetless, annotations: ` + readiness(`{.conditions[?(@.type=="AbleToScale")].status} == True`, never) + `},
		spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: nowhere}}}`, "HorizontalPodAutoscaler/targetless",
		`.*\(status is False\); AbleToScale is False: FailedGetScale: .*"nowhere" not found.*`, `"nowhere" not found`},
	{"metrics", deployment("fine", "", oneContainer) + "\n---\n" + `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: blind, annotations: ` + readiness(`{.conditions[?(@.type=="ScalingActive")].status} == True`, never) + `},
		spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: fine}}}`, "HorizontalPodAutoscaler/blind",
		`.*\(status is False\); ScalingActive is False: FailedGetResourceMetric: .*; nothing serves metrics.k8s.io; install Metrics Server`, `FailedGetResourceMetric`},
	{"budget", budget("budget", "minAvailable: 1, selector: {matchLabels: {app: nothing}}"), "PodDisruptionBudget/budget",
		`selector app=nothing matches no pods`, `\{.disruptionsAllowed\} > 0 is not met \(.disruptionsAllowed is 0\)`},
	{"budget-all", budget("all", "minAvailable: 2, selector: {matchLabels: {app: few}}") + "\n---\n" + deployment("few", "", oneContainer), "PodDisruptionBudget/all",
		`it allows no disruption: it requires 2 healthy pods and matches 1`, `disruptionsAllowed is 0`},
	{"route", ingress("unrouted", unaddressed, "ingressClassName: $NS, ", "route") + "\n---\n" + `{apiVersion: v1, kind: Service, metadata: {name: route}, spec: {selector: {app: route}, ports: [{port: 80}]}}` + "\n---\n" + deployment("route", "", oneContainer), "Ingress/unrouted",
		`no address: no ingress controller serves it or any other Ingress of its class`, `ip is not set`},
	{"slices", `{apiVersion: v1, kind: Service, metadata: {name: bare, annotations: ` + readiness(addressed, never) + `}, spec: {ports: [{port: 80}]}}`, "Service/bare",
		`it has no selector, and no EndpointSlice lists endpoints for it`, `ip is not set`},
	{"failed-claim", strings.Replace(claim("failing", `storageClassName: none-such`), "{name: failing}", "{name: failing, annotations: "+readiness(`{.phase} == Bound`, `{.phase} == Pending`)+"}", 1), "PersistentVolumeClaim/failing",
		`no volume: StorageClass none-such does not exist.*`, `matches readiness-failure \{.phase\} == Pending`},
	{"failed-pods", strings.Replace(deployment("early", "sandbox/start-delay: 1h", oneContainer), "{name: early}", "{name: early, annotations: "+readiness(`{.readyReplicas} == 1`, `{.unavailableReplicas} >= 1`)+"}", 1), "Deployment/early",
		`matches readiness-failure \{.unavailableReplicas\} >= 1 \(.unavailableReplicas is 1\).*`, `Available is False`},
	{"no-node", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: nodeless, annotations: ` + readiness(`{.numberReady} > 0`, never) + `}, spec: {selector: {matchLabels: {app: nodeless}}, template: {metadata: {labels: {app: nodeless}}, spec: {nodeSelector: {disk: fast}, ` + oneContainer + `}}}}`, "DaemonSet/nodeless",
		`no node matches its pods, nodeSelector disk=fast`, `numberReady is 0`},
	{"several", thing("several", strings.ReplaceAll(readiness(`{.phase} == Done`, never, "sandbox/ready-after", "10ms", "sandbox/status", `{"phase":"Trying","replicas":1,"message":"2 replicas are missing"}`), `== Done\"]`, `== Done\",\"{.replicas} >= 3\"]`)), "Thing/several",
		`not ready: no readiness-success expression is met: \{.phase\} == Done \(.phase is Trying\), \{.replicas\} >= 3 \(.replicas is 1\); 2 replicas are missing`, `replicas is 1`},
	{"failed-thing", thing("broken", readiness(isReady, `{.phase} == Broken`, "sandbox/ready-after", "10ms", "sandbox/status", diskFull)), "Thing/broken",
		`matches readiness-failure \{.phase\} == Broken; Ready is False: NoDisk: the disk is full`, `Ready is False: NoDisk`},
	{"trying-thing", thing("trying", readiness(isReady, never, "sandbox/ready-after", "10ms", "sandbox/status", noRoute)), "Thing/trying",
		notReady + `False\); Ready is False: NoHost: no route to host`, `Ready is False: NoHost`},
	{"mute-thing", thing("mute", readiness(isReady, never)), "Thing/mute", `not ready: readiness-success .* is not met: expressions apply to \.status, and the object has none yet`, `and the object has none yet`},
	{"kind-name", thingKind("thingz"), "CustomResourceDefinition/thingz.$NS.example", `.*"ThingList" is already in use.*`, `NamesAccepted is False|is already in use`},
}

// TestCausesOfWaits: if an object does not become ready for a reason other than its pods, the reason
// is reported.
func TestCausesOfWaits(t *testing.T) {
	limitedParallel(t)
	const ns = "causes-of-waits"
	c := inCluster(t)
	c.namespace(ns)
	c.create(ns, thingKind("things"),
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: $NS-now}, provisioner: csi.example.com}`,
		`{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: $NS}, spec: {controller: example.com/none}}`)
	s := installCauses(t, ns, waits, "--readiness-timeout", "40s", "--timeout", "4m")
	s.check()
	s.checkTimes()
}

// TestCausesOfHooks: the report of a failed hook names the container of its Job (R29).
func TestCausesOfHooks(t *testing.T) {
	t.Parallel()
	const ns = "causes-of-hooks"
	inCluster(t).namespace(ns)
	docs := strings.Replace(job("migrate", crashing(""), "backoffLimit: 0", "restartPolicy: Never, "+oneContainer), "{name: migrate}", "{name: migrate, annotations: {helm.sh/hook: pre-install}}", 1)
	s := &causesRun{t: t, ns: ns, causes: []cause{{"hook", docs, "Job/migrate", `container main exited with code 3: ` + orders, orders}}}
	s.unit = "pre-install:Job/migrate"
	s.run("install", "c", s.chart(), "--timeout", "1m")
	s.check()
}

// TestCausesOfRemovals: if an object is not deleted, its finalizer is reported.
func TestCausesOfRemovals(t *testing.T) {
	t.Parallel()
	const ns = "causes-of-removals"
	c := inCluster(t)
	c.namespace(ns)
	s := &causesRun{t: t, ns: ns, causes: []cause{{"held", `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}`, "ConfigMap/held",
		`being deleted: .*example.com/hold.*`, `finalizer example.com/hold`}}}
	s.run("install", "c", s.chart(), "--timeout", "1m")
	if s.exit != command.ExitDone {
		t.Fatal(s.text)
	}
	s.run("uninstall", "c", "--readiness-timeout", "10s", "--timeout", "1m")
	s.check()
	if _, err := c.kube.CoreV1().ConfigMaps(ns).Patch(context.Background(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestCausesOfAPIs reports why an aggregated API is not available. It does not run in parallel,
// because Helm fails on such a cluster.
func TestCausesOfAPIs(t *testing.T) {
	const ns = "causes-of-apis"
	c := inCluster(t)
	c.namespace(ns)
	t.Cleanup(func() {
		apis := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
		_ = c.dyn.Resource(apis).Delete(context.Background(), "v1."+ns+".example", metav1.DeleteOptions{})
	})
	s := installCauses(t, ns, []cause{{"api", `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.$NS.example}, spec: {group: $NS.example, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: $NS, name: nowhere}}}`,
		"APIService/v1.$NS.example", `Available is False: ServiceNotFound: service/nowhere in "\$NS" is not present; Service \$NS/nowhere: not in the cluster`, `ServiceNotFound`}},
		"--readiness-timeout", "10s", "--timeout", "1m")
	s.check()
}
