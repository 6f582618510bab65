package plan

import (
	"math/rand/v2"
	"testing"
)

// TestAwaitedJobsMustComplete: in any plan a Job must complete if another group waits for it, in its chart, in another chart,
// or by layer. --wait-for-jobs makes all Jobs complete or, with =false, only those of layers (R18, R22).
func TestAwaitedJobsMustComplete(t *testing.T) {
	seen := map[bool]int{}
	for seed := range uint64(1500) {
		root, resources := makeInput(rand.New(rand.NewPCG(seed, 0)))
		p, err := Build(root, resources)
		if err != nil {
			continue
		}
		layered := map[string]bool{}
		for _, r := range resources {
			if name, ok := Annotation(r.Annotations, AnnotationLayer); ok {
				layered[groupID(r.Chart, name)] = true
			}
		}
		awaited := p.Dependencies()
		check := func(jobs Jobs, want func(*Group) bool) {
			for _, g := range p.Groups {
				if got := g.JobsComplete; g.HasJobs() && !g.layered && got != want(g) {
					t.Fatalf("seed %d, --wait-for-jobs=%q: %s awaited %v, must complete %v", seed, jobs, g.ID, awaited[g.ID], got)
				}
				if g.layered && !g.JobsComplete {
					t.Fatalf("seed %d, --wait-for-jobs=%q: layer %s", seed, jobs, g.ID)
				}
				seen[g.HasJobs() && awaited[g.ID]]++
			}
		}
		check(AwaitedJobs, func(g *Group) bool { return awaited[g.ID] })
		AllJobs.Complete(p.Groups)
		check(AllJobs, func(*Group) bool { return true })
		StartedJobs.Complete(p.Groups)
		check(StartedJobs, func(*Group) bool { return false })
	}
	if seen[true] < 100 {
		t.Errorf("only %d groups with awaited Jobs", seen[true])
	}
}

// TestOtherStrategiesAwaitNoJobs: without an order nothing waits for a Job, and a CronJob is not one (R22, R27).
func TestOtherStrategiesAwaitNoJobs(t *testing.T) {
	flat := Flat(nil, []Resource{res("shop", "Job/a", in, "a"), res("shop", "ConfigMap/b", in, "b", needs, `["a"]`)}, "shop")
	AwaitedJobs.Complete(flat.Groups)
	if flat.Groups[0].JobsComplete {
		t.Error("a Job must complete although nothing waits for it")
	}
	if AllJobs.Complete(flat.Groups); !flat.Groups[0].JobsComplete {
		t.Error("--wait-for-jobs has no effect")
	}
	p, err := Build(nil, []Resource{res("shop", "CronJob/a", in, "a"), res("shop", "ConfigMap/b", in, "b", needs, `["a"]`)})
	if err != nil || p.Groups[0].JobsComplete {
		t.Errorf("a CronJob must complete: %v", err)
	}
}
