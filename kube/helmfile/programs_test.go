package helmfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// fakePrograms are programs that the test binary stands for, by name. sops decrypts a file whose values begin with ENC:.
var fakePrograms = map[string]func(args []string) error{
	"helmfile": helmfileBuild,
	"sops": func(args []string) error {
		noteCall("sops", args)
		file := args[len(args)-1]
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !strings.Contains(string(data), "ENC:") {
			return errors.New("sops metadata not found")
		}
		_, err = fmt.Print(strings.ReplaceAll(string(data), "ENC:", ""))
		return err
	},
	"helm": func(args []string) error {
		noteCall("helm", args)
		if slices.Equal(args, []string{"plugin", "list"}) {
			_, err := fmt.Print("NAME   \tVERSION\nsecrets\t4.6.0\n")
			return err
		}
		data, err := os.ReadFile(args[2])
		fmt.Print(strings.ReplaceAll(string(data), "ENC:", "helm-"))
		return err
	},
	"vals": func(args []string) error {
		noteCall("vals", args)
		data, err := io.ReadAll(os.Stdin)
		var input struct{ Values []string }
		if err = errors.Join(err, yaml.Unmarshal(data, &input)); err != nil {
			return err
		}
		for i, v := range input.Values {
			if strings.Contains(v, "missing") {
				return errors.New("no such secret")
			}
			input.Values[i] = strings.NewReplacer("ref+test://", "resolved-", "+", "").Replace(v)
		}
		out, err := yaml.Marshal(map[string]any{"values": input.Values})
		fmt.Print(string(out))
		return err
	},
}

