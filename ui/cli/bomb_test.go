package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
)

// TestTemplatesThatNeverEnd: templates that use too much memory or never end are aborted and named.
func TestTemplatesThatNeverEnd(t *testing.T) {
	noCluster(t)
	for name, template := range map[string]string{
		"tpl of itself": "{{ tpl .Values.self . }}",
		"growth":        `{{ $x := list "a" }}{{ range until 1000000 }}{{ $x = concat $x $x }}{{ end }}`,
		"output":        "{{ range until 30000000 }}{{ range until 30000000 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}{{ end }}",
		"untilStep":     "{{ range untilStep 0 1000000000000 1 }}x{{ end }}",
		"overflow":      "{{ untilStep 0 9223372036854775807 4611686018427387905 }}",
		"notes":         "", // in NOTES.txt
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
				"values.yaml":      `self: "{{ tpl .Values.self . }}"`,
				"templates/x.yaml": template,
			}
			which := "shop/templates/x.yaml"
			if name == "notes" {
				files["templates/NOTES.txt"], which = "{{ tpl .Values.self . }}", "shop/templates/NOTES.txt"
			}
			dir := writeChart(t, files)
			commands := [][]string{{"template", "x", dir}}
			if name == "growth" {
				commands = append(commands, []string{"lint", dir}, []string{"dag", dir})
			}
			for _, args := range commands {
				out, code, mib := runProgram(t, []string{input.RenderMemoryEnv + "=256Mi"}, args...)
				if code != command.ExitNothingWritten || !strings.Contains(out, which) || strings.Contains(out, "goroutine ") {
					t.Errorf("%v: exit code %d: %s", args, code, tailOf(out, 2000))
				}
				if mib > 2000 {
					t.Errorf("%v took %d MiB", args, mib)
				}
			}
		})
	}
}

// program returns the path of lockstep as a separate program.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lockstep")
	if err := os.Symlink(self, path); err != nil { // the test binary is lockstep by that name
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+t.TempDir()), env...)
	return cmd
}

// runProgram runs lockstep as a separate process. It returns the output, the exit code and the peak
// memory in MiB, 0 if unknown.
func runProgram(t *testing.T, env []string, args ...string) (out string, code int, mib int64) {
	t.Helper()
	cmd := program(t, env, args...)
	text, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode(), peak(cmd.ProcessState)
}
