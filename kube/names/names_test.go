package names

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// texts are names of folders as users have them.
var texts = []string{
	"shop", "my.app", "1st", "a", "My Stack", "my stack", "my-stack", "MY_STACK", "my_stack", "UPPER", "under_score", "größe", "grösse", "-dash", "dash-",
	".hidden", "a..b", "a.-b", "🚀", "🚀🚀", "???", "!!!", "", " ", "\n", "\xff", "\xfe", "/", "..", "50%", "ＡＢＣ", "İstanbul", "a\x00b", "日本語",
	strings.Repeat("a", 40), strings.Repeat("a", 41), strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 80), strings.Repeat("a-", 40),
	strings.Repeat("ab.", 30), strings.Repeat("ä", 80), strings.Repeat("a", 80) + "b", strings.Repeat("a", 300),
}

func TestOf(t *testing.T) {
	from := map[string]string{}
	for _, text := range texts {
		name := check(t, text)
		if other, ok := from[name]; ok {
			t.Errorf("%q and %q both get the name %s", text, other, name)
		}
		from[name] = text
	}
	for text, want := range map[string]string{"shop": "shop", "my.app": "my.app", "My Stack": "my-stack-", "größe": "gr-e-", "🚀": "name-"} {
		if got := Of(text); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s…", text, got, want)
		}
	}
}

// check checks the properties of the name of a text, and returns the name.
func check(t *testing.T, text string) string {
	t.Helper()
	name := Of(text)
	if problems := append(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)...); len(problems) > 0 {
		t.Errorf("%q: %s: %v", text, name, problems)
	}
	// A name that differs also fits as a DNS-1123 label, and may be used as a part of one.
	if name != text && (len(name) > MaxChanged || len(validation.IsDNS1123Label(name)) > 0 || len(validation.IsDNS1123Label("lockstep-"+name+"-12345678")) > 0) {
		t.Errorf("%q: %s is no label, or too long", text, name)
	}
	valid := len(validation.IsDNS1123Subdomain(text)) == 0 && len(validation.IsValidLabelValue(text)) == 0
	if valid != (name == text) {
		t.Errorf("%q: valid %t, but its name is %s", text, valid, name)
	}
	if Of(name) != name {
		t.Errorf("%q: the name of %s is %s", text, name, Of(name))
	}
	return name
}

func FuzzOf(f *testing.F) {
	for _, text := range texts {
		f.Add(text, text+" ")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := check(t, a), check(t, b)
		if a != b && x == y && x != a && y != b {
			t.Errorf("%q and %q both get the name %s", a, b, x)
		}
	})
}
