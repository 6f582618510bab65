package cli

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// canariesOf returns the secret values of a revision of a release: one for each form in which a value may appear.
func canariesOf(release string, revision int) map[string]string {
	id := fmt.Sprintf("%s%dq", release, revision)
	return map[string]string{
		"plain": "Pl4in-" + id, "escaped": `E5c/p+"` + id + `"&<é>`, "lines": "f1rst-" + id + "\ns3cond-" + id,
		"short": id + "Z", "number": fmt.Sprintf("73%d%d9412", release[0], revision), "name": "keycloak",
		"file": `{"a":["F1le-` + id + `"]}`, "pair": "user:Pa1r-" + id, "twice": base64.StdEncoding.EncodeToString([]byte("Tw1ce-" + id)),
	}
}

// canaryPart matches the secret in a canary that is a file or a user's credentials.
var canaryPart = regexp.MustCompile(`(F1le|Pa1r)-\w+`)

// formsOf returns the forms in which the workloads print the canaries.
func formsOf(canaries map[string]string) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(canaries)) {
		v := canaries[key]
		quoted, _ := json.Marshal(v)
		all = append(all, base64.StdEncoding.EncodeToString([]byte(v)))
		if plain, err := base64.StdEncoding.DecodeString(v); err == nil && key == "twice" {
			all = append(all, string(plain))
		}
		all = append(all, canaryPart.FindAllString(v, -1)...)
		if key != "name" {
			all = append(all, strings.Split(v, "\n")...)
			all = append(all, url.QueryEscape(v), strings.Trim(string(quoted), `"`), html.EscapeString(v), hex.EncodeToString([]byte(v)))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// namesakeLine is a line of a log with a password that is also the name of the chart.
const namesakeLine = "login pw=keycloak"

// canaryChart has the values of self in a Secret. Its hook and its pods print say in a log, a status and events, its
// templates in notes and errors.
func canaryChart(t *testing.T) string {
	return writeChart(t, map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: keycloak\nversion: 1.0.0\n",
		"values.yaml": "{mode: ok, say: [nothing], self: {}}\n",
		"templates/_helpers.tpl": `{{- define "keycloak.web" -}}
{{- if eq .Values.mode "fail" }}{{ fail (join " " .Values.say) }}{{ end -}}
{{- if eq .Values.mode "nil" }}{{ .Values.none.of.these }}{{ end -}}
keycloak-web
{{- end -}}
`,
		"templates/secret.yaml": `apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-credentials, annotations: {helm.sh/resource-group: first}}
stringData: {{ omit .Values.self "escaped" | toJson }}
---
apiVersion: v1
kind: SecretList
items:
- metadata: {name: {{ .Release.Name }}-listed, annotations: {helm.sh/resource-group: first}}
  stringData: {{ pick .Values.self "escaped" | toJson }}
`,
		"templates/pods.yaml": `apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-{{ include "keycloak.web" . }}
  annotations:
    helm.sh/resource-group: second
    helm.sh/depends-on-resource-groups: '["first"]'
    revision: "{{ .Values.revision }}"
    sandbox/log: {{ append .Values.say "login pw=keycloak" | join "\n" | toJson }}
{{- if eq .Values.mode "crash" }}
spec: {containers: [{name: main, image: web}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-{{ include "keycloak.web" . }}-crash-{{ .Values.revision }}
  annotations:
    helm.sh/resource-group: second
    sandbox/exit-code: "3"
    sandbox/log: {{ append .Values.say "login pw=keycloak" | join "\n" | toJson }}
spec: {restartPolicy: Never, containers: [{name: main, image: web}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-{{ include "keycloak.web" . }}-{{ .Values.revision }}
  annotations:
    helm.sh/resource-group: second
    sandbox/fail: config
    sandbox/message: {{ join " " .Values.say | toJson }}
spec: {containers: [{name: main, image: web}]}
---
apiVersion: v1
kind: Pod
metadata: {name: '{{ .Release.Name }}-{{ include "keycloak.web" . }}-unused', annotations: {helm.sh/resource-group: second}}
{{- end }}
spec:
{{- if eq .Values.mode "invalid" }}
  restartPolicy: {{ join " " .Values.say | toJson }}
{{- end }}
  containers: [{name: main, image: web}]
`,
		"templates/hook.yaml": `apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations:
    helm.sh/hook: "pre-install,pre-upgrade,test"
    helm.sh/hook-output-log-policy: "hook-succeeded,hook-failed"
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {sandbox/run-duration: 100ms, sandbox/log: {{ append .Values.say "login pw=keycloak" | join "\n" | toJson }}}}
    spec: {restartPolicy: Never, containers: [{name: main, image: job}]}
`,
		"templates/NOTES.txt": "{{ join \"\\n\" .Values.say }}\n",
	})
}

// canaryRun runs commands on releases with canaries and checks what they print.
type canaryRun struct {
	*testing.T
	chart, ns string
	env       []string
	ran       map[string]bool // the commands, as keys of secretTests
}

// values returns the values of a revision. Its workloads print the canaries of releases in all revisions up to it.
func (r *canaryRun) values(release string, revision int, mode string, releases ...string) map[string]any {
	var say []string
	for _, other := range releases {
		for before := 1; before <= revision; before++ {
			say = append(say, formsOf(canariesOf(other, before))...)
		}
	}
	return map[string]any{"self": canariesOf(release, revision), "say": say, "mode": mode, "revision": revision}
}

// file writes a value as YAML, in a file of its own.
func (r *canaryRun) file(content any) string {
	r.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		r.Fatal(err)
	}
	name := filepath.Join(r.TempDir(), "helmfile.yaml")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		r.Fatal(err)
	}
	return name
}

