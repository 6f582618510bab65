package order

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admission "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/release"
)

// TestInferredOrder installs typical charts without annotations, with the declared and with
// the inferred order (R68). With the declared one, there are temporary errors; with the
// inferred one no request is refused, no pod restarts, and no resource precedes its operator.
func TestInferredOrder(t *testing.T) {
	for name, kind := range map[string]scenario{
		// The pods of web exit until those of db are ready.
		"app": {tooEarly: "pods/web", before: "db", docs: []string{
			service("db"), rig.Deployment("db", nil, "300ms"),
			strings.Replace(rig.Deployment("web", nil, "1s"), "image: example/app:1.0", "image: example/app:1.0, env: [{name: DATABASE_URL, value: 'postgres://db:5432/web'}]", 1),
		}},
		// A webhook that does not respond until its pods are ready.
		"webhook": {tooEarly: "gadgets/first", before: "guard", docs: []string{
			definition, rig.Object("GROUP/v1/Gadget/first", nil, "spec: {}"), service("guard"), rig.Deployment("guard", nil, "300ms"),
			rig.Object("admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration/GROUP", nil, `webhooks:
- name: guard.GROUP
  admissionReviewVersions: [v1]
  sideEffects: None
  matchConditions: [{name: acted-by-the-test, expression: "false"}]
  clientConfig: {service: {name: guard, namespace: NAMESPACE, path: /}}
  rules: [{apiGroups: [GROUP], apiVersions: [v1], resources: [gadgets], operations: [CREATE, UPDATE]}]`),
		}},
		// A custom resource and its operator.
		"operator": {tooEarly: "gadgets/first", before: "operator", docs: []string{
			definition, rig.Object("GROUP/v1/Gadget/first", nil, "spec: {}"),
			rig.Object("v1/ServiceAccount/operator", nil),
			rig.Object("rbac.authorization.k8s.io/v1/Role/operator", nil, "rules: [{apiGroups: [GROUP], resources: [gadgets, gadgets/status], verbs: ['*']}]"),
			rig.Object("rbac.authorization.k8s.io/v1/RoleBinding/operator", nil, "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator}", "subjects: [{kind: ServiceAccount, name: operator}]"),
			strings.Replace(rig.Deployment("operator", nil, "300ms"), "spec: {containers", "spec: {serviceAccountName: operator, containers", 1),
		}},
	} {
		for _, order := range []string{kube.OrderDeclared, kube.OrderInferred} {
			t.Run(name+" "+order, func(t *testing.T) {
				t.Parallel()
				r := rig.NewNamed(t, "order-"+name+"-"+order)
				world := simulate(r, kind, order == kube.OrderDeclared)
				out := r.MustRun(r.Install("plain", rig.UseChart(kind.chart(t, r.Namespace), func(i *kube.Deploy) { i.Order = order })))
				if name == "app" && order == kube.OrderDeclared {
					r.Eventually("a pod is restarted", func() bool { return restarts(r) > 0 })
				}
				harmed, restarts, refused := world.earlyCount(), restarts(r), refusedWrites(r)
				t.Logf("%d objects were too early; %d restarts, %d requests refused, in %s", harmed, restarts, refused, out.State.Now.Sub(out.State.Started).Round(time.Second))
				switch {
				case order == kube.OrderInferred && harmed+restarts+refused > 0:
					t.Errorf("%d objects were too early, %d restarts, %d requests refused; want none", harmed, restarts, refused)
				case order == kube.OrderDeclared && harmed == 0:
					t.Error("no object was too early without an order, so the test proves nothing")
				case order == kube.OrderDeclared && name == "app" && restarts == 0:
					t.Error("no pod was restarted without an order")
				case order == kube.OrderDeclared && name == "webhook" && refused == 0:
					t.Error("no request was refused without an order")
				}
			})
		}
	}
}

