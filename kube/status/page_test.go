package status

import (
	"strings"
	"testing"
)

// TestKindRules expects that the lists for the help page name each kind, its expressions, its notes and its source (R22).
func TestKindRules(t *testing.T) {
	builtIn, custom := KindRules()
	for _, r := range builtInRules {
		if !strings.Contains(builtIn, "- `"+r.kind+"`: "+r.text) {
			t.Errorf("the list lacks %s", r.kind)
		}
	}
	for _, k := range knownKinds {
		parts := append([]string{k.Group, k.Project + " " + k.Version, k.Ready}, k.Success...)
		parts = append(append(parts, k.Failure...), k.Kinds...)
		for _, h := range k.Halts {
			parts = append(parts, h.Path, h.Note)
		}
		for _, part := range parts {
			if !strings.Contains(custom, part) {
				t.Errorf("%s: the list lacks %s", k.Group, part)
			}
		}
	}
}