// canaryHooks are hooks that print what they get in a variable and in a Secret: the canaries of h.
func canaryHooks() []any {
	log := strings.Join(formsOf(canariesOf("h", 2)), "\n")
	return []any{
		map[string]any{"events": []string{"cleanup"}, "showlogs": true, "command": "sh", "args": []string{"-xc", `echo "login $HOOK_PASSWORD"`}},
		map[string]any{"events": []string{"cleanup"}, "showlogs": true, "lockstep/image": map[string]any{
			"name": "example/tool:1", "secrets": []string{"h-credentials"}, "annotations": map[string]string{"sandbox/log": log, "sandbox/exit-code": "2"},
		}},
	}
}

// stack writes a helmfile of the releases. The modes of those that are not ok are in modes.
func (r *canaryRun) stack(revision int, modes map[string]string, releases ...string) string {
	r.Helper()
	var list []any
	for _, name := range releases {
		mode := cmp.Or(modes[name], "ok")
		list = append(list, map[string]any{
			"name": name, "namespace": r.ns, "chart": r.chart, "values": []any{r.values(name, revision, mode, releases...)},
		})
	}
	file := map[string]any{"releases": list}
	if revision == 3 {
		file["hooks"] = canaryHooks()
	}
	return r.file(file)
}

// run runs a command, which must not print a canary of the releases, and must print all names.
func (r *canaryRun) run(releases []string, names []string, args ...string) string {
	r.Helper()
	cmd, _, err := newRoot(command.NewSignals(r.Context())).Find(args)
	if err != nil {
		r.Fatal(err)
	}
	name := strings.TrimPrefix(cmd.CommandPath(), "lockstep ")
	r.ran[name] = true
	out, code, _ := runProgram(r.T, r.env, append(args, "-n", r.ns)...)
	if strings.Contains(out, "unknown flag") || out == "" {
		r.Fatalf("%v: exit code %d: %s", args, code, out)
	}
	r.check(fmt.Sprint(args), out, releases)
	if !strings.HasPrefix(name, "plan") && name != "status" { // these print objects
		r.checkNamesake(fmt.Sprint(args), out)
	}
	for _, name := range names {
		if !strings.Contains(out, name) {
			r.Errorf("%v: %s is not readable in\n%s", args, name, out)
		}
	}
	return out
}

