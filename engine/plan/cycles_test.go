package plan

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMissingGroupsAndCycles compares random groups with the rules: a group that reaches a missing
// group is unsequenced; it is an error if one of the others reaches itself.
func TestMissingGroupsAndCycles(t *testing.T) { // R8, R13
	var refused, brokenCycles int
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 2))
		graph := map[string][]string{}
		var resources []Resource
		for _, name := range names[:1+random.IntN(len(names)-1)] { // never "no"
			for range random.IntN(3) {
				graph[name] = append(graph[name], names[random.IntN(len(names))])
			}
			value, _ := json.Marshal(append([]string{}, graph[name]...))
			resources = append(resources, res("shop", "ConfigMap/"+name, in, name, needs, string(value)))
		}
		reaches := func(from string, met func(string) bool) bool {
			seen, queue := map[string]bool{}, slices.Clone(graph[from])
			for len(queue) > 0 {
				at := queue[0]
				queue = queue[1:]
				if met(at) {
					return true
				}
				if !seen[at] {
					seen[at] = true
					queue = append(queue, graph[at]...)
				}
			}
			return false
		}
		missing := func(name string) bool {
			return !slices.ContainsFunc(resources, func(r Resource) bool { return r.Object.Name == name })
		}
		cyclic, demotedCycle := false, false
		demoted := map[string]bool{}
		for _, r := range resources {
			name := r.Object.Name
			demoted[name] = reaches(name, missing)
			inCycle := reaches(name, func(at string) bool { return at == name })
			cyclic = cyclic || inCycle && !demoted[name]
			demotedCycle = demotedCycle || inCycle && demoted[name]
		}
		plan, err := Build(chart("shop"), resources)
		var wrong *Error
		if cyclic != (errors.As(err, &wrong) && wrong.Rule == "R13") || cyclic != (plan == nil) {
			t.Fatalf("seed %d: %v: cycle %v, got %v", seed, graph, cyclic, err)
		}
		if cyclic {
			refused++
			continue
		}
		if demotedCycle {
			brokenCycles++
		}
		for _, g := range plan.Groups {
			if demoted[g.Name] {
				t.Fatalf("seed %d: %v: group %s is not unsequenced", seed, graph, g.Name)
			}
		}
		for name := range demoted {
			warned := slices.ContainsFunc(plan.Warnings, func(w Warning) bool {
				return w.Rule == "R8" && strings.Contains(w.Message, `group "`+name+`" waits`)
			})
			if warned != demoted[name] {
				t.Fatalf("seed %d: %v: the warnings about group %s are %v", seed, graph, name, plan.Warnings)
			}
		}
	}
	if refused < 100 || brokenCycles < 100 {
		t.Errorf("only %d inputs with an error and %d with a cycle that a missing group breaks", refused, brokenCycles)
	}
}
