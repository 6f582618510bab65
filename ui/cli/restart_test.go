package cli

import "testing"

// TestRestartInSandbox pauses before a group on a throwaway cluster, changes the chart, and restarts
// the run on a new cluster with the changed chart.
func TestRestartInSandbox(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	chart := t.TempDir()
	write := func(name, text string) { writeFiles(t, chart, map[string]string{name: text}) }
	object := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {word: {{ .Values.word | quote }}}\n"
	}
	write("Chart.yaml", "apiVersion: v2\nname: anew\nversion: 1.0.0\n")
	write("templates/object.yaml", object("before"))
	c := inTerminal(t, 30, 100, nil, "install", "anew", chart, "--sandbox", "--set", "word=kept", "--step")
	c.await(0, "ConfigMap/before")
	c.await(0, "Z restart")
	write("templates/object.yaml", object("after"))
	m := c.mark()
	c.keys("Z")
	c.await(m, "starting a throwaway cluster")
	c.await(m, "ConfigMap/after")
	c.press("c", "press q to quit")
	c.done()
	c.await(m, "install anew done in")
}
