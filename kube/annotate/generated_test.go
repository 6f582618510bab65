package annotate

import (
	"testing"
)

// TestGeneratedOnce: renderings share keys and hashes, and calls within one rendering do not.
func TestGeneratedOnce(t *testing.T) {
	var g generated
	hashes := func(passwords ...string) (out []string) {
		hash := g.funcs()["bcrypt"].(func(string) string)
		for _, p := range passwords {
			out = append(out, hash(p))
		}
		return out
	}
	first, second := hashes("a", "a", "b"), hashes("a", "a", "b", "c")
	for i, hash := range first {
		if second[i] != hash {
			t.Errorf("call %d: %s in the second rendering, want %s", i, second[i], hash)
		}
	}
	seen := map[string]bool{}
	for _, hash := range second {
		if seen[hash] {
			t.Errorf("%s twice in one rendering", hash)
		}
		seen[hash] = true
	}
}
