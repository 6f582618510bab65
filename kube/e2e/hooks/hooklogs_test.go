package hooks

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/kube/e2e/rig"
)

// loggingHook returns a hook whose Job prints a line that its output-log policy shows.
func loggingHook(name, when, weight string, more map[string]string) string {
	annotations := map[string]string{"helm.sh/hook": when, "helm.sh/hook-weight": weight, "helm.sh/hook-output-log-policy": "hook-succeeded,hook-failed"}
	for k, v := range more {
		annotations[k] = v
	}
	return strings.Replace(rig.Job(name, annotations, "100ms", "  backoffLimit: 0"), "{sandbox/run-duration: 100ms}",
		`{sandbox/run-duration: 100ms, sandbox/log: "this is `+name+`"}`, 1)
}

// assertLogs compares the log events of hooks by group with want. Each event must have the
// object of its hook.
func assertLogs(out rig.Outcome, t *testing.T, want map[string]string) {
	t.Helper()
	for id, line := range want {
		phase, name, _ := strings.Cut(id, ":")
		g := out.State.Find(phase, id)
		if g == nil || len(g.Objects) != 1 {
			t.Errorf("%s: no such group, or it has other objects: %+v", id, g)
			continue
		}
		if o := g.Objects[0]; !slices.Equal(o.Log, []string{line}) || o.Object.Kind+"/"+o.Object.Name != name {
			t.Errorf("%s: the state has the log %q of %s, want %q", id, o.Log, o.Object, line)
		}
	}
	for _, e := range out.Events {
		if e.Kind != event.KindLog {
			continue
		}
		if _, name, _ := strings.Cut(e.Group, "/"); !strings.HasPrefix(e.Message, "Pod/"+name+"-") {
			t.Errorf("the log event of %s has the message %q, which does not name its pod", e.Group, e.Message)
		}
	}
}

// TestLogsOfHooks: log events belong to the right hook: if several succeed (Helm prints them in reverse order), if one is
// deleted by its policy, if one fails, and if one Job runs in two hook events (R29).
func TestLogsOfHooks(t *testing.T) {
	t.Parallel()
	deleted := map[string]string{"helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded,hook-failed"}
	t.Run("succeeded", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		out := r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), loggingHook("first", "pre-install", "1", nil), loggingHook("second", "pre-install", "2", deleted),
			loggingHook("third", "pre-install,post-install", "3", nil)), nil)))
		assertLogs(out, t, map[string]string{"pre-install:Job/first": "this is first", "pre-install:Job/second": "this is second",
			"pre-install:Job/third": "this is third", "post-install:Job/third": "this is third"})
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		bad := strings.Replace(loggingHook("bad", "post-install", "2", deleted), "sandbox/log", `sandbox/exit-code: "1", sandbox/log`, 1)
		op, err := r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), loggingHook("good", "post-install", "1", nil), bad), nil))
		assertLogs(r.MustFail(op, err, "post-install:Job/bad"), t, map[string]string{"post-install:Job/bad": "this is bad"})
	})
}

// TestLastLineOfAHooksLog: a last line without a newline is shown too.
func TestLastLineOfAHooksLog(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Client = r.ConnectThrough(rig.Interceptor{ModifyResponse: func(response *http.Response) error {
		if !strings.HasSuffix(response.Request.URL.Path, "/log") {
			return nil
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		text = bytes.TrimSuffix(text, []byte("\n"))
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		response.Header.Del("Content-Length")
		return err
	}}, "")
	out := r.MustRun(r.Install("plain", rig.UseChart(rig.ChartOf(t, rig.ConfigMap("a", nil), loggingHook("only", "pre-install", "1", nil)), nil)))
	assertLogs(out, t, map[string]string{"pre-install:Job/only": "this is only"})
}
