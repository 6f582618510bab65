package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestValuesInTheCluster: a run in the cluster renders the same as one on this machine: a number from --set stays an
// integer, and the bytes of a binary file stay what they are.
func TestValuesInTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "values-in-cluster"
	inNamespace(t, ns)
	m, dir := newMachine(t), t.TempDir()
	writeFiles(t, dir, map[string]string{
		"chart/Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"chart/templates/map.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {number: {{ .Values.number | quote }}, bytes: {{ .Values.bytes | b64enc | quote }}}
`,
		"keys":          "\xfe\xed\xfe\xed\x00\x02",
		"helmfile.yaml": fmt.Sprintf("releases:\n- {name: packed, namespace: %s, chart: ./chart, set: [{name: number, value: 1000000}, {name: bytes, file: keys}]}\n", ns),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	given := []string{"--set", "number=1000000", "--set-file", "bytes=" + at("keys")}
	m.run(0, append([]string{"install", "local", at("chart"), "-n", ns, "--no-tui"}, given...)...)
	in := []string{"-n", ns, "--in-cluster", "--service-account", "runner", "--no-tui"}
	m.run(0, append(append([]string{"install", "job", at("chart")}, given...), in...)...)
	m.run(0, append([]string{"up", "-f", at("helmfile.yaml")}, in...)...)
	want := m.run(0, "get", "manifest", "local", "-n", ns)
	if !strings.Contains(want, `number: "1000000", bytes: "/u3+7QAC"`) {
		t.Errorf("the manifest is %s", want)
	}
	for _, release := range []string{"job", "packed"} {
		if s := m.run(0, "get", "manifest", release, "-n", ns); strings.ReplaceAll(s, `"`+release+`"`, `"local"`) != want {
			t.Errorf("in the cluster, the manifest is %s", s)
		}
	}
}
