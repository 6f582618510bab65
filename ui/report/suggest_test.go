package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"lockstep/engine/infer"
	"lockstep/engine/plan"
	"lockstep/ui/golden"
)

// suggestion returns a small plan and the inferred order behind it.
func suggestion() (*plan.Plan, *infer.Order) {
	object := func(kind, name string) plan.Object { return plan.Object{Kind: kind, Namespace: "ns", Name: name} }
	p := &plan.Plan{Groups: []*plan.Group{
		{ID: "shop:db", Chart: "shop", Name: "db", After: []string{}, Objects: []plan.Object{object("Service", "db"), object("StatefulSet", "db")}},
		{ID: "shop:web", Chart: "shop", Name: "web", Layer: 1, After: []string{"shop:db"}, Objects: []plan.Object{object("ConfigMap", "web"), object("Deployment", "web")}},
	}}
	edge := func(from, to plan.Object, s infer.Strength, text string) infer.Edge {
		return infer.Edge{From: from, To: to, Strength: s, Reason: infer.Reason{In: from, Path: "spec.x", Value: "db", Text: text}}
	}
	return p, &infer.Order{Edges: []infer.Edge{
		edge(object("Deployment", "web"), object("ConfigMap", "web"), infer.Hard, "spec.x names ConfigMap/web"),
		edge(object("Deployment", "web"), object("Service", "db"), infer.Soft, "four"),
		edge(object("Deployment", "web"), object("StatefulSet", "db"), infer.Serving, "env DATABASE_HOST names \x1b[31mService/db"),
		edge(object("ConfigMap", "web"), object("Service", "db"), infer.Hard, "two"),
		edge(object("ConfigMap", "web"), object("StatefulSet", "db"), infer.Soft, "three"),
	}}
}

// TestSuggestion expects the plan with its reasons (R60): in text the strongest one between two groups,
// or all of them with All, and in JSON all.
func TestSuggestion(t *testing.T) {
	p, o := suggestion()
	for _, format := range DagFormats {
		var out bytes.Buffer
		if err := Suggestion(&out, "shop", Suggested{Plan: p, Order: o, NotInferred: [][2]string{{"shop:web", "shop:db"}}}, format, plain); err != nil {
			t.Fatal(err)
		}
		golden.CompareFile(t, "testdata/suggest."+format, out.String())
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s is not clean", format)
		}
	}
	var all bytes.Buffer
	if err := Suggestion(&all, "shop", Suggested{Plan: p, Order: o, All: true}, "text", plain); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/suggest.all", all.String())
	// Edges of the drawing without a reason between their objects.
	first := &plan.Group{ID: "shop/db:base", Chart: "shop/db", Name: "base"}
	kinds := &plan.Group{ID: "shop/db:crds", Chart: "shop/db", Name: "crds", Layer: 1, After: []string{"shop/db:base"}}
	rest := &plan.Group{ID: "shop/db:(unsequenced)", Chart: "shop/db", Name: plan.Unsequenced, Layer: 2, After: []string{"shop/db:base", "shop/db:crds"}}
	api := &plan.Group{ID: "shop/api:api", Chart: "shop/api", Name: "api", Layer: 3, After: []string{"shop/db:(unsequenced)"}, Why: map[string]string{"shop/db:(unsequenced)": "Deployment/api waits for Service/db: x"}}
	var indirect bytes.Buffer
	if err := Suggestion(&indirect, "shop", Suggested{Plan: &plan.Plan{Groups: []*plan.Group{first, kinds, rest, api}}, Order: &infer.Order{}}, "text", plain); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/suggest.indirect", indirect.String())
	var out bytes.Buffer
	if err := Suggestion(&out, "shop", Suggested{Plan: &plan.Plan{}, Order: &infer.Order{}}, "json", plain); err != nil || strings.Contains(out.String(), "null") || !json.Valid(out.Bytes()) {
		t.Error(err, out.String())
	}
}
