package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/kube/throwaway/testcluster"
)

// pipeline is a CI system's way to run lockstep in a folder: its files are in examples/ci and .github/actions.
type pipeline struct {
	file string
	// step returns the script of the plan or of the deployment, with its arguments, as the system would run it in dir, and the
	// variables that the system sets.
	step func(t *testing.T, text, dir string, plan bool) (script string, args, env []string)
	// outputs are the files with the exit code and the outcome, in dir, and the text that is in them.
	outputs func(code, outcome string) map[string]string
}

var pipelines = map[string]pipeline{
	"github": {"../../.github/actions/deploy/action.yml", githubStep, func(code, outcome string) map[string]string {
		return map[string]string{"outputs": "exit-code=" + code + "\noutcome=" + outcome + "\n"}
	}},
	"gitlab": {"../../examples/ci/gitlab.yml", gitlabStep, func(code, outcome string) map[string]string {
		return map[string]string{"deploy.env": "DEPLOY_EXIT_CODE=" + code + "\nDEPLOY_OUTCOME=" + outcome + "\n"}
	}},
	"tekton": {"../../examples/ci/tekton.yaml", tektonStep, func(code, outcome string) map[string]string {
		return map[string]string{"exit-code": code, "outcome": outcome}
	}},
	"argo": {"../../examples/ci/argo-workflow.yaml", argoStep, func(code, outcome string) map[string]string {
		return map[string]string{"exit-code": code + "\n", "outcome": outcome + "\n"}
	}},
}

// TestCI runs the scripts of each CI system, as it would run them: the plan is saved and commented, then it is deployed, with a
// report, and the exit code and the outcome as outputs. Deploying the plan again is refused.
func TestCI(t *testing.T) {
	limitedParallel(t)
	kubeconfig := testcluster.Get(t).Kubeconfig
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range pipelines {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(p.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte("\n")); n > 40 {
				t.Errorf("%s has %d lines, at most 40 are meant to be read", p.file, n)
			}
			dir := writeChart(t, map[string]string{
				"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "shop/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: \"{{ .Values.v }}\"}\n",
				"bin/gh":   "#!/bin/sh\necho \"$@\" >comment.args; cat \"$5\" >comment\n",
				"bin/curl": "#!/bin/sh\necho \"$@\" >comment.args; cat plan.md >comment\n",
			})
			for _, stub := range []string{"bin/gh", "bin/curl"} {
				if err := os.Chmod(filepath.Join(dir, stub), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(self, filepath.Join(dir, "bin/lockstep")); err != nil { // the test binary is lockstep by that name
				t.Fatal(err)
			}
			run := func(plan bool, code int) {
				t.Helper()
				script, args, env := p.step(t, string(text), dir, plan)
				cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", script, "script"}, args...)...)
				cmd.Dir = dir
				cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "XDG_STATE_HOME="+dir), env...)
				out, _ := cmd.CombinedOutput()
				if got := cmd.ProcessState.ExitCode(); got != code {
					t.Fatalf("exit code %d, want %d\n%s", got, code, out)
				}
			}
			check := func(file, want string) {
				t.Helper()
				if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(got), want) {
					t.Errorf("%s: %q, %v; want %q", file, got, err, want)
				}
			}
			run(true, 0)
			if name == "github" || name == "gitlab" {
				check("comment", "| ConfigMap/a | create |")
				check("comment.args", "7")
			}
			run(false, 0)
			check("lockstep.xml", `<testsuites name="install shop"`)
			for file, want := range p.outputs("0", "done") {
				check(file, want)
			}
			run(false, 2)
			for file, want := range p.outputs("2", "refused") {
				check(file, want)
			}
		})
	}
}