// home looks at the cause, the history and the changes of a release on the home screen.
func (r *canaryRun) home(release string) {
	r.Helper()
	screen := inTerminalAt(r.T, r.TempDir(), 50, 200, r.env, "home", "-n", r.ns)
	screen.await(0, "exited with code")
	screen.keys("/" + r.ns + "/" + release + enter)
	screen.press("h", "values, objects")
	screen.keys("q")
	if code := screen.ends(); code != 0 {
		r.Errorf("home: exit code %d", code)
	}
	r.check("home", screen.shown(), []string{release})
	r.checkNamesake("home", screen.shown())
	r.ran["home"] = true
}

// check looks for the canaries of releases in a text.
func (r *canaryRun) check(what, text string, releases []string) {
	r.Helper()
	found := 0
	for _, release := range releases {
		for revision := 1; revision <= 4; revision++ {
			for _, form := range formsOf(canariesOf(release, revision)) {
				if at := strings.Index(text, form); at >= 0 && found < 3 {
					found++
					r.Errorf("%s: %q of %s:\n%s", what, form, release, text[max(0, at-200):min(len(text), at+100)])
				}
			}
		}
	}
}

// checkNamesake looks for the password that is a name in the log lines of a text.
func (r *canaryRun) checkNamesake(what, text string) {
	r.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, namesakeLine) && !strings.Contains(line, `"kind":"manifest"`) {
			r.Errorf("%s: the password that is a name: %s", what, line)
			return
		}
	}
}

// descriptions checks the descriptions that are stored in the cluster, as Helm prints them.
func (r *canaryRun) descriptions(helm string, releases ...string) {
	r.Helper()
	for _, name := range releases {
		cmd := exec.CommandContext(r.Context(), helm, "history", name, "-n", r.ns, "-o", "json")
		cmd.Env = append(os.Environ(), r.env...)
		out, err := cmd.Output()
		if err != nil {
			r.Errorf("helm history %s: %v", name, err)
		}
		r.check("stored descriptions of "+name, string(out), releases)
	}
}

