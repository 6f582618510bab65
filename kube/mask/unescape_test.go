package mask

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"lockstep/engine/text"
)

// escapers escape a character of a literal in JSON, a URL, or HTML, as some program does.
var escapers = [][]func(rune) string{
	{
		func(r rune) string {
			var b strings.Builder
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
			return b.String()
		},
		func(r rune) string {
			var b strings.Builder
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04X`, unit)
			}
			return b.String()
		},
		func(r rune) string { return fmt.Sprintf(`\u{%x}`, r) }, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) },
		func(r rune) string { return bytewise(`\x%02x`, r) }, func(r rune) string { return bytewise(`\%03o`, r) },
	},
	{func(r rune) string { return bytewise("%%%02X", r) }, func(r rune) string { return bytewise("%%%02x", r) }},
	{func(r rune) string { return fmt.Sprintf("&#%d;", r) }, func(r rune) string { return fmt.Sprintf("&#x%x;", r) }, func(r rune) string { return fmt.Sprintf("&#X%X;", r) }},
}

func bytewise(format string, r rune) string {
	var b strings.Builder
	for _, c := range []byte(string(r)) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// randomEscapes escapes what an escaper must, and other characters at random.
func randomEscapes(r *rand.Rand, s string) string {
	family := escapers[r.IntN(len(escapers))]
	how := family[r.IntN(len(family))]
	often := r.IntN(4) // 0 for all characters
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune(`\%&"`, c) || c < ' ' || often == 0 || r.IntN(often+1) == 0 {
			b.WriteString(how(c))
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// TestEscapesOfAnyCharacterAreHidden (S14): a secret is hidden in whatever way its characters are escaped, up to three times, and
// the text around it stays as it is.
func TestEscapesOfAnyCharacterAreHidden(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for range 2000 {
		password := randomPassword(r)
		var m Mask
		m.AddSecrets(password)
		form := password
		for range 1 + r.IntN(maxEscapes) {
			form = randomEscapes(r, form)
		}
		const before, after = `{"m": "a\u0020b%20c`, `d&amp;", "n": 1}`
		for name, channel := range map[string]func(string) string{"text": m.Text, "output": m.Output} {
			if got := channel(before + form + after); got != before+Hidden+after {
				t.Fatalf("%s of %q as %q: %q", name, password, form, got)
			}
		}
	}
}

// TestEscapesInLogLines: lines of programs that escape more than they must.
func TestEscapesInLogLines(t *testing.T) {
	const password = "Zq7-wR9=kT2+xP4"
	var m Mask
	m.AddSecrets(password)
	for _, line := range []string{
		`{"msg":"password is Zq7\u002dwR9\u003dkT2\u002BxP4"}`, `{"msg":"{\"password\":\"Zq7\\u002dwR9\\u003dkT2\\u002bxP4\"}"}`, "GET /?p=Zq7%2DwR9%3DkT2%2BxP4",
		"GET /?p=Zq7%252DwR9%253DkT2%252BxP4", "<p>Zq7&#45;wR9&#x3d;kT2&plus;xP4</p>", "5a71372d7752393d6b54322b785034", "5A71372D7752393D6B54322B785034", "WnE3LXdSOT1rVDIreFA0",
	} {
		if got := m.Output(line); !strings.Contains(got, Hidden) || strings.Contains(got, "Zq7") || strings.Contains(got, "xP4") || strings.Contains(strings.ToLower(got), "5a71") {
			t.Errorf("%s becomes %s", line, got)
		}
	}
	const plain = `C:\new\x41 100%25 a & b &amp; \u00e9 \d \`
	if got := m.Text(plain); got != plain {
		t.Errorf("a text without secrets becomes %q", got)
	}
}

// TestSecretsAreHiddenAsShown (S14): a control sequence or an invisible character inside a value does not uncover it where the text is
// shown without them.
func TestSecretsAreHiddenAsShown(t *testing.T) {
	const password = "Zx9kQw7mTr4pLs2v"
	var m Mask
	m.AddSecrets(password)
	for _, inside := range []string{"\x1b[0m", "\x1b[38;5;1m", "\x1b]8;;x\x1b\\", "\x01", "\x00", "\x7f", "\r", "\u00ad", "\u202e", "\ufeff", "\u200b", "\u009b1m", "\ufe0f", `\u001b[0m`} {
		for name, line := range map[string]string{
			"once": "a " + password[:5] + inside + password[5:] + " b", "everywhere": "a " + strings.Join(strings.Split(password, ""), inside) + " b",
			"around": inside + "a " + inside + password + " b" + inside,
		} {
			for channel, hide := range map[string]func(string) string{"text": m.Text, "output": m.Output} {
				got := hide(line)
				if shown := strings.ReplaceAll(text.Line(got), "\ufe0f", ""); !strings.Contains(got, Hidden) || strings.Contains(shown, password) || strings.Contains(shown, "Zx9k") {
					t.Errorf("%s: %q %s becomes %q", channel, inside, name, got)
				}
			}
		}
	}
	const plain = "\x1b[1mready\x1b[0m in 3s\u200b"
	if got := m.Text(plain); got != plain {
		t.Errorf("a text without secrets becomes %q", got)
	}
}

// TestDumps: a secret is hidden as programs dump it.
func TestDumps(t *testing.T) {
	password := strings.Repeat("Zx9kQw7mTr4pLs2v", 5)
	var m Mask
	m.AddSecrets(password, "Zx9kQw7mTr4pLs2v")
	for _, line := range []string{"5A:78:39:6B:51:77:37:6D:54:72:34:70:4C:73:32:76", "5A 78 39 6B 51 77 37 6D 54 72 34 70 4C 73 32 76", "00000000: 5a78 396b 5177 376d 5472 3470 4c73 3276"} {
		if got := m.Output(line); !strings.Contains(got, Hidden) || strings.Contains(strings.ToLower(got), "5a") {
			t.Errorf("%s becomes %s", line, got)
		}
	}
	for _, line := range inLines(password) {
		if got := m.Output(line); got != Hidden {
			t.Errorf("%s becomes %s", line, got)
		}
	}
}
