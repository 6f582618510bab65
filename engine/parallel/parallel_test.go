package parallel

import "testing"

// Each number comes once, however many there are.
func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, worthSharing - 1, 2 * worthSharing, 2*worthSharing + 1, 1009} {
		calls := make([]int, n)
		Each(n, func(i int) { calls[i]++ })
		for i, c := range calls {
			if c != 1 {
				t.Errorf("of %d: %d comes %d times", n, i, c)
			}
		}
	}
}