// strictly reads a file of a CI system: a field that is not in into is an error.
func strictly(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// described is a parameter with a description.
type described struct {
	Name, Description, Value, Type string
	Default                        any
	Required                       bool
}

func githubStep(t *testing.T, text, dir string, plan bool) (script string, args, env []string) {
	var action struct {
		Name, Description string
		Inputs, Outputs   map[string]described
		Runs              struct {
			Using string
			Steps []struct {
				ID, Shell, Run string
				Env            map[string]string
			}
		}
	}
	strictly(t, text, &action)
	values := map[string]string{"release": "shop", "chart": "./shop", "namespace": "ci-github", "arguments": "--create-namespace --settle=0", "plan": "false", "token": "x"}
	if values["plan"] = "false"; plan {
		values["plan"] = "true"
	} else {
		values["arguments"] += " --plan lockstep.plan"
	}
	step := action.Runs.Steps[0]
	if action.Runs.Using != "composite" || len(action.Runs.Steps) != 1 || step.Shell != "bash" || len(action.Inputs) != len(values) {
		t.Errorf("%+v", action)
	}
	for _, out := range []string{"exit-code", "outcome"} {
		if action.Outputs[out].Value != "${{ steps."+step.ID+".outputs."+out+" }}" {
			t.Errorf("output %s: %+v", out, action.Outputs[out])
		}
	}
	for name, value := range step.Env {
		if in, ok := strings.CutPrefix(value, "${{ inputs."); ok {
			value = values[strings.TrimSuffix(in, " }}")]
		} else if value == "${{ github.event.pull_request.number }}" {
			value = "7"
		} else {
			t.Errorf("%s=%s", name, value)
		}
		env = append(env, name+"="+value)
	}
	if err := os.Remove(filepath.Join(dir, "outputs")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	// gh pr comment 7 --body-file FILE
	return step.Run, nil, append(env, "GITHUB_OUTPUT="+filepath.Join(dir, "outputs"), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"))
}

func gitlabStep(t *testing.T, text, dir string, plan bool) (script string, args, env []string) {
	head, jobs, _ := strings.Cut(text, "\n---\n")
	var spec struct {
		Spec struct{ Inputs map[string]described }
	}
	strictly(t, head, &spec)
	values := map[string]string{"image": "i", "release": "shop", "chart": "./shop", "namespace": "ci-gitlab", "environment": "production", "arguments": "--create-namespace --settle=0"}
	var replace []string
	for name, value := range values {
		if _, ok := spec.Spec.Inputs[name]; !ok {
			t.Errorf("no input %s", name)
		}
		replace = append(replace, "$[[ inputs."+name+" ]]", value)
	}
	type job struct {
		Stage, Image  string
		Needs         []string
		Rules         []struct{ If, When string }
		Script        []string
		Environment   struct{ Name string }
		ResourceGroup string `json:"resource_group"`
		Artifacts     struct {
			When    string
			Paths   []string
			Reports struct{ JUnit, Dotenv string }
		}
	}
	var all map[string]job
	strictly(t, jobs, &all) // GitLab reads the YAML before it replaces the inputs
	strictly(t, strings.NewReplacer(replace...).Replace(jobs), &all)
	deploy := all["lockstep-deploy"]
	if len(all) != 2 || deploy.Environment.Name != "production" || deploy.Rules[0].When != "manual" || deploy.Artifacts.Reports.JUnit != "lockstep.xml" || deploy.Artifacts.Reports.Dotenv != "deploy.env" {
		t.Errorf("%+v", all)
	}
	if plan {
		deploy = all["lockstep-plan"]
	}
	return "set -e\n" + strings.Join(deploy.Script, "\n"), nil, []string{"CI_MERGE_REQUEST_IID=7", "COMMENT_TOKEN=x", "CI_API_V4_URL=https://gitlab.example/api/v4", "CI_PROJECT_ID=7"}
}

func tektonStep(t *testing.T, text, dir string, plan bool) (script string, args, env []string) {
	var task struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Params, Workspaces, Results []described
			Steps                       []struct {
				Name, Image, WorkingDir, Script string
				Args                            []string
			}
		}
	}
	strictly(t, text, &task)
	if task.Kind != "Task" || len(task.Spec.Steps) != 1 || len(task.Spec.Results) != 2 || task.Spec.Steps[0].WorkingDir != "$(workspaces."+task.Spec.Workspaces[0].Name+".path)" {
		t.Errorf("%+v", task)
	}
	command := "deploy"
	if plan {
		command = "plan"
	}
	values := strings.NewReplacer("$(params.command)", command, "$(params.release)", "shop", "$(params.chart)", "./shop", "$(params.namespace)", "ci-tekton",
		"$(results.exit-code.path)", filepath.Join(dir, "exit-code"), "$(results.outcome.path)", filepath.Join(dir, "outcome"))
	for _, arg := range task.Spec.Steps[0].Args {
		if arg == "$(params.arguments[*])" {
			args = append(args, "--create-namespace", "--settle=0")
			continue
		}
		args = append(args, values.Replace(arg))
	}
	return values.Replace(task.Spec.Steps[0].Script), args, nil
}

func argoStep(t *testing.T, text, dir string, plan bool) (script string, args, env []string) {
	type put struct {
		Name, Path, From, Value string
		ValueFrom               struct{ Path string }
	}
	type puts struct{ Parameters, Artifacts []put }
	type step struct {
		Name, Template string
		Arguments      puts
	}
	var workflow struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Entrypoint, ServiceAccountName string
			Arguments                      puts
			Templates                      []struct {
				Name            string
				Inputs, Outputs puts
				Suspend         *struct{}
				Steps           [][]step
				Script          struct {
					Image, Source string
					Command       []string
				}
			}
		}
	}
	strictly(t, text, &workflow)
	var order []string
	for _, template := range workflow.Spec.Templates {
		for _, steps := range template.Steps {
			order = append(order, steps[0].Template)
		}
		if template.Name == "approve" && template.Suspend == nil {
			t.Error("nobody has to approve")
		}
		if template.Name == "plan" && plan || template.Name == "deploy" && !plan {
			script = template.Script.Source
		}
	}
	if strings.Join(order, " ") != "plan approve deploy" || workflow.Kind != "WorkflowTemplate" {
		t.Errorf("%+v", workflow)
	}
	values := strings.NewReplacer("{{workflow.parameters.release}}", "shop", "{{workflow.parameters.chart}}", "./shop", "{{workflow.parameters.namespace}}", "ci-argo",
		"{{workflow.parameters.arguments}}", "--create-namespace --settle=0", "/tmp/", dir+"/")
	return values.Replace(script), nil, nil
}

