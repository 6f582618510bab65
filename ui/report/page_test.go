package report

import (
	"strings"
	"testing"
)

// TestMarkdownOnTerminal expects pages without Markdown syntax on a terminal, with lines that fit and
// break only between words, and the Markdown itself elsewhere.
func TestMarkdownOnTerminal(t *testing.T) {
	const text = "### R1 Lists\nOne of `helm.sh/depends-on`\nor *many*.\n\n### R2 Next\nNot built yet.\n\nMore.\n\n- One of two\n  items is `long`.\n- Short.\n\n    code   stays as it is here\n"
	const want = "R1 Lists\nOne of\nhelm.sh/depends-on\nor many.\n\nR2 Next\nNot built yet.\n\nMore.\n\n- One of two items\n  is long.\n- Short.\n\n    code   stays as it is here\n"
	var b strings.Builder
	if err := Markdown(&b, text, Style{}, 18); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s", err, b.String())
	}
	b.Reset()
	if err := Markdown(&b, text, Style{}, 0); err != nil || b.String() != text {
		t.Errorf("without a terminal: %v, got\n%s", err, b.String())
	}
}

// TestTablesOfPages expects tables in aligned columns, also without a terminal, and cells that
// wrap between words if the table is too wide.
func TestTablesOfPages(t *testing.T) {
	const text = "Flags:\n\n|  | flag | meaning |\n|---|---|---|\n| 1 | `--on-hangup` | if the *terminal* closes |\n|  | `--tui` | open it |\n\nEnd.\n"
	for width, want := range map[int]string{
		0:  "Flags:\n\n   flag           meaning\n1  `--on-hangup`  if the *terminal* closes\n   `--tui`        open it\n\nEnd.\n",
		80: "Flags:\n\n   flag         meaning\n1  --on-hangup  if the terminal closes\n   --tui        open it\n\nEnd.\n",
		30: "Flags:\n\n   flag         meaning\n\n1  --on-hangup  if the\n                terminal\n                closes\n\n   --tui        open it\n\nEnd.\n",
	} {
		var b strings.Builder
		if err := Markdown(&b, text, Style{}, width); err != nil || b.String() != want {
			t.Errorf("width %d: %v, got\n%s", width, err, b.String())
		}
	}
}
