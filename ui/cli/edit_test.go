package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/engine/plan"
	"lockstep/kube/throwaway/testcluster"
	"lockstep/ui/report"
)

// TestEditOnScreen pauses before a group, edits the values in an editor, reviews the changes and
// continues as the next revision. Then it changes the chart and renders it again (R46).
func TestEditOnScreen(t *testing.T) {
	t.Parallel()
	chart := t.TempDir()
	write := func(name, text string) { writeFiles(t, chart, map[string]string{name: text}) }
	object := func(name, word, annotations string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\ndata: {word: " + word + "}\n"
	}
	first := "helm.sh/resource-group: first"
	write("Chart.yaml", "apiVersion: v2\nname: edited\nversion: 1.0.0\n")
	write("templates/first.yaml", object("first", "same", first))
	write("templates/last.yaml", object("last", "{{ .Values.word | quote }}, number: {{ .Values.number | quote }}", `helm.sh/resource-group: last, helm.sh/depends-on/resource-groups: '["first"]'`))
	cluster, state := testcluster.Get(t), t.TempDir()
	c := inTerminal(t, 30, 100, []string{"KUBECONFIG=" + cluster.Kubeconfig, "EDITOR=sed -i s/wrong/right/", "XDG_STATE_HOME=" + state},
		"install", "edited", chart, "-n", "edited", "--create-namespace", "--set", "word=wrong,number=1000000", "--break-on", "last")
	c.await(0, "paused: breakpoint")
	m := c.mark()
	c.keys("e")
	c.await(m, "1 to change")
	c.await(m, "review edit")
	c.press("\r", "of revision 2")
	c.press("c", "paused: breakpoint")
	m = c.mark()
	write("templates/first.yaml", object("first", "other", first))
	c.await(m, "press E to render it again")
	m = c.mark()
	c.keys("E")
	c.await(m, "ConfigMap/first")
	c.await(m, "word: other")
	c.press("\r", "of revision 3")
	c.press("c", "paused: breakpoint")
	c.press("c", "press q to quit")
	c.done()
	for what, want := range map[string]string{"values": "word: right", "manifest": "word: other"} {
		if out := helm(t, []string{"KUBECONFIG=" + cluster.Kubeconfig}, "get", what, "edited", "-n", "edited"); !strings.Contains(out, want) {
			t.Errorf("helm get %s:\n%s", what, out)
		}
	}
	r, err := report.ReadRecord(filepath.Join(state, "lockstep", "runs"), report.Runs(filepath.Join(state, "lockstep", "runs"))[0])
	if err != nil {
		t.Fatal(err)
	}
	last, name := len(r.Events), plan.Object{Kind: "ConfigMap", Namespace: "edited", Name: "last"}
	for at, want := range map[int]string{1: "word: wrong", last: "word: right"} { // a replay shows the manifest of each revision
		if text := r.Manifest(name, at); !strings.Contains(text, want) {
			t.Errorf("manifest at event %d: got\n%s\nwant %q in it", at, text, want)
		}
	}
	if text := r.Manifest(name, last); !strings.Contains(text, `number: "1000000"`) {
		t.Errorf("a value that was not edited has changed:\n%s", text)
	}
	name.Name = "first"
	if text := r.Manifest(name, last); !strings.Contains(text, "word: other") {
		t.Errorf("the record does not have the changed manifest:\n%s", text)
	}
}

// TestEditOnAttachedScreen edits values of another process's run, which are saved to a private file
// on this side (R46, R47).
func TestEditOnAttachedScreen(t *testing.T) {
	m, dir := newMachine(t), t.TempDir()
	testcluster.Helm(t) // go finds it only in the module
	t.Chdir(dir)
	chart := writeChart(t, map[string]string{
		"Chart.yaml":         "apiVersion: v2\nname: s\nversion: 1.0.0\n",
		"templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: all}\ndata: {word: {{ .Values.word | quote }}}\n",
	})
	out, ends := m.start("install", "s", chart, "-n", "attachededit", "--create-namespace", "--no-tui", "--step", "--set", "word=wrong")
	m.waitPaused()
	c := inTerminal(t, 30, 100, append([]string{"EDITOR=sed -i s/wrong/right/"}, m.env...), "attach", "s")
	c.await(0, "paused")
	c.press("e", "word: right")
	c.press("\x13", "values saved to values-s.yaml") // ctrl+s
	c.press("\r", "of revision 1")
	c.press("c", "press q to quit")
	c.done()
	if code := ends(); code != 0 {
		t.Errorf("the run: exit code %d\n%s", code, out)
	}
	file := filepath.Join(dir, "values-s.yaml")
	text, err := os.ReadFile(file)
	if info, unseen := os.Stat(file); err != nil || unseen != nil || string(text) != "word: right\n" || info.Mode() != 0o600 {
		t.Errorf("the file has %q: %v, %v", text, err, unseen)
	}
	if out := helm(t, m.env, "get", "all", "s", "-n", "attachededit"); !strings.Contains(out, "word: right") || !strings.Contains(out, `word: "right"`) {
		t.Errorf("helm get all:\n%s", out)
	}
}
