package cli

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/kube/mask"
	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/report"
	"lockstep/ui/trace/receiver"
)

// canary and its changed value must not appear in any output.
const canary, changed = "c4n4ry-v4lue", "ch4nged-v4lue"

// secretChart has the canary everywhere in a chart. .Values.mode selects an error in the chart.
func secretChart(t *testing.T) string {
	return writeChart(t, map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"values.yaml": "mode: ok\npassword: " + canary + "\n",
		"templates/secret.yaml": `apiVersion: v1
kind: Secret
metadata: {name: credentials, annotations: {helm.sh/resource-group: first}}
{{- if eq .Values.mode "list" }}
stringData: [{{ .Values.password }}]
{{- else if eq .Values.mode "nested" }}
stringData: {a: {b: {{ .Values.password }}}}
{{- else if eq .Values.mode "text" }}
data: {a: "{{ .Values.password }}!"}
{{- else }}
data: {a: {{ b64enc .Values.password }}}
stringData: {b: {{ .Values.password }}}
{{- end }}
{{- if eq .Values.mode "immutable" }}
immutable: {{ .Values.password }}
{{- end }}
`,
		"templates/pod.yaml": `apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    helm.sh/resource-group: second
    helm.sh/depends-on-resource-groups: '["first"]'
{{- if eq .Values.mode "crash" }}
    sandbox/exit-code: "3"
    sandbox/log: "my password is {{ .Values.password }}"
{{- end }}
spec:
  containers:
  - name: web
    image: web
    env: [{name: DB_PASSWORD, value: {{ .Values.password }}}]
    args: ["--token={{ .Values.password }}"]
{{- if eq .Values.mode "env" }}
    ports: [{containerPort: {{ .Values.password }}}]
{{- end }}
`,
		"templates/hook.yaml": `apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-output-log-policy: "hook-succeeded,hook-failed"}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {sandbox/run-duration: 100ms, sandbox/log: "using {{ .Values.password }} and {{ b64enc .Values.password }}"}}
    spec: {restartPolicy: Never, containers: [{name: main, image: job}]}
`,
		"templates/NOTES.txt": "log in with {{ .Values.password }}",
		"templates/fail.yaml": `{{ if eq .Values.mode "fail" }}{{ fail (printf "bad password %s" .Values.password) }}{{ end }}`,
	})
}

