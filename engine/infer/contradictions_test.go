package infer_test

import (
	"strings"
	"testing"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
)

// TestContradictions: a declared order that contradicts references between objects is reported (R70).
func TestContradictions(t *testing.T) {
	settings := func(annotations map[string]string) infer.Object {
		return infer.Object{Resource: plan.Resource{Object: plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "settings"}, Chart: "shop", Annotations: annotations}, Fields: map[string]any{}}
	}
	api := func(annotations map[string]string) infer.Object {
		volumes := []any{map[string]any{"name": "v", "configMap": map[string]any{"name": "settings"}}}
		return infer.Object{Resource: plan.Resource{Object: plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}, Chart: "shop", Annotations: annotations},
			Fields: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": volumes, "containers": []any{
				map[string]any{"volumeMounts": []any{map[string]any{"name": "v"}}}}}}}}}
	}
	other := infer.Object{Resource: plan.Resource{Object: plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "other"}, Chart: "shop", Annotations: group("other")}, Fields: map[string]any{}}
	tests := []struct {
		name           string
		objects        []infer.Object
		severity, says string
	}{
		{"no declared order", []infer.Object{settings(nil), api(nil)}, "", ""},
		{"the same order", []infer.Object{settings(group("config")), api(group("api", "config"))}, "", ""},
		{"an indirect dependency", []infer.Object{settings(group("config")), api(group("api", "other")), {Resource: plan.Resource{Object: other.Object, Chart: "shop", Annotations: group("other", "config")}}}, "", ""},
		{"the opposite order", []infer.Object{settings(group("late", "api")), api(group("api"))}, plan.SeverityError,
			"shop: api waits for nothing, but Deployment/api needs ConfigMap/settings in group late, which comes after it: spec.template.spec.volumes[0].configMap.name names ConfigMap/settings"},
		{"an object without a group", []infer.Object{settings(nil), api(group("api", "other")), other}, plan.SeverityError,
			"shop: api waits for other, but Deployment/api needs ConfigMap/settings in the unsequenced group, which comes after it"},
		{"groups without an order", []infer.Object{settings(group("late", "other")), api(group("api", "first")), other,
			{Resource: plan.Resource{Object: plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "first"}, Chart: "shop", Annotations: group("first")}}}, plan.SeverityWarning,
			"ConfigMap/settings in group late, which is not ordered before it"},
		{"groups that start together", []infer.Object{settings(group("late", "other")), api(group("api", "other")), other}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tree := &plan.Chart{Path: "shop"}
			var resources []plan.Resource
			for _, o := range test.objects {
				resources = append(resources, o.Resource)
			}
			p, err := plan.Build(tree, resources)
			if err != nil {
				t.Fatal(err)
			}
			found := infer.From("t", tree, test.objects).Contradictions(p)
			if test.says == "" {
				if len(found) > 0 {
					t.Errorf("found %v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Severity != test.severity || found[0].Rule != "R70" || !strings.Contains(found[0].Message, test.says) {
				t.Errorf("found %+v, want %s: %s", found, test.severity, test.says)
			}
		})
	}
}

func group(name string, after ...string) map[string]string {
	m := map[string]string{plan.AnnotationGroup: name}
	if len(after) > 0 {
		m[plan.AnnotationGroupDependsOn] = `["` + strings.Join(after, `","`) + `"]`
	}
	return m
}
