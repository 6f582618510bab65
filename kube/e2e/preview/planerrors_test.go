package preview

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestPlanContinuesAfterAnError: the dry run of one object fails because a webhook does not respond, which may pass, and other
// objects cannot be read. The plan has these errors, and the changes of the remaining objects.
func TestPlanContinuesAfterAnError(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	docs := func(v string) []string {
		return []string{rig.ConfigMap("a", nil, "v: "+v), strings.Replace(rig.ConfigMap("checked", nil, "v: "+v), "metadata:\n", "metadata:\n  labels: {checked: 'yes'}\n", 1),
			rig.Object("v1/Secret/unseen", nil, "stringData: {v: "+v+"}"), rig.ConfigMap("z", nil, "v: "+v)}
	}
	r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, append(docs("one"), rig.Object("v1/Service/gone", nil, "spec: {ports: [{port: 80}]}"))...), nil)))
	nowhere, fail, none := "https://127.0.0.1:1/", admissionv1.Fail, admissionv1.SideEffectClassNone
	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "preview.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &nowhere}, FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"checked": "yes"}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}},
		Rules:             []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.OperationAll}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
	}}}
	if _, err := r.Cluster.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the webhook is called", func() bool {
		_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(t.Context(), "checked", "application/merge-patch+json", []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		return err != nil
	})
	op, err := r.WithClient(r.ConnectThrough(rig.Interceptor{Intercept: func(w http.ResponseWriter, req *http.Request) bool {
		path := req.URL.Path
		return (strings.HasSuffix(path, "/secrets/unseen") || strings.HasSuffix(path, "/services/gone")) && rig.InternalError(w)
	}}, "")).Upgrade("plain", rig.UseChart(rig.ChartOf(t, docs("two")...), func(u *kube.Deploy) { u.PlanOnly, u.ReadinessTimeout = true, time.Second }))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := op.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	says := map[string]string{}
	for _, c := range changes {
		got = append(got, c.Object.String()+" "+string(c.Action))
		says[c.Object.Name] = c.Message
	}
	want := []string{"Secret/unseen refuse", "ConfigMap/a change", "ConfigMap/checked change", "ConfigMap/z change", "Service/gone refuse"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
	for name, part := range map[string]string{"checked": "preview.example.com", "unseen": "made to fail", "gone": "made to fail", "a": ""} {
		if !strings.Contains(says[name], part) || part == "" && says[name] != "" {
			t.Errorf("%s: %q", name, says[name])
		}
	}
}
