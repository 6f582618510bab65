package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPlanProperties(t *testing.T) { // R7, R10, R11, R14, R17, R31
	planned := 0
	const runs = 3000
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 0))
		root, resources := makeInput(random)
		if checkInput(t, root, resources, random.Shuffle) {
			planned++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if planned < runs/3 {
		t.Errorf("only %d of %d inputs had a plan", planned, runs)
	}
}

// TestPlansWithoutAnOrderAskForTheSame (R27, R33a, R42a): a plan without an order asks for the same approvals, has the same points of
// no return and waits in the same way for its objects as the ordered plan of the same charts: --wait and a revision by Helm change
// the order, and nothing else.
func TestPlansWithoutAnOrderAskForTheSame(t *testing.T) {
	asked := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 2))
		root, resources := makeInput(random)
		say := func(of string) map[string]string {
			annotations := map[string]string{}
			for _, key := range []string{AnnotationApprove, AnnotationNoReturn} {
				if random.IntN(6) == 0 {
					annotations[key] = fmt.Sprintf("%s of %s", key, of)
				}
			}
			return annotations
		}
		var ask func(c *Chart)
		ask = func(c *Chart) {
			declared := NewChart(c.Path, say(c.Path))
			c.Approval, c.NoReturn = declared.Approval, declared.NoReturn
			for _, s := range c.Subcharts {
				if s.Chart != nil {
					ask(s.Chart)
				}
			}
		}
		ask(root)
		for i := range resources {
			maps.Copy(resources[i].Annotations, say(fmt.Sprint(i)))
			if random.IntN(6) == 0 {
				resources[i].Wait.Timeout = time.Duration(i) * time.Second
			}
		}
		ordered, err := Build(root, resources)
		if err != nil {
			continue
		}
		want, got := asks(ordered.Groups), asks(Flat(root, resources, root.Path).Groups)
		if asked += len(want); !slices.Equal(got, want) {
			t.Fatalf("seed %d: without an order\n  %s\nin order\n  %s", seed, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	if asked < 1000 {
		t.Errorf("only %d reasons and timeouts", asked)
	}
}

// asks returns what groups ask for, whichever group it is, sorted.
func asks(groups []*Group) (all []string) {
	for _, g := range groups {
		for _, a := range g.Approve {
			of := "chart " + a.Of
			if a.Of == g.ID {
				of = "group"
			}
			for reason := range strings.SplitSeq(a.Reason, "; ") {
				all = append(all, "approval of "+of+": "+reason)
			}
		}
		for reason := range strings.SplitSeq(g.NoReturn, "; ") {
			if reason != "" {
				all = append(all, "no return: "+reason)
			}
		}
		for _, w := range g.Waits {
			all = append(all, fmt.Sprintf("wait for %s: %+v", describe(w.Object), w.Wait))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func FuzzBuildPlan(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x03\x01\x00\x01\x02\x01\x01\x07\x00\x01\x02\x03\x04\x05\x06\x07"))
	f.Add([]byte("layers and subcharts, and a name that is nowhere"))
	for seed := range uint64(8) {
		data := make([]byte, 400)
		random := rand.New(rand.NewPCG(seed, 1))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := script(data)
		root, resources := makeInput(&s)
		checkInput(t, root, resources, rand.New(rand.NewPCG(1, uint64(len(data)))).Shuffle)
	})
}
