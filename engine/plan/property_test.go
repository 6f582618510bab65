package plan

import (
	"math/rand/v2"
	"testing"
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
