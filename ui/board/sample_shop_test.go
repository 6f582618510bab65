package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// shop is the plan of testdata/charts/shop.
var shop = []string{
	"shop/cache:(unsequenced) | ConfigMap/shop-cache Service/shop-cache Deployment/shop-cache |",
	"shop/db:config | Secret/shop-db ConfigMap/shop-db |",
	"shop/queue:broker | Service/shop-queue StatefulSet/shop-queue |",
	"shop/queue:crds | CustomResourceDefinition/topics.queue.shop.example |",
	"shop/db:database | Service/shop-db StatefulSet/shop-db | shop/db:config",
	"shop/queue:topics | Topic/shop-orders Topic/shop-shipments | shop/queue:broker shop/queue:crds",
	"shop/db:schema | ConfigMap/shop-db-migrations Job/shop-db-migrate-1-0-0 | shop/db:database",
	"shop/api:config | ConfigMap/shop-api | shop/db:schema shop/cache:(unsequenced) shop/queue:topics",
	"shop/worker:(unsequenced) | ConfigMap/shop-worker Deployment/shop-worker | shop/db:schema shop/queue:topics",
	"shop/api:server | ServiceAccount/shop-api Service/shop-api Deployment/shop-api | shop/api:config",
	"shop/web:(unsequenced) | ConfigMap/shop-web Service/shop-web Deployment/shop-web | shop/api:server",
	"shop:gateway | Service/shop-gateway Deployment/shop-gateway | shop/web:(unsequenced) shop/worker:(unsequenced)",
	"shop:ingress | Ingress/shop | shop:gateway",
}

// groups parses lines "id | objects | ids of dependencies".
func groups(lines []string) []*plan.Group {
	var out []*plan.Group
	layer := map[string]int{}
	for _, l := range lines {
		f := strings.Split(l, "|")
		id := strings.TrimSpace(f[0])
		chart, name, _ := strings.Cut(id, ":")
		g := &plan.Group{ID: id, Chart: chart, Name: name, After: append([]string{}, strings.Fields(f[2])...)}
		for _, a := range g.After {
			layer[id] = max(layer[id], layer[a]+1)
		}
		g.Layer = layer[id]
		for o := range strings.FieldsSeq(f[1]) {
			kind, name, _ := strings.Cut(o, "/")
			g.Objects = append(g.Objects, plan.Object{Kind: kind, Namespace: "shop", Name: name})
			g.Waves = append(g.Waves, plan.Wave{Count: 1})
		}
		out = append(out, g)
	}
	return out
}

// reversed returns the removal of groups.
func reversed(all []*plan.Group) []*plan.Group {
	var out []*plan.Group
	for _, g := range slices.Backward(all) {
		r := *g
		r.After = []string{}
		for _, other := range all {
			if slices.Contains(other.After, g.ID) {
				r.After = append(r.After, other.ID)
			}
		}
		r.Objects = slices.Clone(g.Objects)
		slices.Reverse(r.Objects)
		r.Waves = []plan.Wave{{Count: len(r.Objects)}}
		out = append(out, &r)
	}
	return out
}

// phases returns the phases of the shop's installation.
func phases() []event.Phase {
	one := func(id, object string) []*plan.Group {
		return groups([]string{id + " | " + object + " |"})
	}
	return []event.Phase{
		{Name: "namespace", Kind: event.PhaseNamespace, Groups: one("namespace", "Namespace/shop")},
		{Name: "pre-install", Kind: event.PhaseHooks, Groups: one("pre-install:Job/shop-preflight", "Job/shop-preflight")},
		{Name: "apply", Kind: event.PhaseApply, Groups: groups(shop)},
		{Name: "post-install", Kind: event.PhaseHooks, Groups: one("post-install:Job/shop-smoke-test", "Job/shop-smoke-test")},
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Script returns how the shop's objects behave.
func Script() map[string]Behaviour {
	workload := func(s float64, replicas int) Behaviour {
		b := Behaviour{ready: seconds(s), gone: seconds(1)}
		for i := range replicas {
			b.says = append(b.says, fmt.Sprintf("%d of %d available", i, replicas))
		}
		return b
	}
	return map[string]Behaviour{
		"Job/shop-preflight":                                 {ready: seconds(1.4), says: []string{"pod shop-preflight-x9v2p is running"}},
		"StatefulSet/shop-db":                                workload(4.2, 3),
		"StatefulSet/shop-queue":                             workload(2.6, 2),
		"Deployment/shop-cache":                              workload(1.8, 1),
		"Job/shop-db-migrate-1-0-0":                          {ready: seconds(6), says: []string{"pod shop-db-migrate-1-0-0-7x2kq is pending", "0 of 1 completed", "0 of 1 completed"}},
		"Deployment/shop-api":                                workload(3.4, 3),
		"Deployment/shop-worker":                             workload(2.2, 2),
		"Deployment/shop-web":                                workload(2.4, 2),
		"Deployment/shop-gateway":                            workload(1.6, 2),
		"Topic/shop-orders":                                  {ready: seconds(0.8), says: []string{"condition Ready is False: creating partitions"}},
		"Topic/shop-shipments":                               {ready: seconds(1.1), says: []string{"condition Ready is False: creating partitions"}},
		"Job/shop-smoke-test":                                {ready: seconds(1.2), says: []string{"pod shop-smoke-test-k2m8d is running"}},
		"CustomResourceDefinition/topics.queue.shop.example": {ready: seconds(0.3), says: []string{"not yet Established"}},
	}
}

// Broken is the shop with a migration that fails a number of times.
func Broken(tries int) map[string]Behaviour {
	s := Script()
	b := s["Job/shop-db-migrate-1-0-0"]
	b.fails, b.tries = "BackoffLimitExceeded: Job has reached the specified backoff limit", tries
	s["Job/shop-db-migrate-1-0-0"] = b
	return s
}

// diagnose says why the migration failed; it knows nothing about other objects.
func diagnose(_ context.Context, o plan.Object) run.Finding {
	if o.Name != "shop-db-migrate-1-0-0" {
		return run.Finding{}
	}
	return run.Finding{
		Cause:    `container migrate exited with code 2: FATAL: relation "orders" does not exist`,
		Evidence: []string{`FATAL: relation "orders" does not exist`, "BackoffLimitExceeded: Job has reached the specified backoff limit"},
		Details: event.Details{
			Source:     event.Source{Pod: "shop-db-migrate-1-0-0-7x2kq", Container: "migrate"},
			ExitCode:   new(2),
			Conditions: []string{"Failed is True: BackoffLimitExceeded: Job has reached the specified backoff limit"},
			Pods:       []event.FailingPod{{Name: "shop-db-migrate-1-0-0-7x2kq", Why: "container migrate exited with code 2"}},
			Log:        []string{"applying 0042_add_index …", "FATAL: relation \"orders\" does not exist"},
		},
	}
}
