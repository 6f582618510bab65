package parallel

import "testing"

// TestEach: f is called once for each number.
func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, minCalls - 1, 2 * minCalls, 2*minCalls + 1, 1009} {
		calls := make([]int, n)
		Each(n, func(i int) { calls[i]++ })
		for i, c := range calls {
			if c != 1 {
				t.Errorf("n=%d: f(%d) was called %d times", n, i, c)
			}
		}
	}
}
