package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v3"
)

// TestWorkflow lints the example workflow for GitHub with actionlint, and with it the inputs of the action that it calls.
func TestWorkflow(t *testing.T) {
	path := "../examples/ci/github.yml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{IgnorePatterns: []string{`label "lockstep" is unknown`}})
	if err != nil {
		t.Fatal(err)
	}
	project, err := actionlint.NewProject("..")
	if err != nil {
		t.Fatal(err)
	}
	found, err := l.Lint(path, text, project)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		t.Errorf("%s: %v", path, e)
	}
}

// lintCI skips a test that downloads linters, except in make lint-ci.
func lintCI(t *testing.T) {
	if os.Getenv("LINT_CI") == "" {
		t.Skip("run make lint-ci")
	}
}

// TestArgoWorkflow checks the WorkflowTemplate against the schema of its CRD.
func TestArgoWorkflow(t *testing.T) {
	lintCI(t)
	out, err := exec.Command("go", "mod", "download", "-json", "github.com/argoproj/argo-workflows/v4@v4.0.5").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	checkWithCRD(t, "../examples/ci/argo-workflow.yaml", filepath.Join(module.Dir, "manifests/base/crds/full/argoproj.io_workflowtemplates.yaml"))
}

// TestTektonTask checks the names that the Task uses, and with TEKTON_CRD its fields against the schema of its CRD.
func TestTektonTask(t *testing.T) {
	lintCI(t)
	lint := func(t *testing.T, text string) error {
		file := filepath.Join(t.TempDir(), "task.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return npx(t, "", "@ibm/tekton-lint@1.1.0", file)
	}
	checkBoth(t, "../examples/ci/tekton.yaml", "$(params.release)", "$(params.nosuch)", lint)
	if crd := os.Getenv("TEKTON_CRD"); crd != "" {
		checkWithCRD(t, "../examples/ci/tekton.yaml", crd)
	}
}

// TestGitLabComponent includes the component in a pipeline, which gitlab-ci-local checks against GitLab's schema.
func TestGitLabComponent(t *testing.T) {
	lintCI(t)
	lint := func(t *testing.T, text string) error {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"lockstep.yml":   text,
			".gitlab-ci.yml": "include: [{local: lockstep.yml, inputs: {image: i, release: shop, chart: ./shop}}]\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range []string{
			"init -q", "remote add origin git@gitlab.example:group/project.git", "symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main",
			"add .", "-c user.name=a -c user.email=a@example.com commit -q -m a",
		} {
			cmd := exec.Command("git", strings.Fields(args)...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %s: %v: %s", args, err, out)
			}
		}
		return npx(t, dir, "gitlab-ci-local@4.65.1", "--list")
	}
	checkBoth(t, "../examples/ci/gitlab.yml", "resource_group:", "nosuch:", lint)
}

// npx runs a program of an npm package in dir.
func npx(t *testing.T, dir string, args ...string) error {
	cmd := exec.Command("npx", append([]string{"--yes"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("npx %s: %v\n%s", strings.Join(args, " "), err, out)
	return err
}

// checkBoth expects lint to accept a file, and to refuse it with old replaced by mistake.
func checkBoth(t *testing.T, path, old, mistake string, lint func(*testing.T, string) error) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := lint(t, string(text)); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	if wrong := strings.Replace(string(text), old, mistake, 1); lint(t, wrong) == nil {
		t.Errorf("%s: the mistake %s was not found", path, mistake)
	}
}

// checkWithCRD checks a file like an API server that has the CRD and refuses unknown fields.
func checkWithCRD(t *testing.T, path, crd string) {
	t.Helper()
	text, err := os.ReadFile(crd)
	if err != nil {
		t.Fatal(err)
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Storage bool
				Schema  struct {
					OpenAPI map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	for _, version := range definition.Spec.Versions {
		if !version.Storage {
			continue
		}
		refuseUnknown(version.Schema.OpenAPI)
		encoded, err := json.Marshal(version.Schema.OpenAPI)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(encoded, &schema); err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		checkBoth(t, path, "script:", "nosuch:", func(t *testing.T, text string) error {
			var object any
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			return resolved.Validate(object)
		})
		return
	}
	t.Errorf("%s has no version", crd)
}

// refuseUnknown changes the schema of a CRD: a field that it does not know is an error.
func refuseUnknown(schema map[string]any) {
	_, fields := schema["properties"]
	_, more := schema["additionalProperties"]
	if fields && !more && schema["x-kubernetes-preserve-unknown-fields"] != true {
		schema["additionalProperties"] = false
	}
	for key, value := range schema {
		switch value := value.(type) {
		case map[string]any:
			if key == "properties" {
				for _, field := range value {
					refuseUnknown(field.(map[string]any))
				}
			} else if key == "items" || key == "additionalProperties" {
				refuseUnknown(value)
			}
		}
	}
}