// TestCIExamples reads the workflow for GitHub and the keys for k9s: they use what exists.
func TestCIExamples(t *testing.T) {
	text, err := os.ReadFile("../../examples/ci/github.yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		On, Concurrency map[string]any
		Permissions     map[string]string
		Jobs            map[string]struct {
			RunsOn      []string `json:"runs-on"`
			If, Needs   string
			Environment string
			Steps       []struct {
				Uses, Run, If string
				With          map[string]string
			}
		}
	}
	strictly(t, strings.Replace(string(text), "\non:", "\n\"on\":", 1), &workflow) // "on" is true in YAML 1.1
	if workflow.Jobs["deploy"].Environment != "production" || workflow.Jobs["deploy"].Needs != "plan" {
		t.Errorf("%+v", workflow.Jobs)
	}
	action, err := os.ReadFile("../../.github/actions/deploy/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, job := range workflow.Jobs {
		for _, s := range job.Steps {
			for input := range s.With {
				if s.Uses == "./.github/actions/deploy" && !strings.Contains(string(action), "\n  "+input+": {") {
					t.Errorf("job %s: the action has no input %s", name, input)
				}
			}
		}
	}
	if text, err = os.ReadFile("../../examples/k9s/plugins.yaml"); err != nil {
		t.Fatal(err)
	}
	var k9s struct {
		Plugins map[string]struct {
			ShortCut, Description, Command string
			Scopes, Args                   []string
			Background                     bool
		}
	}
	strictly(t, string(text), &k9s)
	root := newRoot(nil)
	for name, p := range k9s.Plugins {
		_, command, _ := strings.Cut(name, "-")
		if _, _, err := root.Find([]string{command}); err != nil || p.Scopes[0] != "helm" || !strings.Contains(strings.Join(p.Args, " "), command) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if len(k9s.Plugins) != 2 {
		t.Errorf("%+v", k9s)
	}
}