// usePrograms puts fake programs into PATH, and nothing else.
func usePrograms(t *testing.T, names ...string) (calls func() []string) {
	t.Helper()
	self, err := os.Executable()
	dir := t.TempDir()
	for _, name := range names {
		err = errors.Join(err, os.Symlink(self, filepath.Join(dir, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "calls")
	t.Setenv("PATH", dir)
	t.Setenv("HELMFILE_CALLS", log)
	return func() []string {
		text, _ := os.ReadFile(log) // missing without a call
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

func noteCall(program string, args []string) {
	if f, err := os.OpenFile(os.Getenv("HELMFILE_CALLS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, program, strings.Join(args, " "))
		_ = f.Close()
	}
}

const withSecrets = `
== helmfile.yaml
releases:
- name: a
  chart: ./a
  values: [v.yaml, {db: {dsn: "pg://u:ref+test://pw+@db", plain: x}}]
  secrets: [s.yaml]
  set: [{name: "list[1].token", value: ref+test://token}, {name: plain, value: "1"}]
- name: b
  chart: ./a
  secrets: [s.yaml]
== v.yaml
own: {ref: ref+test://file#/x, other: 1}
== s.yaml
db: {plain: "ENC:hidden", num: "ENC:7"}
`

// TestSecrets: secrets files are decrypted by sops or, without it, by the plugin of Helm, and references are resolved by vals: each
// file once, after values and before set. The places of all these values are known, and nothing is written to disk.
func TestSecrets(t *testing.T) {
	for _, test := range []struct {
		programs []string
		plain    string
		decrypt  string
	}{
		{[]string{"sops", "vals", "helm"}, "hidden", "sops --decrypt --output-type yaml "},
		{[]string{"vals", "helm"}, "helm-hidden", "helm secrets decrypt "},
	} {
		t.Run(test.decrypt, func(t *testing.T) {
			calls := usePrograms(t, test.programs...)
			dir := writeFiles(t, withSecrets)
			t.Setenv("TMPDIR", dir)
			f, err := Read(t.Context(), Options{Path: dir})
			if err != nil {
				t.Fatal(err)
			}
			if got := calls(); !slices.Equal(got, []string{""}) {
				t.Errorf("before the values are needed: %v", got)
			}
			values, secret, err := f.Releases[0].Merge(t.Context(), nil, os.ReadFile)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := f.Releases[1].Merge(t.Context(), nil, os.ReadFile); err != nil {
				t.Fatal(err)
			}
			n := strings.TrimSuffix(test.plain, "hidden") + "7"
			want := map[string]any{
				"own": map[string]any{"ref": "resolved-file#/x", "other": 1.0}, "db": map[string]any{"dsn": "pg://u:resolved-pw@db", "plain": test.plain, "num": n},
				"list": []any{nil, map[string]any{"token": "resolved-token"}}, "plain": int64(1),
			}
			if !reflect.DeepEqual(values, want) {
				t.Errorf("values %#v\nwant   %#v", values, want)
			}
			if want := []string{"/db/dsn", "/db/num", "/db/plain", "/list/1/token", "/own/ref"}; !slices.Equal(secret, want) {
				t.Errorf("secret are %v, want %v", secret, want)
			}
			decrypted := slices.DeleteFunc(calls(), func(call string) bool { return !strings.HasPrefix(call, test.decrypt) })
			if len(decrypted) != 1 || !strings.HasSuffix(decrypted[0], "/s.yaml") {
				t.Errorf("s.yaml was decrypted by %v", calls())
			}
			var files []string
			for _, e := range must(os.ReadDir(dir)) {
				files = append(files, e.Name())
			}
			if want := []string{"helmfile.yaml", "s.yaml", "v.yaml"}; !slices.Equal(files, want) {
				t.Errorf("files %v, want %v", files, want)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestProgramsFail: a program that fails is named with what it said, and with the place in the file.
func TestProgramsFail(t *testing.T) {
	const a = "== helmfile.yaml\nreleases:\n- name: a\n  chart: ./a\n"
	for _, test := range []struct {
		programs   []string
		text, want string
	}{
		{programs: []string{"sops"}, text: a + "  secrets: [s.yaml]\n== s.yaml\nx: 1", want: "helmfile.yaml:4: release a: secrets: decrypt s.yaml: sops --decrypt: sops metadata not found"},
		{programs: []string{"sops"}, text: a + "  secrets: [s.yaml]\n== s.yaml\n'ENC:hunter2'", want: "helmfile.yaml:4: release a: secrets: decrypt s.yaml: the result is no YAML mapping"},
		{programs: []string{"vals"}, text: a + "  values: [{x: ref+test://missing}]", want: "helmfile.yaml:4: release a: vals eval: no such secret"},
		{programs: []string{"sops"}, text: a + "  values: [{x: ref+test://x}]", want: "helmfile.yaml:4: release a: references (ref+) need vals"},
		{programs: []string{"helm"}, text: a + "  secrets: [{x: 'ENC:y'}]", want: "helmfile.yaml:4: release a: secrets: decrypting a mapping needs sops"},
	} {
		usePrograms(t, test.programs...)
		f, err := Read(t.Context(), Options{Path: writeFiles(t, test.text)})
		if err == nil {
			_, _, err = f.Releases[0].Merge(t.Context(), nil, os.ReadFile)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v\nwant  %s", err, test.want)
		}
	}
}

// TestSecretsOfEnvironment: they are decrypted only if a condition needs values of the environment, and come after its values. Hooks,
// whose command lines are shown, do not get them.
func TestSecretsOfEnvironment(t *testing.T) {
	const file = "== helmfile.yaml\nenvironments: {default: {values: [{a: {enabled: false}}], secrets: [s.yaml]}}\n---\nreleases: [{name: a, chart: ./a%s, hooks: [{events: [presync], command: echo, args: ['{{ .Values.a.enabled }} {{ .Values.x }}']}]}]\n== s.yaml\na: {enabled: true}\nx: 'ENC:'"
	for condition, want := range map[string]int{"": 0, ", condition: a.enabled": 1} {
		calls := usePrograms(t, "sops")
		f, err := Read(t.Context(), Options{Path: writeFiles(t, fmt.Sprintf(file, condition))})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(slices.DeleteFunc(calls(), func(s string) bool { return s == "" })); got != want || len(f.Releases) != 1 {
			t.Fatalf("%q: %d calls, want %d; %d releases", condition, got, want, len(f.Releases))
		}
		if p, err := f.Releases[0].Hooks[0].Program(At{Event: Presync}); err == nil || !strings.Contains(err.Error(), `no entry for key "x"`) {
			t.Errorf("%q: the hook runs %v, %v", condition, p, err)
		}
	}
}

// TestSecretsOfBuiltFiles: helmfile build --embed-values leaves secrets encrypted; sops gets them on its standard input. An
// encrypted file beside templates is read from its own path.
func TestSecretsOfBuiltFiles(t *testing.T) {
	if _, err := os.Stat("/dev/stdin"); err != nil {
		t.Skip("no /dev/stdin")
	}
	usePrograms(t, "sops")
	dir := writeFiles(t, "== helmfile.yaml\nfilepath: x\nreleases: [{name: a, chart: ./a, secrets: [{x: 'ENC:y'}]}]\nrenderedvalues: {}")
	f, err := Read(t.Context(), Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if values, secret, err := f.Releases[0].Merge(t.Context(), nil, os.ReadFile); err != nil || values["x"] != "y" || !slices.Equal(secret, []string{"/x"}) {
		t.Errorf("%v, %v, %v", values, secret, err)
	}
	calls := usePrograms(t, "sops", "helmfile")
	dir = writeFiles(t, "== helmfile.yaml\nreleases: [{name: a, chart: ./a, values: [v.yaml.gotmpl], secrets: [s.yaml]}]\n== v.yaml.gotmpl\na: 1\n== s.yaml\nx: 'ENC:y'")
	if f, err = Read(t.Context(), Options{Path: dir}); err != nil {
		t.Fatal(err)
	}
	if values, _, err := f.Releases[0].Merge(t.Context(), nil, os.ReadFile); err != nil || values["x"] != "y" || values["a"] != 1.0 {
		t.Errorf("%v, %v, %v", values, err, calls())
	}
}

// TestLenient: keys that cannot change what is deployed are a warning with --lenient, all others an error.
func TestLenient(t *testing.T) {
	dir := writeFiles(t, "== helmfile.yaml\nhelmDefaults: {trackMode: kubedog, diffArgs: [x]}\nreleases:\n- {name: a, chart: ./a, trackLogs: true, unitTests: [x]}\n- {name: b, chart: ./a, trackLogs: true, installed: false}")
	f, err := Read(t.Context(), Options{Path: dir, Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "helmfile.yaml")
	want := []string{at + ":1: helmDefaults: diffArgs has no effect: lockstep does not support it", at + ":1: helmDefaults: trackMode has no effect: lockstep does not support it",
		at + ":3: release a: trackLogs has no effect: lockstep does not support it", at + ":3: release a: unitTests has no effect: lockstep does not support it"}
	if !slices.Equal(f.Warnings, want) {
		t.Errorf("warnings\n%s\nwant\n%s", strings.Join(f.Warnings, "\n"), strings.Join(want, "\n"))
	}
	for _, text := range []string{"helmDefaults: {force: true}", "releases: [{name: a, chart: ./a, colour: red}]", "releases: [{name: a, chart: ./a, syncArgs: [x]}]"} {
		if _, err := Read(t.Context(), Options{Path: writeFiles(t, "== helmfile.yaml\n"+text), Lenient: true}); err == nil {
			t.Errorf("%s is ignored", text)
		}
	}
	for _, key := range harmlessKeys {
		if fileKeys[key]+defaultKeys[key]+releaseKeys[key] == "" {
			t.Errorf("%s is harmless, but supported or unknown", key)
		}
	}
}

// TestMuchOutput (S12): a program that writes without end is ended, and its messages are cut.
func TestMuchOutput(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{"endless": "#!/bin/sh\nyes secret\n", "talks": "#!/bin/sh\nyes word | head -c 1000000 >&2\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var p programs
	if _, err := p.run(t.Context(), bin, "", filepath.Join(bin, "endless"), "decrypt"); err == nil || err.Error() != "endless decrypt: its output has more than 64 MiB" {
		t.Errorf("endless: %v", err)
	}
	if _, err := p.run(t.Context(), bin, "", filepath.Join(bin, "talks"), "decrypt"); err == nil || len(err.Error()) > 100_000 || !strings.Contains(err.Error(), "word word") {
		t.Errorf("talks: %.100v", err)
	}
}