// scenario is a chart whose programs the test simulates.
type scenario struct {
	docs []string
	// tooEarly is the start of "RESOURCE/NAME" of an object that must not be created before the pods of the Deployment
	// named before are ready.
	tooEarly, before string
}

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`

func service(name string) string {
	return rig.Object("v1/Service/"+name, nil, "spec: {selector: {app: "+name+"}, ports: [{port: 5432}]}")
}

func (a scenario) chart(t *testing.T, namespace string) *charts.Chart {
	t.Helper()
	names := strings.NewReplacer("GROUP", namespace+".example", "NAMESPACE", namespace)
	return rig.ChartOf(t, names.Replace(strings.Join(a.docs, "\n---\n")))
}

// simulation is an admission webhook that simulates the programs in the pods, because the sandbox does not run them.
type simulation struct {
	r        *rig.Rig
	scenario scenario
	// slow delays the pods of the Deployment before until an object was too early.
	slow bool

	mu         sync.Mutex
	early      int
	firstEarly chan struct{} // closed by the first
}

// simulate registers the webhook of a scenario.
func simulate(r *rig.Rig, a scenario, slow bool) *simulation {
	r.T.Helper()
	w := &simulation{r: r, scenario: a, slow: slow, firstEarly: make(chan struct{})}
	srv := httptest.NewTLSServer(http.HandlerFunc(w.review))
	r.T.Cleanup(srv.Close)
	fail, none, wait := admissionv1.Fail, admissionv1.SideEffectClassNone, int32(30)
	hook := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "acted-" + r.Namespace}, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "acted.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &srv.URL, CABundle: authority(srv.Certificate())},
		FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &wait, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}},
		Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{
			APIGroups: []string{"", r.Namespace + ".example"}, APIVersions: []string{"v1"}, Resources: []string{"pods", "gadgets"},
		}}},
	}}}
	hooks := r.Cluster.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := hooks.Create(r.T.Context(), hook, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = hooks.Delete(r.T.Context(), hook.Name, metav1.DeleteOptions{}) })
	r.Eventually("the webhook is called", func() bool {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "asked"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		made, err := r.Cluster.CoreV1().Pods(r.Namespace).Create(r.T.Context(), pod, metav1.CreateOptions{DryRun: []string{"All"}})
		return err == nil && made.Annotations["acted"] != ""
	})
	return w
}

func authority(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// review handles an admission request.
func (w *simulation) review(rw http.ResponseWriter, req *http.Request) {
	var asked admission.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &admission.AdmissionResponse{UID: asked.Request.UID, Allowed: true}
	var o struct{ Metadata metav1.ObjectMeta }
	_ = json.Unmarshal(asked.Request.Object.Raw, &o) // the API server has validated it
	name := o.Metadata.Name + o.Metadata.GenerateName
	what := asked.Request.Resource.Resource + "/" + name
	patch := ""
	switch {
	case name == "asked":
		patch = `[{"op":"add","path":"/metadata/annotations","value":{"acted":"yes"}}]`
	case asked.Request.DryRun != nil && *asked.Request.DryRun:
	case strings.HasPrefix(what, w.scenario.tooEarly) && !isReady(w.r, w.scenario.before):
		w.noteEarly()
		if asked.Request.Resource.Resource == "pods" {
			patch = `[{"op":"add","path":"/metadata/annotations/sandbox~1exit-code","value":"1"},{"op":"add","path":"/metadata/annotations/sandbox~1fail-times","value":"1"},{"op":"add","path":"/metadata/annotations/sandbox~1run-duration","value":"100ms"}]`
		} else if w.scenario.before == "guard" {
			answer.Allowed = false
			answer.Result = &metav1.Status{Code: 500, Message: fmt.Sprintf("failed calling webhook %q: connect: connection refused", w.scenario.before)}
		}
	case strings.HasPrefix(what, "pods/"+w.scenario.before) && w.slow:
		select {
		case <-w.firstEarly:
		case <-time.After(25 * time.Second): // the test then reports that nothing was too early
		}
	}
	if patch != "" {
		kind := admission.PatchTypeJSONPatch
		answer.Patch, answer.PatchType = []byte(patch), &kind
	}
	asked.Response, asked.Request = answer, nil
	_ = json.NewEncoder(rw).Encode(asked) // if this fails, the API server reports an error
}

func (w *simulation) noteEarly() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.early++; w.early == 1 {
		close(w.firstEarly)
	}
}

func (w *simulation) earlyCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.early
}

// isReady reports whether a Deployment is available.
func isReady(r *rig.Rig, name string) bool {
	d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(r.T.Context(), name, metav1.GetOptions{})
	return err == nil && d.Status.AvailableReplicas > 0
}

// restarts counts restarts of containers in the namespace.
func restarts(r *rig.Rig) (n int) {
	r.T.Helper()
	pods, err := r.Cluster.CoreV1().Pods(r.Namespace).List(r.T.Context(), metav1.ListOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			n += int(c.RestartCount)
		}
	}
	return n
}

// refusedWrites counts lockstep's writes that the API server has refused.
func refusedWrites(r *rig.Rig) (n int) {
	r.T.Helper()
	log := r.Log()
	for _, e := range log.Namespace(r.Namespace) {
		written := e.Verb == "create" || e.Verb == "update" || e.Verb == "patch"
		if e.UserAgent == "lockstep" && written && e.Code >= 400 && e.Object.Resource != "leases" && !strings.Contains(e.RequestURI, "dryRun=") {
			n++
		}
	}
	return n
}

// callingChart returns a chart of an app that calls a database, without annotations.
func callingChart(t *testing.T, more string) *charts.Chart {
	t.Helper()
	return rig.ChartOf(t, service("db"), rig.Deployment("db", nil, "100ms"),
		strings.Replace(rig.Deployment("web", nil, "0s"), "image: example/app:1.0", "image: example/app:1.0, env: [{name: DATABASE_HOST, value: db}, {name: MORE, value: '"+more+"'}]", 1))
}

// TestInferredOrderIsRecorded: later operations use the recorded inferred order without
// --order (R28, R68). Nothing else in the release or the cluster has it.
func TestInferredOrderIsRecorded(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	inferred := func(i *kube.Deploy) { i.Order = kube.OrderInferred }
	r.MustRun(r.Install("plain", rig.UseChart(callingChart(t, "1"), inferred)))
	last, err := r.Helm().Releases.Last("t")
	if err != nil {
		t.Fatal(err)
	}
	rel, err := release.AsV1(last)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rel.Manifest, "helm.sh/") {
		t.Errorf("the manifest contains annotations of the inferred order:\n%s", rel.Manifest)
	}
	for _, name := range []string{"db", "web"} {
		d, err := r.Cluster.AppsV1().Deployments(r.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for key := range d.Annotations {
			if strings.HasPrefix(key, "helm.sh/") || strings.HasPrefix(key, "lockstep") {
				t.Errorf("%s has %s in the cluster", name, key)
			}
		}
	}
	dependencies := func(op *kube.Operation, err error) map[string][]string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		of := map[string][]string{}
		for _, p := range op.Phases() {
			for _, g := range p.Groups {
				of[p.Name+" "+g.ID] = g.After
			}
		}
		return of
	}
	// An upgrade without --order applies everything at once; only removals would follow the recorded order.
	op, err := r.Upgrade("plain", rig.UseChart(callingChart(t, "2"), nil))
	r.MustRun(op, err)
	if w := op.Warnings(); !slices.ContainsFunc(w, func(w plan.Warning) bool {
		return w.Rule == "R68" && strings.Contains(w.Message, "revision 1") && strings.Contains(w.Message, "LOCKSTEP_ORDER=inferred")
	}) {
		t.Errorf("the upgrade without an order has the warnings %v", w)
	}
	if op, err := r.Upgrade("plain", rig.UseChart(callingChart(t, "2"), inferred)); err != nil || len(op.Warnings()) > 0 {
		t.Errorf("the upgrade with the inferred order has the warnings %v, %v", op.Warnings(), err)
	}
	back := dependencies(r.Rollback(1))
	if !slices.Equal(back["apply edge:web"], []string{"edge:db"}) {
		t.Errorf("the rollback has the dependencies %v", back)
	}
	r.MustRun(r.Rollback(1))
	op, err = r.Uninstall()
	if removal := dependencies(op, err); !slices.Equal(removal["remove edge:db"], []string{"edge:web"}) {
		t.Errorf("the uninstall has the dependencies %v", removal)
	}
	r.MustRun(op, nil)
}

// TestInferredFailureNamesItsEdge: a group that never started has the reason why it waits
// (R26, R68).
func TestInferredFailureNamesItsEdge(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	never := rig.ChartOf(t, service("db"), strings.Replace(rig.Deployment("db", rig.Impatient(nil), "0s"), "sandbox/ready-delay: 0s", "sandbox/fail: never-ready", 1),
		strings.Replace(rig.Deployment("web", nil, "0s"), "image: example/app:1.0", "image: example/app:1.0, env: [{name: DATABASE_HOST, value: db}]", 1))
	op, err := r.Install("plain", rig.UseChart(never, func(i *kube.Deploy) { i.Order = kube.OrderInferred }))
	out := r.MustFail(op, err, "never started: edge:web")
	web := out.State.Find("apply", "edge:web")
	for _, part := range []string{"edge:db failed", "Deployment/web waits for ", "DATABASE_HOST"} {
		if web == nil || !strings.Contains(web.Message, part) {
			t.Errorf("the message of web lacks %q: %+v", part, web)
		}
	}
}

// TestInferredNeedsOrder: --order=inferred is refused with a strategy that ignores order (R27,
// R68).
func TestInferredNeedsOrder(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	for _, change := range []func(*kube.Deploy){
		func(i *kube.Deploy) { i.Order, i.Wait = kube.OrderInferred, "watcher" },
		func(i *kube.Deploy) { i.Order = "guessed" },
	} {
		if _, err := r.Install("plain", change); err == nil || !strings.Contains(err.Error(), "--order") {
			t.Errorf("error %v", err)
		}
	}
}
