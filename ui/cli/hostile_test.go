package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lockstep/engine/text"
	"lockstep/ui/report"
)

// hostile has control sequences and bidirectional characters, escaped for double quotes in YAML and
// Go templates. It contains no colour that lockstep uses.
const hostile = `v\u001b[2J\u001b[8m\u001b]0;t\u0007\u009b31m\u202e\u2066\u200f\u2028\u200b\ufeff\u007fw`

// hostileChart has hostile text everywhere in a chart.
func hostileChart(t *testing.T) string {
	return writeChart(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\ndescription: \"" + hostile + "\"\nappVersion: \"" + hostile + "\"\n",
		"templates/a.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"a%[1]s\"\n  annotations:\n    helm.sh/resource-group: \"db%[1]s\"\n"+
			"    helm.sh/readiness-success: '[\"{.a} == 1\"]'\n"+
			"data:\n  raw: {{ \"v\\u202e\\u200bw\" }}\n---\n"+
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"b%[1]s\"\n  annotations:\n    helm.sh/resource-group: \"web\"\n    helm.sh/depends-on-resource-groups: '[\"db%[1]s\",\"none%[1]s\"]'\n", hostile),
		"templates/NOTES.txt": `{{ "` + hostile + `" }}`,
		"templates/fail.yaml": `{{ if .Values.fail }}{{ fail "` + hostile + `" }}{{ end }}`,
	})
}

// unsafeIn returns the first unsafe sequence in an output.
func unsafeIn(out string, own *regexp.Regexp) string {
	out = own.ReplaceAllString(out, "")
	for i, r := range out {
		if r != '\n' && r != '\t' && !text.Safe(r) {
			return fmt.Sprintf("%U in %q", r, out[max(0, i-40):min(len(out), i+40)])
		}
	}
	return ""
}

var (
	none    = regexp.MustCompile(`$^`)
	colours = regexp.MustCompile(`\x1b\[[0-9;]*m|\r\n`)
	harmful = regexp.MustCompile(`\x1b\[[0-9;]*(?:\b8|4[0-9])m`)
)

// TestHostileTextIsRemoved runs the commands without a cluster on a hostile chart, into a pipe.
func TestHostileTextIsRemoved(t *testing.T) {
	noCluster(t)
	dir := hostileChart(t)
	for _, args := range [][]string{
		{"dag", dir}, {"suggest", dir}, {"suggest", dir, "-o", "json"}, {"dag", dir, "-o", "json"}, {"dag", dir, "-o", "dot"}, {"dag", dir, "-o", "mermaid"},
		{"lint", dir}, {"lint", dir, "-o", "json"}, {"template", dir, "--set", "fail=1"}, {"dag", dir, "--set", "fail=1"},
		{"install", "x", dir, "--dry-run=client", "-o", "json"},
	} {
		out, errs, err := runCommand(args...)
		if found := unsafeIn(out+errs, none); found != "" {
			t.Errorf("%v: %s", args, found)
		}
		if err == nil {
			if !strings.Contains(out, "w") {
				t.Errorf("%v prints nothing: %q", args, out)
			}
			continue
		}
		if strings.Contains(err.Error(), "YAML parse") {
			t.Fatal(err)
		}
		var said strings.Builder
		printError(report.NewNotices(report.Stream{Writer: &said}), err)
		if found := unsafeIn(said.String(), none); found != "" || !strings.HasPrefix(said.String(), "error: ") {
			t.Errorf("%v: %s", args, found)
		}
	}
}

// TestHostileTextInATerminal: on a terminal, hostile text is removed from the output of template as well.
func TestHostileTextInATerminal(t *testing.T) {
	noCluster(t)
	dir := hostileChart(t)
	for _, args := range [][]string{
		{"template", dir}, {"dag", dir}, {"lint", dir}, {"install", "x", dir, "--dry-run=client"}, {"install", "x", dir, "--set", "fail=1", "--dry-run=client"},
		{"__complete", "install", "x", dir, "--break-on", ""},
	} {
		term := inTerminal(t, 40, 100, nil, args...)
		term.ends()
		out := term.raw()
		if !strings.Contains(out, "v") || harmful.MatchString(out) {
			t.Errorf("%v: %q", args, out)
		}
		if found := unsafeIn(out, colours); found != "" {
			t.Errorf("%v: %s", args, found)
		}
	}
	raw, _, err := runCommand("template", dir)
	if err != nil || !strings.Contains(raw, "v\u202e\u200bw") {
		t.Errorf("template changes its output to a pipe: %v\n%q", err, raw)
	}
}
