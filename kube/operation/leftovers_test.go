package operation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
	"lockstep/kube/release"
)

// life is a release, its history and what the cluster has of it: a manifest is the
// names of its objects.
type life struct {
	r       *rand.Rand
	history []*rel1.Release
	cluster map[string]bool
}

func (l *life) revisions() *release.Revisions {
	revs := &release.Revisions{All: l.history, Last: l.history[len(l.history)-1]}
	revs.Current = revs.Last
	for _, rel := range slices.Backward(l.history) {
		if rel.Info.Status == rcommon.StatusDeployed {
			revs.Current = rel
			break
		}
	}
	return revs
}

// names are the objects of a manifest.
func names(text string) (resources []plan.Resource) {
	for _, name := range strings.Fields(text) {
		resources = append(resources, plan.Resource{Object: plan.Object{Kind: "ConfigMap", Name: name}})
	}
	return resources
}

// goes is what lockstep removes on the way from the old revision to the target.
func (l *life) goes(target string, revs *release.Revisions, old *rel1.Release) (out []string) {
	known := map[plan.Object]bool{}
	orphans(known, names(target))
	for _, rel := range append([]*rel1.Release{old}, revs.Others(old)...) {
		for o := range orphans(known, names(rel.Manifest)) {
			out = append(out, o.Name)
		}
	}
	return out
}

// bring makes a revision of a target. It is cut off before it has removed anything where
// it does not come to its end; Helm knows what goes of one revision alone.
func (l *life) bring(target string, helm, rollback, cut bool) {
	var goes []string
	if len(l.history) > 0 {
		revs := l.revisions()
		old := revs.Current
		if rollback {
			old = revs.Last
		}
		if goes = l.goes(target, revs, old); helm {
			goes = slices.DeleteFunc(strings.Fields(old.Manifest), func(name string) bool { return slices.Contains(strings.Fields(target), name) })
		}
	}
	rel := &rel1.Release{Version: len(l.history) + 1, Manifest: target, Info: &rel1.Info{Status: rcommon.StatusFailed}}
	for _, name := range strings.Fields(target) {
		if cut && l.r.IntN(2) == 0 {
			break
		}
		l.cluster[name] = true
	}
	if !cut {
		for _, name := range goes {
			delete(l.cluster, name)
		}
		for _, before := range l.history {
			if before.Info.Status == rcommon.StatusDeployed {
				before.Info.Status = rcommon.StatusSuperseded
			}
		}
		rel.Info.Status = rcommon.StatusDeployed
	}
	l.history = append(l.history, rel)
}

// TestNothingIsOrphaned lives lives at random, of upgrades and rollbacks by lockstep and
// by Helm, many of which are cut off: whenever lockstep comes to the end of one, the
// cluster has the objects of its target and no others (R32a).
func TestNothingIsOrphaned(t *testing.T) {
	for seed := range uint64(2000) {
		l := &life{r: rand.New(rand.NewPCG(seed, 20)), cluster: map[string]bool{}}
		var known []string
		for range 3 + l.r.IntN(8) {
			var objects []string
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				if l.r.IntN(3) == 0 {
					objects = append(objects, name)
				}
			}
			target := strings.Join(objects, " ")
			helm, cut, rollback := l.r.IntN(2) == 0, l.r.IntN(2) == 0, len(l.history) > 0 && l.r.IntN(3) == 0
			if rollback {
				target = l.history[l.r.IntN(len(l.history))].Manifest
			}
			l.bring(target, helm, rollback, cut)
			known = append(known, fmt.Sprintf("%q helm %t rollback %t cut %t", target, helm, rollback, cut))
			if got := slices.Sorted(maps.Keys(l.cluster)); !helm && !cut && !slices.Equal(got, strings.Fields(target)) {
				t.Fatalf("seed %d: after\n%s\nthe cluster has %v", seed, strings.Join(known, "\n"), got)
			}
		}
	}
}
