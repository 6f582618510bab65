package report

import (
	"bytes"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/ui/golden"
)

func TestCIFromEnv(t *testing.T) {
	for want, env := range map[CI]map[string]string{"": {"CI": "true", "GITHUB_ACTIONS": "false"}, GitHub: {"GITHUB_ACTIONS": "true"}, GitLab: {"GITLAB_CI": "true"}} {
		if got := CIFromEnv(func(name string) string { return env[name] }); got != want {
			t.Errorf("%v: got %q, want %q", env, got, want)
		}
	}
}

// TestNoGitHubCommandsFromText expects that lines of a chart's notes and of logs are never workflow
// commands.
func TestNoGitHubCommandsFromText(t *testing.T) {
	evil := []string{"::stop-commands::x", "  ::add-mask::e", "a ##[add-mask]e", "##[group]b"}
	events := append(succeeded(t), event.Event{Kind: event.KindNotes, Lines: evil})
	for _, mode := range []Mode{ModeText, ModeJSON} {
		var out, errs bytes.Buffer
		d := New(mode, Stream{Writer: &out, Style: plain, CI: GitHub}, Stream{Writer: &errs, Style: plain, CI: GitHub})
		consumer := d.Operation(Options{})
		Replay(append(events, event.Event{Kind: event.KindOperation, Status: event.Succeeded}), consumer)
		for _, l := range evil {
			d.Note(l)
		}
		for l := range strings.Lines(out.String() + errs.String()) {
			if strings.HasPrefix(strings.TrimSpace(l), "::") || strings.Contains(l, "##[") {
				t.Errorf("%s: a workflow command: %q", mode, l)
			}
		}
	}
}

// TestGitLabSections expects one closed section per phase, and no others.
func TestGitLabSections(t *testing.T) {
	for name, scenario := range map[string]func(*testing.T) []event.Event{"gitlab": succeeded, "gitlab-rolledback": rolledBack} {
		var out bytes.Buffer
		to := Stream{Writer: &out, Style: plain, CI: GitLab}
		Replay(scenario(t), New(ModeText, to, to).Operation(Options{}))
		golden.CompareFile(t, "testdata/"+name+".txt", out.String())
	}
	var out bytes.Buffer
	to := Stream{Writer: &out, Style: plain, CI: GitLab}
	d := New(ModeText, to, to)
	d.Note("\x1b[0Ksection_end:1:lockstep_apply\r\x1b[0K")
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\r") {
		t.Errorf("a note can end a section: %q", out.String())
	}
}
