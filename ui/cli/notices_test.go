package cli

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/ui/trace/receiver"
)

// TestNotices: the notices of a run, with the screen and without; nothing that lockstep prints or records has their URL.
func TestNotices(t *testing.T) {
	t.Parallel()
	chart := tracedChart(t)
	for _, screen := range []bool{false, true} {
		t.Run(fmt.Sprint(screen), func(t *testing.T) {
			t.Parallel()
			to, m := receiver.Start(), newMachine(t)
			defer to.Close()
			ns, url := fmt.Sprintf("notices-%v", screen), to.URL+receiver.NoticesPath+"?token=s3cr3t"
			args := []string{"install", "shop", chart, "-n", ns, "--create-namespace", "--set", "mode=crash", "--notify", url, "--approve-before", "shop:db"}
			steer := func() {
				awaitNotices(t, to, 2)
				m.run(0, "ctl", "shop", "-n", ns, "approve")
				awaitNotices(t, to, 3)
				m.run(0, "ctl", "shop", "-n", ns, "give-up")
				awaitNotices(t, to, 4)
			}
			if screen {
				inTerminal(t, 40, 140, m.env, args...)
				steer()
			} else {
				out, ends := m.start(append(args, "--no-tui", "--hold-on-failure")...)
				steer()
				if code := ends(); code != 1 || strings.Contains(out.String(), "s3cr3t") || !strings.Contains(out.String(), "--notify '…'") {
					t.Errorf("exit code %d:\n%s", code, out)
				}
			}
			var types []string
			for _, n := range to.Notices() {
				var e struct{ Type string }
				if err := json.Unmarshal([]byte(n), &e); err != nil {
					t.Fatal(err)
				}
				types = append(types, strings.TrimPrefix(e.Type, "lockstep.run."))
			}
			if got := strings.Join(types, " "); got != "started waiting-for-approval held failed" {
				t.Errorf("notices: %s\n%s", got, strings.Join(to.Notices(), "\n"))
			}
			if last := to.Notices()[3]; !strings.Contains(last, `"cause":"container main exited with code 3: no relation users"`) {
				t.Errorf("the last notice: %s", last)
			}
			for _, e := range m.env {
				if dir, ok := strings.CutPrefix(e, "XDG_STATE_HOME="); ok {
					noText(t, dir, "s3cr3t")
				}
			}
		})
	}
}

// awaitNotices waits for a number of notices.
func awaitNotices(t *testing.T, to *receiver.Receiver, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(to.Notices()) < n; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d notices, want %d:\n%s", len(to.Notices()), n, strings.Join(to.Notices(), "\n"))
		}
	}
}

