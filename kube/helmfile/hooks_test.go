package helmfile

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestHooks (S11a): hooks of files and releases, with the data of their templates.
func TestHooks(t *testing.T) {
	t.Setenv("TOKEN", "t1")
	dir := writeFiles(t, `== helmfile.yaml
environments: {prod: {kubeContext: prod-cluster, values: [{region: eu}]}}
helmfiles: [sub/helmfile.yaml]
hooks:
- {name: start, events: [prepare, cleanup], command: ./all.sh, args: ["{{ .Environment.Name }}", "{{ .HelmfileCommand }}", "{{ .Event.Name }}"], showlogs: true}
releases:
- name: a
  namespace: x
  labels: {tier: db}
  chart: repo/app
  version: 1.2.3
  hooks:
  - events: [presync, postsync]
    command: "{{ .Values.region }}.sh"
    args: ["{{ .Release.Namespace }}/{{ .Release.Name }} {{ .Release.Chart }}@{{ .Release.Version }} {{ .Release.Labels.tier }} {{ .Release.Labels.name }}", "{{ if .Event.Error }}failed: {{ .Event.Error }}{{ else }}ok{{ end }}", '{{ .Environment.KubeContext }} {{ requiredEnv "TOKEN" }} {{ readFile "note" | trim | upper }}', plain]
    lockstep/rerun: true
- name: gone
  chart: repo/app
  installed: false
  hooks: [{events: [postuninstall], kubectlApply: {filename: crds.yaml}}]
== note
hi
== sub/helmfile.yaml
environments: {prod: {}}
hooks: [{events: [prepare], command: echo}]
releases: [{name: b, chart: repo/app, hooks: [{events: [preapply], kubectlApply: {kustomize: overlay/}}]}]`)
	f, err := Read(t.Context(), Options{Path: dir, Environment: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	hooks := map[string]Hook{}
	for _, h := range f.Hooks {
		hooks[h.Name] = h
	}
	for _, r := range f.Releases {
		for _, h := range r.Hooks {
			hooks[r.Name] = h
		}
	}
	for _, test := range []struct {
		hook, folder string
		at           At
		want         []string
	}{
		{"start", "", At{Event: Prepare, Command: "apply"}, []string{"./all.sh", "prod", "apply", "prepare"}},
		{"echo", "sub", At{Event: Prepare}, []string{"echo"}},
		{"a", "", At{Event: Presync}, []string{"eu.sh", "x/a repo/app@1.2.3 db a", "ok", "prod-cluster t1 HI", "plain"}},
		{"a", "", At{Event: Postsync, Err: errors.New("no image")}, []string{"eu.sh", "x/a repo/app@1.2.3 db a", "failed: no image", "prod-cluster t1 HI", "plain"}},
		{"gone", "", At{Event: Postuninstall}, []string{"kubectl", "apply", "-f", "crds.yaml"}},
		{"b", "sub", At{Event: Preapply}, []string{"kubectl", "apply", "-k", "overlay/"}},
	} {
		h := hooks[test.hook]
		p, err := h.Program(test.at)
		if got := append([]string{p.Command}, p.Args...); err != nil || !slices.Equal(got, test.want) || h.Folder != filepath.Join(dir, test.folder) {
			t.Errorf("%s at %s: %q in %s, %v, want %q", test.hook, test.at.Event, got, h.Folder, err, test.want)
		}
	}
	if hooks["a"].Name != "hook" || len(f.Hooks) != 2 || f.Hooks[0].Name != "start" || !f.Hooks[0].ShowLogs || !hooks["a"].Rerun || hooks["b"].Rerun || !strings.HasSuffix(hooks["a"].At, "helmfile.yaml:12") {
		t.Errorf("%+v", hooks)
	}
}

// TestHookErrors (S11a): hooks that lockstep refuses to read or cannot call say why.
func TestHookErrors(t *testing.T) {
	const a = "releases:\n- name: a\n  chart: repo/app\n  hooks:\n  - "
	for _, test := range []struct{ text, want string }{
		{"hooks: [{events: [presync], command: x}]", "helmfile.yaml:1: hook x: event presync is about one release, so helmfile never runs it here: move the hook to the releases"},
		{a + "{events: [sync], command: x}", "helmfile.yaml:5: release a: hook x: unknown event sync; the events are: prepare, preapply,"},
		{a + "{command: x}", "release a: hook x: it has no events"},
		{a + "{events: [presync]}", "release a: hook: it has no command"},
		{a + "{events: [presync], kubectlApply: {}}", "release a: kubectlApply needs either filename or kustomize"},
		{a + "{events: [presync], command: x, shell: true}", `helmfile.yaml:5: unknown key "shell" in release a: hook`},
	} {
		dir := writeFiles(t, "== helmfile.yaml\n"+test.text)
		if _, err := Read(t.Context(), Options{Path: dir}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
	for _, test := range []struct{ arg, want string }{
		{`{{ exec "date" (list) }}`, "lockstep does not have helmfile's function exec; call the program in the hook itself"},
		{"{{ .Values.missing }}", `map has no entry for key "missing"`},
		{"{{ nope }}", `function "nope" not defined`},
	} {
		dir := writeFiles(t, "== helmfile.yaml\n"+a+"{events: [presync], command: x, args: ['"+test.arg+"']}")
		f, err := Read(t.Context(), Options{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Releases[0].Hooks[0].Program(At{Event: Presync}); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "helmfile.yaml:5: hook x, event presync") {
			t.Errorf("%s: %v, want %s", test.arg, err, test.want)
		}
	}
}

// TestImage (S11a): a hook with an image, as it is read, as templates, and packed for another machine.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	write := func(hook string) (*File, error) {
		text := "releases:\n- {name: a, namespace: n, chart: ./a, values: [{v: '1'}], hooks: [" + hook + "]}\n"
		if err := os.WriteFile(filepath.Join(dir, "helmfile.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Read(t.Context(), Options{Path: dir})
	}
	f, err := write(`{events: [presync, postsync], args: ["{{ .Event.Name }}", '{{ print "{" "{" }} x'], lockstep/image: {name: "tool:{{ .Release.Name }}", env: {A: "{{ .Release.Namespace }}"}, secrets: [s], serviceAccount: m}}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Releases[0].Hooks[0].Program(At{Event: Presync})
	if err != nil || p.Command != "" || !slices.Equal(p.Args, []string{"presync", "{{ x"}) || p.Image.Name != "tool:a" || p.Image.Env["A"] != "n" {
		t.Errorf("%+v, %v", p, err)
	}
	packed, err := f.Packed(map[string]string{"n/a": "./a"}, nil, false, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "packed.yaml"), packed, 0o600); err != nil {
		t.Fatal(err)
	}
	there, err := Read(t.Context(), Options{Path: filepath.Join(dir, "packed.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	hooks := there.Releases[0].Hooks
	if len(hooks) != 2 || hooks[1].Name != "image" || !slices.Equal(hooks[1].Events, []string{Postsync}) {
		t.Fatalf("packed: %+v", hooks)
	}
	if q, err := hooks[0].Program(At{Event: Presync}); err != nil || !slices.Equal(q.Args, p.Args) || !reflect.DeepEqual(q.Image, p.Image) {
		t.Errorf("packed: %+v, %v, want %+v", q, err, p)
	}
	if text, err := f.Packed(nil, nil, false, true); err != nil || strings.Contains(string(text), "hooks") {
		t.Errorf("without hooks: %s, %v", text, err)
	}
	f, err = write(`{events: [cleanup], command: x, args: ["{{ .Event.Error }}"], lockstep/image: tool}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Packed(nil, nil, false, false); err == nil || !strings.Contains(err.Error(), "hook x uses .Event.Error") {
		t.Errorf("an error that is not known yet: %v", err)
	}
	for hook, want := range map[string]string{
		`{events: [presync], lockstep/image: {env: {A: b}}}`:                       "lockstep/image has no name of an image",
		`{events: [presync], lockstep/image: {name: x, image: y}}`:                 "image",
		`{events: [presync], lockstep/image: x, kubectlApply: {filename: a.yaml}}`: "kubectlApply reads files of this machine",
		`{events: [presync], lockstep/image: {name: x, env: [A]}}`:                 "lockstep/image",
		`{events: [presync], name: x}`:                                             "it has no command",
	} {
		if _, err := write(hook); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", hook, err, want)
		}
	}
}

// TestTemplateInTemplate: tpl with a map uses it for its text alone.
func TestTemplateInTemplate(t *testing.T) {
	h := Hook{At: "f:1", Name: "x", command: `{{ tpl "{{ .a }}" (dict "a" "b") }} {{ tpl "{{ .Event.Name }}" . }} {{ .Event.Name }}`, data: map[string]any{}}
	if p, err := h.Program(At{Event: Presync}); err != nil || p.Command != "b presync presync" {
		t.Errorf("%q, %v", p.Command, err)
	}
}
