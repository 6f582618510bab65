package plan

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// many makes resources in groups of ten. Each group waits for up to three others.
func many(resources int) []Resource {
	random := rand.New(rand.NewPCG(1, 2))
	groups := resources / 10
	all := make([]Resource, resources)
	for i := range all {
		g := i % groups
		var dependencies []string
		for range min(g, 3) {
			dependencies = append(dependencies, strconv.Quote(fmt.Sprintf("group-%d", random.IntN(g))))
		}
		all[i] = res("shop", fmt.Sprintf("%s/default/object-%d", kinds[i%4], i),
			in, fmt.Sprintf("group-%d", g), needs, "["+strings.Join(dependencies, ",")+"]")
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// sizes are the numbers of objects in the benchmarks.
var sizes = []int{1_000, 10_000, 100_000}

// BenchmarkPlan measures Build.
func BenchmarkPlan(b *testing.B) {
	for _, n := range sizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			resources := many(n)
			root := chart("shop")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Build(root, resources); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReduce measures Reduce on the same plans.
func BenchmarkReduce(b *testing.B) {
	for _, n := range sizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			plan, err := Build(chart("shop"), many(n))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				Reduce(plan.Groups)
			}
		})
	}
}