// TestSecretsAreHidden runs all operations on a release whose secrets are canaries, including refusals
// of the API server: no output, record or log contains a canary.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Get(t)
	dir := secretChart(t)
	for _, mode := range []string{"ok", "list", "nested", "text", "immutable", "env", "crash", "fail"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			state, ns := t.TempDir(), "secrets-"+mode
			to := receiver.Start()
			defer func() {
				to.Close()
				sent, _, err := to.Received()
				if err != nil || len(to.Spans()) == 0 || len(to.Metrics()) == 0 || len(to.Notices()) == 0 {
					t.Errorf("%d spans, %d metrics, %d notices: %v", len(to.Spans()), len(to.Metrics()), len(to.Notices()), err)
				}
				noCanary(t, "traces, metrics and notices", string(sent))
			}()
			env := []string{"KUBECONFIG=" + cluster.Kubeconfig, "XDG_STATE_HOME=" + state, "OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL, "LOCKSTEP_NOTIFY=" + to.URL + receiver.NoticesPath}
			run := func(args ...string) {
				t.Helper()
				args = append(args, "-n", ns)
				out, code, _ := runProgram(t, env, args...)
				if strings.Contains(out, "unknown flag") || out == "" {
					t.Fatalf("%v: exit code %d: %s", args, code, out)
				}
				noCanary(t, fmt.Sprint(args), out)
			}
			install := []string{"s", dir, "--set", "mode=" + mode, "--timeout", "30s", "--readiness-timeout", "10s"}
			with := func(command string, more ...string) []string {
				return append(append([]string{command}, install...), more...)
			}
			run(with("install", "--dry-run=client")...)
			reports := t.TempDir()
			write := []string{"--create-namespace"}
			if !slices.Contains([]string{"ok", "crash", "fail"}, mode) { // the checks refuse it
				run(with("install", "--create-namespace")...)
				write = append(write, "--skip-preflight")
			}
			run(with("install", append(write, "--debug", "--report", "junit="+reports+"/a", "--report", "json="+reports+"/b", "--report", "markdown="+reports+"/c")...)...)
			for _, name := range []string{"a", "b", "c"} {
				text, err := os.ReadFile(filepath.Join(reports, name))
				if err != nil {
					t.Error(err)
				}
				noCanary(t, "report "+name, string(text))
			}
			stack := filepath.Join(t.TempDir(), "helmfile.yaml")
			if err := os.WriteFile(stack, []byte(fmt.Sprintf("releases: [{name: s, namespace: %s, chart: %s, timeout: 30, values: [{mode: %s}]}]\n", ns, dir, mode)), 0o600); err != nil {
				t.Fatal(err)
			}
			run("plan", "-f", stack)
			if mode == "fail" {
				run("up", "-f", stack)
				return
			}
			run(with("plan", "--set", "password="+changed)...)
			run("history", "s")
			run("status", "s")
			if mode == "ok" {
				run(with("plan", "--set", "password="+changed, "-o", "json")...)
				run(with("upgrade", "--dry-run=server")...)
				run(with("upgrade", "--dry-run=server", "-o", "json")...)
				run("watch", "s", "--once", "-o", "json")
				run("list", "-o", "json")
				run("recover", "s")
				run("get", "metadata", "s", "-o", "json")
				run(append([]string{"plan"}, with("upgrade")...)...)
				run("plan", "install", "other", dir)
				run("plan", "rollback", "s", "1")
				run("plan", "uninstall", "s")
				run("test", "s")
				out, _, _ := runProgram(t, env, append(with("upgrade", "--dry-run=server", "--show-secrets"), "-n", ns)...)
				if !strings.Contains(out, canary) {
					t.Errorf("--show-secrets prints no secret: %s", out)
				}
			}
			run(with("upgrade", append(write[1:], "-o", "json")...)...)
			run("replay", "--no-tui")
			run("runs", "show", "-o", "json")
			if mode == "ok" {
				run("runs", "-o", "json")
				run("rollback", "s", "1", "--timeout", "30s", "--readiness-timeout", "10s")
				run("runs", "diff", report.Runs(filepath.Join(state, "lockstep", "runs"))[1], report.Runs(filepath.Join(state, "lockstep", "runs"))[0])
			}
			recordHasSecret(t, state)
			if mode == "ok" || mode == "crash" {
				run("up", "-f", stack, "--readiness-timeout", "5s", "-o", "json")
				run("down", "-f", stack)
			} else {
				run("uninstall", "s")
			}
			checkFiles(t, state)
		})
	}
}

// recordHasSecret checks that the last record has the manifest of the Secret. checkFiles checks that
// it has no values.
func recordHasSecret(t *testing.T, state string) {
	t.Helper()
	dir := filepath.Join(state, "lockstep", "runs")
	r, err := report.ReadRecord(dir, report.Runs(dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.State.Phases {
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if text := r.Manifest(o.Object, len(r.Events)); o.Object.Kind == "Secret" && strings.Contains(text, "kind: Secret") && strings.Contains(text, mask.Hidden) {
					return
				}
			}
		}
	}
	t.Error("the record does not have the manifest of the Secret")
}

func noCanary(t *testing.T, what, text string) {
	t.Helper()
	for _, v := range []string{canary, changed} {
		for _, form := range []string{v, base64.StdEncoding.EncodeToString([]byte(v))} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s: %s", what, text[max(0, i-300):min(len(text), i+100)])
				return
			}
		}
	}
}

// checkFiles checks that the written files are private and contain no canary.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(dir, "lockstep"), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		noCanary(t, path, string(text))
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}
