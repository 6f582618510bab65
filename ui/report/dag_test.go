package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/golden"
)

func dagPlan() *plan.Plan {
	groups := readPlan(append(shop,
		"shop/many:(unsequenced): Deployment/a-deployment-with-a-name, Deployment/another-deployment, ConfigMap/settings-of-many-things, Secret/s",
		`shop:say "hi" <b> < shop/api:(unsequenced), shop/many:(unsequenced): Ingress/shop`)...)
	secret := plan.Object{Kind: "Secret", Namespace: "infra", Name: "db-tls"}
	groups[0].WaitFor = []plan.Object{secret, {Group: "cert-manager.io", Kind: "Certificate", Name: "ca"}}
	groups[len(groups)-1].WaitFor = []plan.Object{secret}
	return &plan.Plan{Groups: groups, Warnings: []plan.Warning{{Rule: "R9", Chart: "shop", Message: "shop: alone"}}}
}

// TestDag draws a plan in every format (R36).
func TestDag(t *testing.T) {
	for _, format := range DagFormats {
		var out bytes.Buffer
		if err := Dag(&out, "shop", dagPlan(), format, plain); err != nil {
			t.Fatal(err)
		}
		golden.CompareFile(t, "testdata/dag."+format, out.String())
		for _, l := range strings.Split(out.String(), "\n") {
			if format == "text" && ansi.StringWidth(l) > dagWidth {
				t.Errorf("line of %d characters: %s", ansi.StringWidth(l), l)
			}
		}
	}
	if err := Dag(&bytes.Buffer{}, "shop", dagPlan(), "png", plain); err == nil {
		t.Error("no error for an unknown format")
	}
}

func TestDagJSONHasNoNull(t *testing.T) {
	for _, p := range []*plan.Plan{{}, {Groups: []*plan.Group{{ID: "a:b"}}}} {
		var out bytes.Buffer
		if err := Dag(&out, "a", p, "json", plain); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "null") || !json.Valid(out.Bytes()) {
			t.Errorf("JSON %s", out.String())
		}
	}
}

// TestGroupsOmitIndirectEdges expects that the text of a release, like that of dag, omits edges that follow from others.
func TestGroupsOmitIndirectEdges(t *testing.T) {
	s := &event.State{}
	groups := []*plan.Group{{ID: "a:1"}, {ID: "a:2", After: []string{"a:1"}}, {ID: "a:3", After: []string{"a:2"}}, {ID: "a:4", After: []string{"a:1", "a:3"}}}
	s.Apply(event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: groups}}})
	if text := formatGroups(Groups(s, nil), plain); !strings.Contains(text, "a:4 0/0  after a:3\n") {
		t.Errorf("groups:\n%s", text)
	}
}
