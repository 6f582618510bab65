package infer_test

import (
	"strings"
	"testing"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
)

// TestContradictions expects the places where the written order contradicts the
// references of objects (R70).
func TestContradictions(t *testing.T) {
	settings := func(annotations map[string]string) infer.Object {
		return infer.Object{Resource: plan.Resource{Object: plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "settings"}, Chart: "shop", Annotations: annotations}, Fields: map[string]any{}}
	}
	api := func(annotations map[string]string) infer.Object {
		volumes := []any{map[string]any{"name": "v", "configMap": map[string]any{"name": "settings"}}}
		return infer.Object{Resource: plan.Resource{Object: plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "api"}, Chart: "shop", Annotations: annotations},
			Fields: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": volumes}}}}}
	}
	other := infer.Object{Resource: plan.Resource{Object: plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "other"}, Chart: "shop", Annotations: group("other")}, Fields: map[string]any{}}
	tests := []struct {
		name           string
		objects        []infer.Object
		severity, says string
	}{
		{"nothing is written", []infer.Object{settings(nil), api(nil)}, "", ""},
		{"as it should be", []infer.Object{settings(group("config")), api(group("api", "config"))}, "", ""},
		{"by way of another", []infer.Object{settings(group("config")), api(group("api", "other")), {Resource: plan.Resource{Object: other.Object, Chart: "shop", Annotations: group("other", "config")}}}, "", ""},
		{"the other way round", []infer.Object{settings(group("late", "api")), api(group("api"))}, plan.SeverityError,
			"shop: api waits for nothing, but Deployment/api needs ConfigMap/settings of group late, which comes after it: spec.template.spec.volumes[0].configMap.name names ConfigMap/settings"},
		{"what is named has no group", []infer.Object{settings(nil), api(group("api", "other")), other}, plan.SeverityError,
			"shop: api waits for other, but Deployment/api needs ConfigMap/settings of no group, which comes after it"},
		{"what is named is on the way elsewhere", []infer.Object{settings(group("late", "other")), api(group("api", "first")), other,
			{Resource: plan.Resource{Object: plan.Object{Kind: "ConfigMap", Namespace: "n", Name: "first"}, Chart: "shop", Annotations: group("first")}}}, plan.SeverityWarning,
			"ConfigMap/settings of group late, which is not ordered before it"},
		{"they start together, and are applied by kind", []infer.Object{settings(group("late", "other")), api(group("api", "other")), other}, "", ""},
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
