package session

import (
	"strings"
	"testing"

	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

func TestDigestOfAPlan(t *testing.T) {
	prepared := func(change func(*Prepared)) string {
		p := &Prepared{
			Common: Common{Release: "shop", Namespace: "prod"},
			Info:   event.Operation{Name: "upgrade", Chart: "shop-1.0.0", Revision: 3},
			Target: Target{Release: &rel1.Release{Manifest: "kind: Secret\ndata: {p: aHVudGVyMg==}\n", Hooks: []*rel1.Hook{{Manifest: "kind: Job"}}}},
			Phases: []event.Phase{{Name: "apply", Groups: []*plan.Group{{ID: "shop:a"}, {ID: "shop:b", After: []string{"shop:a"}}}}},
			Basis:  Basis{Last: &rel1.Release{Version: 2}},
		}
		change(p)
		digest, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	same := prepared(func(*Prepared) {})
	if again := prepared(func(p *Prepared) { p.Info.Context, p.Target.Release.Info = "elsewhere", &rel1.Info{Description: "now"} }); again != same {
		t.Errorf("the digest depends on where the plan is made: %s, %s", same, again)
	}
	if !strings.HasPrefix(same, "scrypt:") {
		t.Errorf("%s is not a slow digest: it covers secret values", same)
	}
	for name, change := range map[string]func(*Prepared){
		"manifest":  func(p *Prepared) { p.Target.Release.Manifest += "\n" },
		"hook":      func(p *Prepared) { p.Target.Release.Hooks[0].Manifest = "kind: Pod" },
		"order":     func(p *Prepared) { p.Phases[0].Groups[1].After = nil },
		"revision":  func(p *Prepared) { p.Last.Version++ },
		"operation": func(p *Prepared) { p.Info.Name = "rollback" },
		"release":   func(p *Prepared) { p.Common.Release = "shop2" },
		"namespace": func(p *Prepared) { p.Common.Namespace = "test" },
		"method":    func(p *Prepared) { p.Target.Force = true },
		"removals":  func(p *Prepared) { p.Old.Release = &rel1.Release{Manifest: "kind: ConfigMap"} },
	} {
		if prepared(change) == same {
			t.Errorf("another %s has the same digest", name)
		}
	}
}
