package helmfile

import (
	"errors"
	"path/filepath"
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
    args: ["{{ .Release.Namespace }}/{{ .Release.Name }} {{ .Release.Chart }}@{{ .Release.Version }} {{ .Release.Labels.tier }}", "{{ if .Event.Error }}failed: {{ .Event.Error }}{{ else }}ok{{ end }}", '{{ .Environment.KubeContext }} {{ requiredEnv "TOKEN" }} {{ readFile "note" | trim | upper }}', plain]
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
		{"a", "", At{Event: Presync}, []string{"eu.sh", "x/a repo/app@1.2.3 db", "ok", "prod-cluster t1 HI", "plain"}},
		{"a", "", At{Event: Postsync, Err: errors.New("no image")}, []string{"eu.sh", "x/a repo/app@1.2.3 db", "failed: no image", "prod-cluster t1 HI", "plain"}},
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
