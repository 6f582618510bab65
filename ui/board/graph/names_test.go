package graph

import (
	"strings"
	"testing"

	"lockstep/engine/plan"
	"lockstep/ui/board/canvas"
)

// TestNames fits names into widths.
func TestNames(t *testing.T) {
	object := func(kind, name string) plan.Object { return plan.Object{Kind: kind, Name: name} }
	for _, c := range []struct {
		o    plan.Object
		w    int
		want string
	}{
		{object("ConfigMap", "shop-db-migrations"), 28, "ConfigMap/shop-db-migrations"},
		{object("ConfigMap", "shop-db-migrations"), 27, "cm/shop-db-migrations"},
		{object("ConfigMap", "shop-db-migrations"), 18, "cm/…db-migrations"},
		{object("ConfigMap", "shop-db-migrations"), 10, "cm/…ations"},
		{object("Deployment", "shop-api"), 11, "deploy/…api"},
		{object("Deployment", "shop-api"), 10, "deplo…-api"},
		{object("Gadget", "a-rather-long-name"), 18, "Gadget/a-rat…-name"},
		{object("ValidatingWebhookConfiguration", "x"), 12, "Valida…ion/x"},
		{object("Service", "日本語日本語"), 12, "svc/日本…語"},
	} {
		p := Graph{release: "shop"}
		if got := p.ObjectIn(c.o, c.w, "…"); got != c.want || canvas.Width(got) > c.w {
			t.Errorf("%s in %d is %q, want %q", c.o, c.w, got, c.want)
		}
	}
	for _, c := range []struct {
		name string
		w    int
		want string
	}{
		{"db:schema", 9, "db:schema"},
		{"worker:(unsequenced)", 20, "worker:(unsequenced)"},
		{"worker:(unsequenced)", 19, "worker:(unsequence…"},
		{"warehouse:database", 12, "wareho…abase"},
		{"queue:broker", 6, "queue…"},
		{"queue:broker", 1, "…"},
		{"queue:broker", 0, ""},
	} {
		if got := GroupIn(c.name, c.w, "…"); got != c.want {
			t.Errorf("%s in %d is %q, want %q", c.name, c.w, got, c.want)
		}
	}
	for w := range 40 { // nothing is ever wider than it may be
		for _, s := range []string{"", "日本語のメッセージ", "👩‍👩‍👧‍👦 family", "e\u0301\u0301\u0301", "🇩🇪🇫🇷", strings.Repeat("long ", 60), "Deployment/shop-api"} {
			p := Graph{release: "shop"}
			if got := p.ObjectIn(object("Deployment", canvas.Clean(s)), w, "…"); canvas.Width(got) > w {
				t.Errorf("%q in %d is %q", s, w, got)
			}
		}
	}
}
