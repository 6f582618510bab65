package upgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/inspect"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// deny creates a ValidatingAdmissionPolicy for the ConfigMaps of the test's namespace, and waits until it is in effect. With
// params, the ConfigMap "params" has the only value of data.v that is allowed.
func deny(r *rig.Rig, params bool) {
	r.T.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}}}},
		MatchConditions: []admissionv1.MatchCondition{{Name: "checked", Expression: "object.metadata.name == 'checked'"}},
		Validations:     []admissionv1.Validation{{Expression: "object.data.v != 'two'", Message: "two is not allowed"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: r.Namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}}},
	}}
	if params {
		policy.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		policy.Spec.Validations[0].Expression = "object.data.v == params.data.v"
		allow := admissionv1.AllowAction
		binding.Spec.ParamRef = &admissionv1.ParamRef{Name: "params", Namespace: r.Namespace, ParameterNotFoundAction: &allow}
	}
	if _, err := r.Cluster.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(r.T.Context(), policy, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	if _, err := r.Cluster.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(r.T.Context(), binding, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.Eventually("the policy is in effect", func() bool {
		_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(r.T.Context(), "checked", types.MergePatchType, []byte(`{"data":{"v":"two"}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	})
}

// foreseen returns a chart with a migration before groups of objects that the next version changes.
func foreseen(t *testing.T, v string, more ...string) *charts.Chart {
	return rig.ChartOf(t, append(more,
		rig.Job("migration", map[string]string{"helm.sh/hook": "pre-upgrade"}, "0s"),
		rig.ConfigMap("params", rig.Group("one"), "v: "+v),
		rig.Job("seed-"+v, rig.Group("one"), "0s"),
		rig.ConfigMap("checked", rig.Group("two", "one"), "v: "+v),
		strings.ReplaceAll(rig.Deployment("web", rig.Group("two", "one"), "0s", "  replicas: 1"), "app:1.0", "app:"+v),
		strings.ReplaceAll(rig.Deployment("fixed", rig.Group("two", "one"), "0s"), "{app: fixed}", "{app: fixed, v: "+v+"}"),
		rig.ConfigMap("same", rig.Group("three", "two")))...)
}

// scale sets the replicas of Deployment web as kubectl scale does.
func scale(r *rig.Rig) {
	r.T.Helper()
	to := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: r.Namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	if _, err := r.Cluster.AppsV1().Deployments(r.Namespace).UpdateScale(r.T.Context(), "web", to, metav1.UpdateOptions{FieldManager: "kubectl"}); err != nil {
		r.T.Fatal(err)
	}
}

// TestProblemsBeforeTheFirstWrite: a conflict of field owners, an immutable field and a denial of a policy are found before
// the first write, in an upgrade and in a rollback, and all at once (S3). The migration does not run.
func TestProblemsBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.SkipUnlessServed("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "1.30")
	r.Deploy("plain", rig.UseChart(foreseen(t, "one"), nil))
	r.MustRun(r.Upgrade("plain", rig.UseChart(foreseen(t, "one"), nil)))
	scale(r)
	deny(r, false)
	want := []string{"upgrade: 3 problems; nothing was written", "ConfigMap/checked", "two is not allowed", "Deployment/fixed: ", "immutable",
		`Deployment/web: "kubectl" owns .spec.replicas; remove the field from the chart or give it the live value, or take it over with --force-conflicts`}
	start := time.Now()
	_, err := r.Upgrade("plain", rig.UseChart(foreseen(t, "two"), nil))
	r.MustRefuse(start, err, want...)
	_, err = r.Upgrade("plain", rig.UseChart(foreseen(t, "one"), nil)) // the manifest is the same, but not the live object
	r.MustRefuse(start, err, "Deployment/web", "--force-conflicts")
	_, err = r.Rollback(1)
	r.MustRefuse(start, err, "Deployment/web", "--force-conflicts")
	r.AssertHistory("1 superseded", "2 deployed")
}

// TestRefusalsThatMayPass: an operation does not stop because of a refusal that may pass before the object is applied, but
// warns. Its plan shows a change.
func TestRefusalsThatMayPass(t *testing.T) {
	t.Parallel()
	kubectl := strings.Replace(rig.Job("prepare", map[string]string{"helm.sh/hook": "pre-upgrade"}, "0s"), "{name: main,", "{name: main, command: [sh, -c, kubectl delete deployment fixed],", 1)
	role := rig.Object("rbac.authorization.k8s.io/v1/Role/prepare", map[string]string{"helm.sh/hook": "pre-upgrade"}, `rules: [{apiGroups: [apps], resources: [deployments], verbs: [delete]}]`)
	image := strings.Replace(rig.Job("prepare", map[string]string{"helm.sh/hook": "pre-upgrade"}, "0s"), "example/app", "registry.test/kubectl", 1)
	for name, tt := range map[string]struct {
		more    []string
		prepare func(*rig.Rig)
		object  string
		says    []string
	}{
		"a hook with kubectl":    {[]string{kubectl}, nil, "Deployment/fixed", []string{"immutable", "Job/prepare comes first and may change the object"}},
		"a hook of kubectl":      {[]string{image}, nil, "Deployment/fixed", []string{"immutable", "Job/prepare comes first and may change the object"}},
		"a hook with a role":     {[]string{role}, nil, "Deployment/fixed", []string{"immutable", "Job/migration comes first and may change the object"}},
		"a role in the cluster":  {nil, mayDelete, "Deployment/fixed", []string{"immutable", "Job/migration comes first and may change the object"}},
		"parameters of a policy": {nil, func(r *rig.Rig) { deny(r, true) }, "ConfigMap/checked", []string{"ValidatingAdmissionPolicy", "ConfigMap/params comes first and may change the policy"}},
		"a webhook":              {nil, webhookDown, "ConfigMap/checked", []string{"nowhere.example.com", "that may pass"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.SkipUnlessServed("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "1.30")
			r.Deploy("plain", rig.UseChart(foreseen(t, "one"), nil))
			if tt.prepare != nil {
				tt.prepare(r)
			}
			next := foreseen(t, "two", tt.more...)
			if tt.object != "Deployment/fixed" { // which would be refused
				next = rig.ChartOf(t, rig.ConfigMap("params", rig.Group("one"), "v: two"), rig.ConfigMap("checked", rig.Group("two", "one"), "v: two"))
			}
			op := r.Must(r.Upgrade("plain", rig.UseChart(next, func(u *kube.Deploy) { u.ReadinessTimeout = 2 * time.Second })))
			found := ""
			for _, w := range op.Warnings() {
				if w.Object != nil && w.Object.String() == tt.object {
					found += w.Message + "\n"
				}
			}
			_, changes := r.Changes(op, nil)
			for _, part := range tt.says {
				if c := changes[tt.object]; !strings.Contains(found, part) || !strings.Contains(c.Message, part) || c.Action != inspect.Modify {
					t.Errorf("no %q in the warnings %q or in the plan's %s %q", part, found, c.Action, c.Message)
				}
			}
		})
	}
}

// mayDelete lets the pods of the namespace delete Deployments, as an administrator does.
func mayDelete(r *rig.Rig) {
	r.T.Helper()
	r.Create(rig.Object("rbac.authorization.k8s.io/v1/Role/admins", nil, "rules: [{apiGroups: [apps], resources: [deployments], verbs: [delete]}]"),
		rig.Object("rbac.authorization.k8s.io/v1/RoleBinding/admins", nil, "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: admins}",
			"subjects: [{kind: ServiceAccount, name: default, namespace: "+r.Namespace+"}]"))
	asked := authv1.SubjectAccessReview{Spec: authv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + r.Namespace + ":default",
		ResourceAttributes: &authv1.ResourceAttributes{Namespace: r.Namespace, Verb: "delete", Group: "apps", Resource: "deployments"}}}
	r.Eventually("the role is in effect", func() bool {
		review, err := r.Cluster.AuthorizationV1().SubjectAccessReviews().Create(r.T.Context(), &asked, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
}

// webhookDown creates a webhook for the ConfigMap "checked" that does not respond.
func webhookDown(r *rig.Rig) {
	r.T.Helper()
	nowhere, fail, none := "https://127.0.0.1:1/", admissionv1.Fail, admissionv1.SideEffectClassNone
	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "nowhere.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &nowhere}, FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": r.Namespace}},
		MatchConditions:   []admissionv1.MatchCondition{{Name: "checked", Expression: "object.metadata.name == 'checked'"}},
		Rules:             []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Update}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
	}}}
	if _, err := r.Cluster.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(r.T.Context(), hook, metav1.CreateOptions{}); err != nil {
		r.T.Fatal(err)
	}
	r.Eventually("the webhook is called", func() bool {
		_, err := r.Cluster.CoreV1().ConfigMaps(r.Namespace).Patch(r.T.Context(), "checked", types.MergePatchType, []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		return err != nil
	})
}

// TestRefusedReplacement: --force-replace sends objects that do not change as well, without the fields that the API server has
// added. What it refuses of them is found before the first write (S3).
func TestRefusedReplacement(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	version := func(v string) *charts.Chart {
		return rig.ChartOf(t, rig.ConfigMap("first", rig.Group("one"), "v: "+v), rig.Job("seed", rig.Group("two", "one"), "0s"))
	}
	r.MustRun(r.Install("plain", rig.UseChart(version("one"), func(in *kube.Deploy) { in.ServerSide = "false" })))
	_, err := r.Upgrade("plain", rig.UseChart(version("two"), func(u *kube.Deploy) { u.ServerSide, u.ForceReplace = "false", true }))
	if err == nil || !strings.Contains(err.Error(), "Job/seed: ") || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("the replacement of a Job: %v", err)
	}
}

// TestStrict: --strict refuses a chart whose objects would lose their order, in every operation that applies one and in its
// plan. Otherwise that is a warning (R8, R37).
func TestStrict(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	chart := rig.ChartOf(t, rig.ConfigMap("a", rig.Group("a", "missing")), rig.ConfigMap("b", nil))
	start := time.Now()
	_, err := r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.Strict = true }))
	r.MustRefuse(start, err, "missing", "(R8)")
	op, err := r.Install("plain", rig.UseChart(chart, nil))
	if err != nil || !strings.Contains(fmt.Sprint(op.Warnings()), "missing") {
		t.Errorf("%v, warnings %v", err, op.Warnings())
	}
	r.MustRun(op, err)
	start = time.Now()
	_, err = r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Strict = true }))
	r.MustRefuse(start, err, "missing", "(R8)")
	op, err = r.Upgrade("plain", rig.UseChart(chart, func(u *kube.Deploy) { u.Strict, u.PlanOnly = true, true }))
	if err != nil || !strings.Contains(fmt.Sprint(op.Conflicts()), "missing") {
		t.Errorf("%v, conflicts of the plan %v", err, op.Conflicts())
	}
}
