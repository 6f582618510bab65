package plan_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"lockstep/engine/plan"
)

// TestInferredAnnotations: resources are planned as if they had the inferred annotations, but their
// own take precedence (R60). This also holds for a tree from a release record.
func TestInferredAnnotations(t *testing.T) {
	object := func(name string) plan.Object { return plan.Object{Kind: "ConfigMap", Namespace: "n", Name: name} }
	resources := []plan.Resource{
		{Object: object("db"), Chart: "shop"},
		{Object: object("web"), Chart: "shop", Annotations: map[string]string{"note": "kept"}},
		{Object: object("said"), Annotations: map[string]string{plan.AnnotationGroup: "own", plan.StoredKey(plan.AnnotationGroupDependsOn): `["web"]`}},
		{Object: object("db"), Chart: "shop/sub"},
	}
	tree := &plan.Chart{Path: "shop", Inferred: []plan.Inferred{
		{Chart: "shop", Annotations: map[string]string{plan.AnnotationGroup: "db"}, Objects: []plan.Object{object("db"), object("said")}},
		{Chart: "shop", Annotations: map[string]string{plan.AnnotationGroup: "web", plan.AnnotationGroupDependsOn: `["db"]`}, Objects: []plan.Object{object("web"), object("said")}},
	}}
	resources[3].Object.Name = "other"
	record, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var back plan.Chart
	if err := json.Unmarshal(record, &back); err != nil {
		t.Fatal(err)
	}
	for _, tree := range []*plan.Chart{tree, &back} {
		p, err := plan.Build(tree, resources)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, g := range p.Groups {
			got[g.ID] = g.After
		}
		want := map[string][]string{"shop:db": {}, "shop:web": {"shop:db"}, "shop:own": {"shop:web"}, "shop/sub:(unsequenced)": {}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("groups %v, want %v", got, want)
		}
	}
	if len(resources[0].Annotations) > 0 || len(resources[1].Annotations) != 1 {
		t.Errorf("Annotate modified the resources: %v", resources)
	}
}
