package report

import (
	"strings"
	"testing"
)

// TestRulesOnATerminal reads without the signs of Markdown, in lines that fit,
// none of which is broken inside of a word.
func TestRulesOnATerminal(t *testing.T) {
	const text = "### R1 Lists\nOne of `helm.sh/depends-on`\nor *many*.\n\n### R2 Next\nNot built yet.\n\nMore.\n"
	const want = "R1 Lists\nOne of\nhelm.sh/depends-on\nor many.\n\nR2 Next\nNot built yet.\n\nMore.\n"
	var b strings.Builder
	if err := Rules(&b, text, Style{}, 18); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s", err, b.String())
	}
	b.Reset()
	if err := Rules(&b, text, Style{}, 0); err != nil || b.String() != text {
		t.Errorf("elsewhere it is not the Markdown itself: %v\n%s", err, b.String())
	}
}
