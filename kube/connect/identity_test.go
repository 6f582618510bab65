package connect

import (
	"slices"
	"testing"
)

// TestClusterIDs covers which connections are to the same cluster (S10).
func TestClusterIDs(t *testing.T) {
	tests := map[string]struct {
		signs []Signs
		same  []int // the number of the cluster of each connection
		weak  []bool
	}{
		"two names":                    {[]Signs{{"1", "a"}, {"1", "a"}}, []int{0, 0}, []bool{false, false}},
		"two addresses":                {[]Signs{{"1", "a"}, {"1", "b"}}, []int{0, 0}, []bool{false, false}},
		"two clusters":                 {[]Signs{{"1", "a"}, {"2", "b"}}, []int{0, 1}, []bool{false, false}},
		"a new cluster at the address": {[]Signs{{"1", "a"}, {"2", "a"}}, []int{0, 1}, []bool{false, false}},
		"a user without the right":     {[]Signs{{"", "a"}, {"1", "a"}, {"2", "b"}}, []int{0, 0, 1}, []bool{false, false, false}},
		"nobody has the right":         {[]Signs{{"", "a"}, {"", "a"}, {"", "b"}}, []int{0, 0, 1}, []bool{true, true, true}},
		"another address":              {[]Signs{{"1", "a"}, {"", "b"}}, []int{0, 1}, []bool{false, true}},
	}
	for name, tt := range tests {
		ids, weak := ClusterIDs(tt.signs...)
		for i := range ids {
			for j := range ids {
				if (ids[i] == ids[j]) != (tt.same[i] == tt.same[j]) {
					t.Errorf("%s: connections %d and %d are the same cluster: %t", name, i, j, ids[i] == ids[j])
				}
			}
		}
		if !slices.Equal(weak, tt.weak) {
			t.Errorf("%s: weak %v", name, weak)
		}
	}
}
