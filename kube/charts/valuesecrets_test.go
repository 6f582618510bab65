package charts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
)

// setOptions are --set and similar flags with one argument.
var setOptions = map[string]func(argument string) values.Options{
	"set":         func(a string) values.Options { return values.Options{Values: []string{"ok=1", a}} },
	"set-string":  func(a string) values.Options { return values.Options{StringValues: []string{"ok=1", a}} },
	"set-json":    func(a string) values.Options { return values.Options{JSONValues: []string{"ok=1", a}} },
	"set-file":    func(a string) values.Options { return values.Options{FileValues: []string{"ok=" + os.DevNull, a}} },
	"set-literal": func(a string) values.Options { return values.Options{LiteralValues: []string{"ok=1", a}} },
}

// TestErrorsOfSetShowNoValue (S14): an error or a warning about --set and similar flags shows nothing of a password, even where
// its comma is not escaped and Helm takes its rest for a key.
func TestErrorsOfSetShowNoValue(t *testing.T) {
	const alphabet = `abXY09.[]{}=\,:"'-@#%/ `
	r := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for range 1500 {
		noise := make([]byte, r.IntN(6))
		for i := range noise {
			noise[i] = alphabet[r.IntN(len(alphabet))]
		}
		at := r.IntN(len(noise) + 1)
		password := "hunter" + string(noise[:at]) + "," + string(noise[at:]) + "SeCr3t" + string(noise[at:])
		for flag, options := range setOptions {
			for _, argument := range []string{"db.password=" + password, "n=1,db.password=" + password, "list[0].token=" + password + ",b=1"} {
				o := options(argument)
				_, err := Values(o, cli.New())
				text := fmt.Sprint(err, IgnoredValues(o))
				if strings.Contains(text, "hunter") || strings.Contains(text, "SeCr3t") {
					t.Fatalf("--%s %q: %s", flag, argument, text)
				}
				if err != nil {
					failed++
				}
			}
		}
	}
	if failed < 500 {
		t.Errorf("only %d arguments are invalid", failed)
	}
}

// TestErrorsOfSet: an error says which part of the argument is wrong.
func TestErrorsOfSet(t *testing.T) {
	const escape = `; write a comma inside a value as \,`
	for _, c := range []struct{ flag, argument, want string }{
		{"set", "a", `invalid --set: key "a" has no value; use key=value`},
		{"set", "a[b]=1", `invalid --set: index "b" is not a number; number the elements from 0: list[0]=value`},
		{"set", "db.password=hunter2,SeCr3t", "invalid --set: part 2, after db.password=…, has no value" + escape},
		{"set-string", "a=1,b=2,c.SeCr3t", "invalid --set-string: part 3, after a=…, has no value" + escape},
		{"set", "a={1,2},b[SeCr3t]=x", "invalid --set: part 2, after a=…, has an index that is not a number" + escape},
		{"set", "a={1,SeCr3t", "invalid --set: list must terminate with '}'"},
		{"set", "password=ab{c,SeCr3t", "invalid --set: part 2, after password=…, has no value" + escape},
		{"set", "password=a,b[0]SeCr3t=x", "invalid --set: part 2, after password=…, has text between an index and the equals sign" + escape},
		{"set", "password=a,ok.x=1", "invalid --set: part 2, after password=…, sets a field or an element of a value that is no map or list" + escape},
		{"set", "password: SeCr3t", "invalid --set: the argument has no value; use key=value"},
		{"set", `{"password": "SeCr3t"}`, "invalid --set: the argument has no value; use key=value"},
		{"set-literal", "password: SeCr3t", "invalid --set-literal: the argument has no value; use key=value"},
		{"set-json", `db.password="a",SeCr3t`, `invalid --set-json db.password=…: the value is not valid JSON; use key=JSON or {"key": JSON}`},
		{"set-file", "db.password=SeCr3t", "--set-file: cannot read the file of db.password: no such file; use --set-string for a text"},
		{"set-file", "db.password=SeCr3t%zz", "--set-file: cannot read the file of db.password: it is neither a path nor a URL; use --set-string for a text"},
		{"set-file", "motd=nowhere.txt", "--set-file: cannot read nowhere.txt: no such file"},
		{"set-file", "db.password=" + os.DevNull + ",SeCr3t", "invalid --set-file: part 2, after db.password=…, has no value" + escape},
	} {
		_, err := Values(setOptions[c.flag](c.argument), cli.New())
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("--%s %s:\n%s\n%s", c.flag, c.argument, got, c.want)
		}
	}
	got := IgnoredValues(values.Options{Values: []string{"password=a,.SeCr3t=x"}})
	if want := `--set part 2, after password=… sets nothing: write a comma inside a value as \,`; len(got) != 1 || got[0] != want {
		t.Errorf("warnings %q", got)
	}
}
