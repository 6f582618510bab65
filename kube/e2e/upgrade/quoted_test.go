package upgrade

import (
	"encoding/base64"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestPolicyThatQuotesSecrets (S14): a policy quotes the old and the new values of a Secret that it denies. The old one is in no revision,
// because somebody has rotated it: it is hidden in the plan, and in the error of an upgrade or a rollback, all the same.
func TestPolicyThatQuotesSecrets(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.SkipUnlessServed("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "1.30")
	const live = "canaryLIVEvalue"
	chart := func(value string, change func(*kube.Deploy)) func(*kube.Deploy) {
		return rig.UseChart(rig.ChartOf(t, rig.Object("v1/Secret/s", nil, "stringData: {a: "+value+"}")), change)
	}
	r.Deploy("plain", chart("canaryOLDvalue", nil))
	rotate := func(value string, how ...string) error {
		_, err := r.Cluster.CoreV1().Secrets(r.Namespace).Patch(t.Context(), "s", types.MergePatchType, []byte(`{"stringData":{"a":"`+value+`"}}`), metav1.PatchOptions{DryRun: how})
		return err
	}
	if err := rotate(live); err != nil {
		t.Fatal(err)
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
		}}}},
		MatchConditions: []admissionv1.MatchCondition{{Name: "s", Expression: "object.metadata.name == 's'"}},
		Validations:     []admissionv1.Validation{{Expression: "false", MessageExpression: "'new ' + string(object.data['a']) + ', old ' + string(oldObject.data['a'])"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: r.Namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}}},
	}}
	if _, err := r.Cluster.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Cluster.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the policy is in effect", func() bool {
		err := rotate("probe", "All")
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	})
	check := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, "old (hidden)") || strings.Contains(text, live) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(live))) {
			t.Errorf("%s: %s", what, text)
		}
	}
	force := func(d *kube.Deploy) { d.ForceConflicts = true }
	if _, err := r.Upgrade("plain", chart("canaryNEXTvalue", force)); err == nil {
		t.Error("the upgrade was not refused")
	} else {
		check("upgrade", err.Error())
	}
	op := r.Must(r.Upgrade("plain", chart("canaryNEXTvalue", func(d *kube.Deploy) { d.ForceConflicts, d.SkipPreflight = true, true })))
	check("the run of an upgrade", r.Run(op, nil).State.Message)
	_, changes := r.Changes(r.Upgrade("plain", chart("canaryNEXTvalue", func(d *kube.Deploy) { d.ForceConflicts, d.PlanOnly = true, true })))
	check("plan", changes["Secret/s"].Message)
}