// TestNoCanaryAnywhere covers rule S14: a stack of four releases whose workloads print the secret values of all releases in
// three revisions, of which some failed, and every command on them. The chart, an object and a template are named like
// a secret value, and stay readable.
func TestNoCanaryAnywhere(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Get(t)
	state := t.TempDir()
	r := &canaryRun{T: t, chart: canaryChart(t), ns: "canaries", ran: map[string]bool{}, env: []string{"KUBECONFIG=" + cluster.Kubeconfig, "XDG_STATE_HOME=" + state, "HOOK_PASSWORD=" + canariesOf("h", 1)["plain"]}}
	all, pod := []string{"a", "b", "c", "d"}, []string{"Pod/d-keycloak-web"}
	helm, reports, fast := testcluster.Helm(t), t.TempDir(), []string{"--timeout", "40s", "--readiness-timeout", "3s"}
	with := func(args []string, more ...string) []string { return append(slices.Clone(more), args...) }
	crash := map[string]string{"d": "crash"}
	first := r.stack(1, nil, all...)
	r.run(all, nil, "plan", "-f", first)
	r.run(all, nil, with(fast, "up", "-f", first, "--debug")...)
	r.run(all, []string{`"d-keycloak-web"`}, with(fast, "up", "-f", r.stack(2, crash, all...), "-o", "json")...)
	third, secret := r.stack(3, crash, all...), map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "h-credentials", "namespace": r.ns}, "stringData": canariesOf("h", 2)}
	cluster.Apply(t, &unstructured.Unstructured{Object: secret})
	withHooks := append(slices.Clone(all), "h")
	r.run(withHooks, append(pod, "login (hidden)", "exited with code 2"), with(fast, "up", "-f", third, "--allow-hooks", "--report", "junit="+reports+"/a", "--report", "markdown="+reports+"/b", "--report", "json="+reports+"/c")...)
	for _, name := range []string{"a", "b", "c"} {
		text, err := os.ReadFile(filepath.Join(reports, name))
		if err != nil {
			t.Error(err)
		}
		r.check("report "+name, string(text), withHooks)
	}
	r.descriptions(helm, all...)
	r.run(withHooks, pod, "replay", "--no-tui")
	r.run(withHooks, nil, "runs", "show", "-o", "json")
	r.run(withHooks, nil, "runs", "show")
	r.run(all, nil, "runs", "-o", "json")
	runs := report.Runs(filepath.Join(state, "lockstep", "runs"))
	r.run(all, nil, "runs", "diff", runs[1], runs[0])
	r.run(all, nil, "status", "-f", third)
	r.home("d")

	// Commands on one release print only its own values.
	own := []string{"e"}
	values := func(revision int, mode string) []string {
		return []string{"--values", r.file(r.values("e", revision, mode, own...))}
	}
	web := []string{"Pod/e-keycloak-web"}
	deploy := func(revision int, mode string) []string { return append(values(revision, mode), fast...) }
	r.run(own, nil, with(deploy(1, "ok"), "install", "e", r.chart)...)
	for _, c := range []struct {
		revision int // commands without a cluster know only the values that they render
		args     []string
	}{{1, []string{"template", "e", r.chart}}, {1, []string{"lint", r.chart}}, {2, []string{"upgrade", "e", r.chart}}} {
		r.run(own, []string{"keycloak/templates/pods.yaml"}, with(values(c.revision, "fail"), c.args...)...)
		r.run(own, []string{"keycloak/templates/_helpers.tpl:3", `"keycloak.web"`}, with(values(c.revision, "nil"), c.args...)...)
	}
	r.run(own, nil, with(deploy(2, "invalid"), "upgrade", "e", r.chart)...)
	r.run(own, web, with(deploy(2, "crash"), "upgrade", "e", r.chart)...)
	r.run(own, []string{`"e-keycloak-web"`}, with(deploy(3, "crash"), "upgrade", "e", r.chart, "-o", "json")...)
	for _, format := range []string{"table", "json", "yaml"} {
		r.run(own, []string{"e-keycloak-web"}, "status", "e", "-o", format)
		r.run(own, nil, "history", "e", "-o", format)
		r.run(own, nil, "get", "metadata", "e", "-o", format)
	}
	r.run(own, nil, "status", "e", "--revision", "1")
	r.run(own, nil, "recover", "e")
	r.run(own, nil, "recover", "e", "-o", "json")
	r.run(own, web, "watch", "e", "--once")
	r.run(own, []string{`"e-keycloak-web"`}, "watch", "e", "--once", "-o", "json")
	r.run(own, nil, "list")
	r.run(own, web, with(values(4, "ok"), "plan", "e", r.chart)...)
	r.run(own, []string{`"e-keycloak-web"`}, with(values(4, "ok"), "plan", "upgrade", "e", r.chart, "-o", "json")...)
	r.run(own, nil, with(values(4, "ok"), "plan", "install", "f", r.chart)...)
	r.run(own, nil, "plan", "rollback", "e", "1")
	r.run(own, nil, "plan", "uninstall", "e")
	r.run(own, nil, with(fast, "rollback", "e", "2")...)
	r.run(own, nil, with(fast, "rollback", "e", "1")...)
	r.run(own, nil, "test", "e")
	r.run(own, nil, "drift", "e")
	cluster.Apply(t, testcluster.Parse(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: e-credentials, namespace: canaries}\nstringData: {plain: "+canariesOf("e", 4)["plain"]+"}\n")...)
	r.run(own, nil, "drift", "-A", "-o", "json")
	r.descriptions(helm, "e")
	r.run(own, nil, "uninstall", "e")
	r.run(all, nil, "down", "-f", third, "--skip-hooks", "-o", "json")

	for what, test := range secretTests {
		if test == hiddenInRelease && !r.ran[what] {
			t.Errorf("the test did not run %s", what)
		}
	}
	err := filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		r.check(path, string(text), append(withHooks, "e"))
		r.checkNamesake(path, string(text))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
