package upgrade

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// admissionReview has the fields of an AdmissionReview that the test's webhook uses.
type admissionReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID    string `json:"uid"`
		Name   string `json:"name"`
		DryRun bool   `json:"dryRun"`
		Object struct {
			Data map[string]string `json:"data"`
		} `json:"object"`
	} `json:"request,omitempty"`
	Response map[string]any `json:"response,omitempty"`
}

// uniqueValues creates a webhook that denies a ConfigMap of the test's namespace whose data.v another one has, or is "bad", by a
// code without a reason.
func uniqueValues(r *rig.Rig) {
	r.T.Helper()
	var mu sync.Mutex
	values := map[string]string{"one": "a", "two": "b"} // names by value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionReview
		if json.NewDecoder(req.Body).Decode(&review) != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		v, name := review.Request.Object.Data["v"], review.Request.Name
		allowed := v != "bad" && (values[v] == "" || values[v] == name)
		if allowed && !review.Request.DryRun {
			for old, owner := range values {
				if owner == name {
					delete(values, old)
				}
			}
			values[v] = name
		}
		review.Response = map[string]any{"uid": review.Request.UID, "allowed": allowed}
		if !allowed {
			review.Response["status"] = map[string]any{"code": http.StatusBadRequest, "message": fmt.Sprintf("value %s is not allowed", v)}
		}
		review.Request = nil
		json.NewEncoder(w).Encode(review)
	}))
	r.T.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	fail, none := admissionv1.Fail, admissionv1.SideEffectClassNoneOnDryRun
	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "unique.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &server.URL, CABundle: ca}, FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}},
		Rules:             []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Update}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
	}}}
	if _, err := r.Cluster.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(r.T.Context(), hook, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.Eventually("the webhook is called", func() bool {
		_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(r.T.Context(), "a", types.MergePatchType, []byte(`{"data":{"v":"bad"}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		return err != nil && strings.Contains(err.Error(), "not allowed")
	})
}

// TestWebhookComparesObjects: a webhook denies an object while another one has its value. The other one changes in the same
// wave, so that is a warning. A denial without a reason of the only object that changes is refused.
func TestWebhookComparesObjects(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	docs := func(a, b string) []string {
		return []string{rig.ConfigMap("a", rig.Group("one"), "v: "+a), rig.ConfigMap("b", rig.Group("one"), "v: "+b), rig.ConfigMap("last", rig.Group("two", "one"), "v: "+a+b)}
	}
	r.Deploy("plain", rig.UseChart(rig.ChartOf(t, docs("one", "two")...), nil))
	uniqueValues(r)
	op, err := r.Upgrade("plain", rig.UseChart(rig.ChartOf(t, docs("three", "one")...), nil))
	_, changes := r.Changes(op, err)
	const why = "ConfigMap/a may come first and change the webhook"
	if c := changes["ConfigMap/b"]; c.Action != inspect.Modify || !strings.Contains(c.Message, why) || !strings.Contains(fmt.Sprint(op.Warnings()), why) {
		t.Errorf("the plan says %s %q, the warnings %v", c.Action, c.Message, op.Warnings())
	}
	only := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("one"), "v: one"), rig.ConfigMap("b", rig.Group("one"), "v: bad"), rig.ConfigMap("last", rig.Group("two", "one"), "v: onetwo"))
	start := time.Now()
	_, err = r.Upgrade("plain", rig.UseChart(only, nil))
	r.MustRefuse(start, err, "ConfigMap/b", "value bad is not allowed")
	_, changes = r.Changes(r.Upgrade("plain", rig.UseChart(only, func(u *kube.Deploy) { u.PlanOnly = true })))
	if c := changes["ConfigMap/b"]; c.Action != inspect.Refuse {
		t.Errorf("the plan says %s %q", c.Action, c.Message)
	}
}
