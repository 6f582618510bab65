package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// receiver keeps the requests that it gets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	header []http.Header
}

func newReceiver(t *testing.T, answer func(n int) int) *receiver {
	r := &receiver{}
	n := 0
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		n++
		status := answer(n)
		if status == http.StatusOK {
			r.bodies, r.header = append(r.bodies, string(body)), append(r.header, req.Header)
		}
		r.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

// sample are the events of a run that waits for an approval, is held and fails.
func sample() []event.Event {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod, exit := &plan.Object{Kind: "Pod", Namespace: "shop", Name: "api"}, 1
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "shop", Namespace: "shop", Context: "c/1", Chart: "shop-1.0.0"}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{
			{ID: "shop:db", Objects: []plan.Object{*pod}, Approve: []plan.Approval{{Of: "shop:db", Reason: "drops <users>"}}},
		}}}},
		{Kind: event.KindGroup, Phase: "apply", Group: "shop:db", Status: event.AtBreakpoint, Code: event.Unapproved},
		{Kind: event.KindRun, Status: event.Paused, Code: event.Unapproved},
		{Kind: event.KindRun, Status: event.Running},
		{Kind: event.KindGroup, Phase: "apply", Group: "shop:db", Status: event.Running},
		{Kind: event.KindObject, Phase: "apply", Group: "shop:db", Object: pod, Status: event.Failed, Cause: "exited with code 3"},
		{Kind: event.KindGroup, Phase: "apply", Group: "shop:db", Status: event.Failed, Object: pod, Cause: "exited with code 3", Evidence: []string{"no ```relation``` <users>"}},
		{Kind: event.KindRun, Status: event.Held, Message: "shop:db failed"},
		{Kind: event.KindOperation, Status: event.Failed, Exit: &exit, Outcome: "the release is marked failed"},
	}
	for n := range events {
		events[n].Seq, events[n].Time = uint64(n+1), at.Add(time.Duration(n)*time.Second)
	}
	return events
}

func sentTo(t *testing.T, keyFile string, urls ...string) error {
	t.Helper()
	n, err := Start(urls, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range sample() {
		n.Consume(e)
	}
	return n.Close()
}

// TestCloudEvents: each notice is a signed CloudEvent, in order, and says what happened.
func TestCloudEvents(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("whsec_"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := newReceiver(t, func(int) int { return 200 })
	if err := sentTo(t, keyFile, to.URL+"/hook?x=1"); err != nil {
		t.Fatal(err)
	}
	want := []struct{ kind, message string }{
		{Started, "install shop started, namespace shop, chart shop-1.0.0"},
		{Approval, "install shop: shop:db waits for approval: drops <users>"},
		{Held, "install shop is held: shop:db failed"},
		{Failed, "install shop failed: Pod/api: exited with code 3; the release is marked failed"},
	}
	if len(to.bodies) != len(want) {
		t.Fatalf("notices:\n%s", strings.Join(to.bodies, "\n"))
	}
	ids := map[string]bool{}
	for n, w := range want {
		var e struct {
			SpecVersion, ID, Source, Type, Subject, DataContentType string
			Time                                                    time.Time
			Data                                                    struct {
				Message, Cause, Operation, Release string
				Exit                               *int
				Evidence                           []string
			}
		}
		if err := json.Unmarshal([]byte(to.bodies[n]), &e); err != nil {
			t.Fatal(err)
		}
		if e.SpecVersion != "1.0" || e.Source != "lockstep/c%2F1/shop/shop" || e.Type != w.kind || e.Subject != "shop" || e.DataContentType != "application/json" ||
			e.Time.IsZero() || ids[e.ID] || e.ID == "" || e.Data.Message != w.message || e.Data.Operation != "install" || e.Data.Release != "shop" {
			t.Errorf("notice %d: %s", n, to.bodies[n])
		}
		ids[e.ID] = true
		if failed := w.kind == Failed; failed != (e.Data.Exit != nil) || failed && (e.Data.Cause != "exited with code 3" || !slices.Equal(e.Data.Evidence, []string{"no ```relation``` <users>"})) {
			t.Errorf("notice %d: %s", n, to.bodies[n])
		}
		h := to.header[n]
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + to.bodies[n]))
		if h.Get("webhook-id") != e.ID || h.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) || !strings.HasPrefix(h.Get("Content-Type"), "application/cloudevents+json") {
			t.Errorf("header of notice %d: %v", n, h)
		}
	}
}

