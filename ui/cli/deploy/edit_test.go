package deploy

import (
	"strings"
	"testing"
)

// TestValuesText: without values there is an empty line below the comments to write in.
func TestValuesText(t *testing.T) { // R46
	for _, all := range []bool{false, true} {
		none, err := valuesText("shop", nil, all)
		head, empty := strings.CutSuffix(none, "\n\n")
		if err != nil || !empty {
			t.Errorf("without values: %q, %v", none, err)
		}
		for line := range strings.Lines(head) {
			if !strings.HasPrefix(line, "#") {
				t.Errorf("%q is no comment", line)
			}
		}
		if some, err := valuesText("shop", map[string]any{"a": 1}, all); err != nil || some != head+"\na: 1\n" {
			t.Errorf("with a value: %q, %v", some, err)
		}
	}
}
