package preview

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// replaceMutated creates a webhook that replaces data.mutated of each ConfigMap in the namespace of the test when it is created and, if
// updates is set, updated.
func replaceMutated(r *rig.Rig, updates bool) {
	r.T.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review struct {
			Request struct {
				UID    string `json:"uid"`
				Object struct {
					Data map[string]string `json:"data"`
				} `json:"object"`
			} `json:"request"`
		}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := map[string]any{"uid": review.Request.UID, "allowed": true}
		if review.Request.Object.Data["mutated"] != "" {
			response["patchType"] = "JSONPatch"
			response["patch"] = base64.StdEncoding.EncodeToString([]byte(`[{"op":"replace","path":"/data/mutated","value":"by the webhook"}]`))
		}
		json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
	}))
	r.T.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	operations := []admissionv1.OperationType{admissionv1.Create}
	if updates {
		operations = append(operations, admissionv1.Update)
	}
	fail, none := admissionv1.Fail, admissionv1.SideEffectClassNone
	hook := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "mutate.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &server.URL, CABundle: ca}, FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}},
		Rules: []admissionv1.RuleWithOperations{{Operations: operations,
			Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
	}}}
	hooks := r.Cluster.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := hooks.Create(r.T.Context(), hook, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = hooks.Delete(r.T.Context(), r.Namespace, metav1.DeleteOptions{}) })
	probes := 0
	r.Eventually("the webhook is called", func() bool {
		probes++
		name := fmt.Sprint("probe-", probes)
		r.Create(rig.ConfigMap(name, nil, "mutated: x"))
		return r.ConfigMapData(name)["mutated"] != "x"
	})
}

// TestDriftOfNewObjects (S18): what a webhook makes only of new objects is no drift.
func TestDriftOfNewObjects(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		r := rig.NewNamed(t, "drift-of-new-objects-"+serverSide)
		replaceMutated(r, false)
		chart := rig.ConfigMap("mine", nil, "mutated: x") + "\n---\n" + rig.Object("v1/Service/web", nil, "spec: {clusterIP: '', ports: [{port: 80}]}")
		r.MustHelm("install", "t", rig.DirOf(t, chart), "--server-side="+serverSide)
		if d := drift(r); r.ConfigMapData("mine")["mutated"] == "x" || len(d.Objects) > 0 || len(d.Warnings) > 0 {
			t.Errorf("server-side %s: %q, %v", serverSide, driftLines(d), d.Warnings)
		}
	}
}

// TestDriftWrittenAsHelm (S18): what another release, or a program with Helm's field manager, has made of an object is drift. What a
// webhook makes of the object that the record has is none. A repair takes back what nobody else owns.
func TestDriftWrittenAsHelm(t *testing.T) {
	t.Parallel()
	for _, serverSide := range []string{"true", "false"} {
		t.Run("server-side "+serverSide, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			replaceMutated(r, true)
			r.Deploy("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("mine", nil, "v: '1'", "mutated: x"), rig.ConfigMap("shared", nil, "v: '1'", "mutated: x")),
				func(d *kube.Deploy) { d.ServerSide = serverSide }))
			check := func(when string, want ...string) {
				t.Helper()
				if d := drift(r); !slices.Equal(driftLines(d), want) || len(d.Warnings) > 0 {
					t.Errorf("%s: %q, %v; want %q", when, driftLines(d), d.Warnings, want)
				}
			}
			check("after the install")
			deployed := time.Now()
			r.Eventually("a second has passed, which managed fields can tell", func() bool { return time.Since(deployed) > time.Second })

			force := true
			marks := fmt.Sprintf(`{"name":"mine","labels":{"app.kubernetes.io/managed-by":"Helm"},"annotations":{"meta.helm.sh/release-name":"t","meta.helm.sh/release-namespace":%q}}`, r.Namespace)
			written := `{"apiVersion":"v1","kind":"ConfigMap","metadata":` + marks + `,"data":{"is":"mine","v":"9","mutated":"x"}}`
			_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "mine", types.ApplyPatchType, []byte(written), metav1.PatchOptions{FieldManager: "helm", Force: &force})
			if err != nil {
				t.Fatal(err)
			}
			check("applied as Helm", `ConfigMap/mine data.v: "1" → "9" by helm`)
			r.MustRun(r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}))
			check("repaired")
			if v := r.ConfigMapData("mine")["v"]; v != "1" {
				t.Errorf("the repair left %s", v)
			}

			other := rig.DirOf(t, rig.ConfigMap("shared", nil, "v: '2'", "mutated: x"))
			r.MustHelm("install", "other", other, "--take-ownership", "--force-conflicts")
			taken := []string{`ConfigMap/shared data.v: "1" → "2" by helm`, `ConfigMap/shared metadata.annotations[meta.helm.sh/release-name]: "t" → "other" by helm`}
			check("another release's", taken...)
			if op, err := r.Client.PrepareRepair(t.Context(), kube.Repair{Common: r.Common()}); err != nil || op != nil {
				t.Errorf("the repair of what another release owns: %v, %v", op, err)
			}
			reader := r.WithClient(r.ConnectAs("reader", rig.Rule("", "secrets", "get", "list"), rig.Rule("", "configmaps", "get", "list")))
			d := drift(reader)
			if got := driftLines(d); !slices.Contains(got, taken[0]) || !slices.Contains(got, taken[1]) {
				t.Errorf("read without the permission to apply: %q", got)
			}
			if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Message, "ConfigMap/mine: field data.mutated is not as the record says") {
				t.Errorf("warnings: %v", d.Warnings)
			}
		})
	}
}
