package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/ui/cli/command"
)

// callingChart is a chart with an app that calls a database, without a declared order.
func callingChart(t *testing.T) string {
	t.Helper()
	deployment := func(name, env string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: " + name + "\nspec:\n  selector: {matchLabels: {app: " + name + "}}\n" +
			"  template:\n    metadata: {labels: {app: " + name + "}}\n    spec: {containers: [{name: main, image: app:1, env: [" + env + "]}]}\n"
	}
	return writeChart(t, map[string]string{
		"Chart.yaml":         "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/db.yaml":  "apiVersion: v1\nkind: Service\nmetadata:\n  name: db\nspec: {selector: {app: db}, ports: [{port: 5432}]}\n---\n" + deployment("db", ""),
		"templates/web.yaml": deployment("web", "{name: DATABASE_HOST, value: db}"),
	})
}

// TestSuggestWrites: suggest, --order=inferred and the written annotations give the same order (R68,
// R69).
func TestSuggestWrites(t *testing.T) {
	noCluster(t)
	dir := callingChart(t)
	plan := func(args ...string) string {
		t.Helper()
		out, _, err := runCommand(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	declared := plan("dag", dir)
	inferred := plan("dag", dir, "--order=inferred")
	if declared == inferred || !strings.Contains(inferred, "after shop:db") {
		t.Fatalf("inferred order:\n%s", inferred)
	}
	if out := plan("suggest", dir); !strings.HasPrefix(out, inferred) {
		t.Errorf("suggested order:\n%s\nwant\n%s", out, inferred)
	}
	if out := plan("template", "t", dir, "--order=inferred"); strings.Index(out, "START resource-group: shop db") > strings.Index(out, "START resource-group: shop web") ||
		strings.Contains(out, "helm.sh/") {
		t.Errorf("template prints\n%s", out)
	}
	if out := plan("suggest", dir, "--write"); !strings.Contains(out, "added 7 lines to 2 files") || !strings.HasSuffix(out, "\nreview the changes: git diff "+dir+"\nsee the order: lockstep dag "+dir+"\n") {
		t.Errorf("--write prints\n%s", out)
	}
	if got := plan("dag", dir); got != inferred {
		t.Errorf("written order:\n%s\nwant\n%s", got, inferred)
	}
	if out := plan("suggest", dir, "--write", "-o", "json"); !strings.Contains(out, `"files": []`) || !strings.Contains(out, `"left": []`) {
		t.Errorf("--write again prints\n%s", out)
	}
	if out := plan("suggest", dir, "--write"); !strings.HasSuffix(out, "already declares the whole order; nothing to write\n") {
		t.Errorf("--write again prints\n%s", out)
	}
	unordered := writeChart(t, map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	})
	if out := plan("suggest", unordered, "--write"); !strings.HasSuffix(out, ": no dependencies between groups found; nothing to write\n") {
		t.Errorf("without an order, --write prints\n%s", out)
	}
}

// TestSuggestSkipsUnsafeEdits: if an edit is unsafe, suggest --write names it with the lines to add and
// writes nothing (R69, R69a). With --partial it writes the groups that do not wait for the one with that
// edit.
func TestSuggestSkipsUnsafeEdits(t *testing.T) {
	noCluster(t)
	dir := callingChart(t)
	file := filepath.Join(dir, "templates/web.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	made := strings.Replace(string(text), "  name: web\n", "  name: web\n  annotations: {a: b}\n", 1)
	if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _, err := runCommand("suggest", dir, "--write")
	if command.ExitCode(err) != command.ExitNothingWritten || err == nil || !strings.Contains(err.Error(), "1 part of chart shop cannot be written, so nothing was written; --partial writes the rest") {
		t.Errorf("error %v, exit %d", err, command.ExitCode(err))
	}
	for _, part := range []string{"not written:", "templates/web.yaml:3 Deployment/web", "helm.sh/resource-group: web", `helm.sh/depends-on-resource-groups: '["db"]'`} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in the output:\n%s", part, out)
		}
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != made {
		t.Errorf("the file was changed to\n%s", now)
	}
	if out, _, err := runCommand("suggest", dir, "--write", "--partial"); err != nil || !strings.Contains(out, "added 4 lines to 1 file") || !strings.Contains(out, "templates/web.yaml:3 Deployment/web") {
		t.Errorf("--partial prints\n%s%v", out, err)
	}
	if out, _, _ := runCommand("suggest", dir, "--write", "--spelling=hip"); !strings.Contains(out, `helm.sh/depends-on/resource-groups: '["db"]'`) {
		t.Errorf("--spelling=hip prints\n%s", out)
	}
	for _, args := range [][]string{{"suggest", dir, "--write", "--tui"}, {"suggest", dir, "--write", "-o", "dot"}, {"suggest", dir, "--spelling=hip"}, {"suggest", dir, "--partial"}, {"template", "t", dir, "--order=inferred", "--wait=legacy"}} {
		if _, _, err := runCommand(args...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// TestSuggestWarns: suggest warns about dropped edges in every mode, as dag does, and prints each warning once
// (R63, R66).
func TestSuggestWarns(t *testing.T) {
	noCluster(t)
	dir := callingChart(t)
	job := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: init\n  annotations:\n    helm.sh/resource-grup: a\nspec:\n" +
		"  template:\n    spec: {restartPolicy: Never, containers: [{name: main, image: app:1, env: [{name: WEB_URL, value: 'http://web'}]}]}\n"
	service := "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec: {selector: {app: web}, ports: [{port: 80}]}\n"
	if err := os.WriteFile(filepath.Join(dir, "templates/init.yaml"), []byte(job+service), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"dag", dir, "--order=inferred"}, {"suggest", dir}, {"suggest", dir, "-o", "json"}, {"suggest", dir, "--write"}} {
		_, warnings, err := runCommand(args...)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"warning: ignored: Job/init waits for Deployment/web (env WEB_URL names Service/web), because nothing proves that", "resource-grup is unknown"} {
			if strings.Count(warnings, want) != 1 {
				t.Errorf("%q warns\n%s\nwant once: %s", args, warnings, want)
			}
		}
	}
}

// TestLintFindsContradictions: lint reports declared orders that contradict references between objects
// (R70).
func TestLintFindsContradictions(t *testing.T) {
	noCluster(t)
	dir := writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  annotations: {helm.sh/resource-group: late, helm.sh/depends-on-resource-groups: '[\"api\"]'}\n---\n" +
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: api\n  annotations: {helm.sh/resource-group: api}\nspec: {containers: [{name: a, image: a, envFrom: [{configMapRef: {name: settings}}]}]}\n",
	})
	out, _, err := runCommand("lint", dir)
	if err == nil || !strings.Contains(out, "api waits for nothing, but Pod/api needs ConfigMap/settings in group late, which comes after it") {
		t.Errorf("%v\n%s", err, out)
	}
}
