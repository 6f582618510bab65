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

// simulation is a release with its history and its objects in the cluster. A manifest is a
// list of object names.
type simulation struct {
	r       *rand.Rand
	history []*rel1.Release
	cluster map[string]bool
	// orphans are the objects that Helm left when it deployed: it removes only those of the revision before, which may have failed.
	orphans map[string]bool
}

func (s *simulation) revisions() *release.Revisions {
	revs := &release.Revisions{All: s.history, Last: s.history[len(s.history)-1]}
	revs.Current = revs.Last
	for _, rel := range slices.Backward(s.history) {
		if rel.Info.Status == rcommon.StatusDeployed {
			revs.Current = rel
			break
		}
	}
	return revs
}

// objectsIn returns the objects of a manifest.
func objectsIn(text string) (resources []plan.Resource) {
	for name := range strings.FieldsSeq(text) {
		resources = append(resources, plan.Resource{Object: plan.Object{Kind: "ConfigMap", Name: name}})
	}
	return resources
}

// removed returns the objects that lockstep removes when the target replaces the old revision.
func (s *simulation) removed(target string, revs *release.Revisions, old *rel1.Release) (out []string) {
	known := map[plan.Object]bool{}
	addUnknown(known, objectsIn(target))
	for _, rel := range append([]*rel1.Release{old}, revs.Others(old)...) {
		for o := range addUnknown(known, objectsIn(rel.Manifest)) {
			out = append(out, o.Name)
		}
	}
	return out
}

// deploy adds a revision with the target's objects. An interrupted one creates only some of
// them and removes nothing. Helm removes only objects of the old revision.
func (s *simulation) deploy(target string, helm, rollback, interrupted bool) {
	var removed []string
	if len(s.history) > 0 {
		revs := s.revisions()
		old := revs.Current
		if rollback {
			old = revs.Last
		}
		removed = s.removed(target, revs, old)
		if helm {
			removed = slices.DeleteFunc(strings.Fields(old.Manifest), func(name string) bool { return slices.Contains(strings.Fields(target), name) })
		}
	}
	rel := &rel1.Release{Version: len(s.history) + 1, Manifest: target, Info: &rel1.Info{Status: rcommon.StatusFailed}}
	for name := range strings.FieldsSeq(target) {
		if interrupted && s.r.IntN(2) == 0 {
			break
		}
		s.cluster[name] = true
	}
	if !interrupted {
		for _, name := range removed {
			delete(s.cluster, name)
		}
		for _, before := range s.history {
			if before.Info.Status == rcommon.StatusDeployed {
				before.Info.Status = rcommon.StatusSuperseded
			}
		}
		rel.Info.Status = rcommon.StatusDeployed
		for name := range s.cluster {
			if helm && !slices.Contains(strings.Fields(target), name) {
				s.orphans[name] = true
			}
		}
	}
	s.history = append(s.history, rel)
}

// TestNoOrphans simulates random upgrades and rollbacks by lockstep and by Helm, about half of them interrupted. After each
// one that lockstep completes, the cluster has exactly the objects of its target, and at most those that Helm has left (R32a).
func TestNoOrphans(t *testing.T) {
	for seed := range uint64(2000) {
		s := &simulation{r: rand.New(rand.NewPCG(seed, 20)), cluster: map[string]bool{}, orphans: map[string]bool{}}
		var steps []string
		for range 3 + s.r.IntN(8) {
			var objects []string
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				if s.r.IntN(3) == 0 {
					objects = append(objects, name)
				}
			}
			target := strings.Join(objects, " ")
			helm, interrupted, rollback := s.r.IntN(2) == 0, s.r.IntN(2) == 0, len(s.history) > 0 && s.r.IntN(3) == 0
			if rollback {
				target = s.history[s.r.IntN(len(s.history))].Manifest
			}
			s.deploy(target, helm, rollback, interrupted)
			steps = append(steps, fmt.Sprintf("%q helm %t rollback %t interrupted %t", target, helm, rollback, interrupted))
			got := slices.DeleteFunc(slices.Sorted(maps.Keys(s.cluster)), func(name string) bool { return s.orphans[name] && !slices.Contains(strings.Fields(target), name) })
			if !helm && !interrupted && !slices.Equal(got, strings.Fields(target)) {
				t.Fatalf("seed %d: after\n%s\nthe cluster has %v", seed, strings.Join(steps, "\n"), got)
			}
		}
	}
}