// noText checks that no file in a folder has a text.
func noText(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			t.Errorf("%s has %s", path, text)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTelemetryInCluster: a run in the cluster sends its own traces and notices, in the trace of the pipeline; the Job has none of the
// secrets, which are in a Secret.
func TestTelemetryInCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "telemetry"
	to, m, client := receiver.Start(), newMachine(t), inNamespace(t, ns)
	defer to.Close()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("k3y-0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.env = append(m.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=s3cr3t", "LOCKSTEP_NOTIFY="+to.URL+receiver.NoticesPath+"?token=s3cr3t",
		"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	out := m.run(0, "install", "s", filepath.Join(data, "charts", "plain"), "-n", ns, "--in-cluster", "--service-account", "runner", "--no-tui", "--notify-key-file", key)
	awaitNotices(t, to, 2)
	for end := time.Now().Add(time.Minute); len(to.Spans()) == 0 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	root := receiver.Named(to.Spans(), "install s")
	if root == nil || hex.EncodeToString(root.ParentSpanId) != "b7ad6b7169203331" {
		t.Errorf("the span of the run: %v", root)
	}
	notices := strings.Join(to.Notices(), "\n")
	_, headers, err := to.Received()
	signed := slices.ContainsFunc(headers, func(h http.Header) bool { return strings.HasPrefix(h.Get("Webhook-Signature"), "v1,") })
	if err != nil || len(to.Notices()) != 2 || !strings.Contains(notices, "lockstep.run.started") || !strings.Contains(notices, "lockstep.run.done") || !signed {
		t.Errorf("%v, signed %v, notices:\n%s", err, signed, notices)
	}
	jobs, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(jobs.Items) != 1 {
		t.Fatalf("%d Jobs, %v", len(jobs.Items), err)
	}
	if text := fmt.Sprint(jobs.Items) + out; strings.Contains(text, "s3cr3t") || strings.Contains(text, "k3y-") {
		t.Errorf("a secret in the Job or the output:\n%s", text)
	}
}

// TestTelemetryOfAReplacedPod: the pods of a run make one trace, below one span of the run, and tell once that it started.
func TestTelemetryOfAReplacedPod(t *testing.T) {
	limitedParallel(t)
	const ns = "telemetry-replaced"
	to, m, client := receiver.Start(), newMachine(t), inNamespace(t, ns)
	defer to.Close()
	m.env = append(m.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL, "OTEL_BSP_SCHEDULE_DELAY=100", "LOCKSTEP_NOTIFY="+to.URL+receiver.NoticesPath)
	_, ends := m.startInCluster(ns, "install", "shop", tracedChart(t), "--break-on", "shop:web")
	m.runUntil("ctl shop status -n "+ns, "paused")
	for end := time.Now().Add(time.Minute); receiver.Named(to.Spans(), "shop:db") == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	replacePod(t, client, ns, "shop")
	m.runUntil("ctl shop status -n "+ns, "paused")
	m.run(0, "ctl", "shop", "continue", "-n", ns)
	if code := ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	awaitNotices(t, to, 2)
	for end := time.Now().Add(time.Minute); receiver.Named(to.Spans(), "install shop") == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	if all := to.Notices(); len(all) != 2 || !strings.Contains(all[0], "lockstep.run.started") || !strings.Contains(all[1], "lockstep.run.done") {
		t.Errorf("notices:\n%s", strings.Join(all, "\n"))
	}
	all := to.Spans()
	root := receiver.Root(all)
	seen := map[string]bool{}
	for _, s := range all {
		if hex.EncodeToString(s.TraceId) != hex.EncodeToString(root.TraceId) || seen[string(s.SpanId)] || s != root && len(s.ParentSpanId) == 0 {
			t.Errorf("span %s: %x in trace %x, below %x", s.Name, s.SpanId, s.TraceId, s.ParentSpanId)
		}
		seen[string(s.SpanId)] = true
	}
	if tree := receiver.Tree(all, root, ""); strings.Count(tree, "\n  prepare\n") != 2 || strings.Count(tree, "\n  shop:db\n") != 2 || strings.Count(tree, "\n  shop:web\n") != 1 {
		t.Errorf("spans:\n%s", tree)
	}
}

// TestTelemetryOfAKilledRun: a run that a signal aborts sends its end; one that is killed has sent what came before.
func TestTelemetryOfAKilledRun(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			to, m := receiver.Start(), newMachine(t)
			defer to.Close()
			m.env = append(m.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+to.URL, "OTEL_BSP_SCHEDULE_DELAY=100")
			_, ends := m.start("install", "shop", tracedChart(t), "-n", "signalled-"+signal.String(), "--create-namespace", "--no-tui", "--approve-before", "shop:db",
				"--notify", to.URL+receiver.NoticesPath)
			awaitNotices(t, to, 2)
			for end := time.Now().Add(time.Minute); receiver.Named(to.Spans(), "pre-install:Job/migrate") == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			}
			if err := m.last.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			code, root, notices := ends(), receiver.Named(to.Spans(), "install shop"), to.Notices()
			if receiver.Named(to.Spans(), "pre-install:Job/migrate") == nil {
				t.Error("what ended before was not sent")
			}
			if signal == syscall.SIGKILL {
				if root != nil || len(notices) != 2 {
					t.Errorf("the killed run sent %v, %d notices", root, len(notices))
				}
				return
			}
			if code != 3 || root == nil || receiver.Attribute(root, "error.type") != "aborted" || receiver.Attribute(root, "lockstep.exit") != "3" {
				t.Errorf("exit code %d, span %v", code, root)
			}
			if len(notices) != 3 || !strings.Contains(notices[2], "lockstep.run.failed") || !strings.Contains(notices[2], `"status":"aborted"`) {
				t.Errorf("notices:\n%s", strings.Join(notices, "\n"))
			}
		})
	}
}