// TestContinue: a run that another process has begun has started once.
func TestContinue(t *testing.T) {
	to := newReceiver(t, func(int) int { return 200 })
	n, err := Start([]string{to.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	n.Continue()
	for _, e := range sample() {
		n.Consume(e)
	}
	if err := n.Close(); err != nil || len(to.bodies) != 3 || !strings.Contains(to.bodies[0], Approval) {
		t.Errorf("%v, notices:\n%s", err, strings.Join(to.bodies, "\n"))
	}
}

// TestSlack: Slack gets its own messages, without links and mentions from charts.
func TestSlack(t *testing.T) {
	to := newReceiver(t, func(int) int { return 200 })
	if err := sentTo(t, "", "slack+"+to.URL+"/services/T/B/s3cret"); err != nil {
		t.Fatal(err)
	}
	if want := `{"text":"install shop failed: Pod/api: exited with code 3; the release is marked failed\n` + "```" + `\nno '''relation''' &lt;users&gt;\n` + "```" + `"}`; to.bodies[3] != want {
		t.Errorf("%s\nwant\n%s", to.bodies[3], want)
	}
}

// TestRetries: a notice is sent again after an error of the server, and before the next one.
func TestRetries(t *testing.T) {
	to := newReceiver(t, func(n int) int {
		if n == 2 {
			return 503
		}
		return 200
	})
	n, err := Start([]string{to.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range sample() {
		n.Consume(e)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		to.mu.Lock()
		all := len(to.bodies)
		to.mu.Unlock()
		if all == 4 {
			break
		}
	}
	if err := n.Close(); err != nil || len(to.bodies) != 4 || !strings.Contains(to.bodies[1], Approval) || !strings.Contains(to.bodies[3], Failed) {
		t.Errorf("%v\n%s", err, strings.Join(to.bodies, "\n"))
	}
}

// TestUnsent: a receiver that refuses, answers with errors or hangs delays the end only for a moment; the error has no secrets.
func TestUnsent(t *testing.T) {
	gone := newReceiver(t, func(int) int { return 200 })
	gone.Close()
	ends := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ends }))
	t.Cleanup(func() { close(ends); hangs.Close() })
	for name, c := range map[string]struct {
		url, says string
		limit     time.Duration
	}{
		"refused": {gone.URL, "connection refused", flushTimeout},
		"404":     {newReceiver(t, func(int) int { return 404 }).URL, "404 Not Found", flushTimeout},
		"500":     {newReceiver(t, func(int) int { return 500 }).URL, "500 Internal Server Error", flushTimeout},
		"hangs":   {hangs.URL, "no answer", 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := sentTo(t, "", strings.Replace(c.url, "://", "://user:s3cret@", 1)+"/s3cret?token=s3cret")
			if err == nil || !strings.HasPrefix(err.Error(), "4 notices for 127.0.0.1:") || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error: %v", err)
			}
			if took := time.Since(start); took > c.limit {
				t.Errorf("waited %s", took)
			}
		})
	}
}

// TestFlags: errors name the flag, not the URL, which may be a secret.
func TestFlags(t *testing.T) {
	short := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, key, want string
	}{
		{"ftp://h/s3cret", "", "--notify: URL with an unknown scheme"},
		{"s3cret", "", "--notify: invalid URL"},
		{"https://h/%zz-s3cret", "", "--notify: invalid URL"},
		{"slack+ftp://h/s3cret", "", "--notify: URL with an unknown scheme"},
		{"https://h", "/does-not-exist", "--notify-key-file: open /does-not-exist: no such file"},
		{"https://h", short, "the key is too short"},
	} {
		if _, err := Start([]string{c.url}, c.key); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", c.url, err, c.want)
		}
	}
	if _, err := Start(nil, short); err == nil {
		t.Error("a key without a URL is accepted")
	}
	if n, err := Start(nil, ""); n != nil || err != nil || n.Close() != nil {
		t.Errorf("no URL: %v, %v", n, err)
	}
}
