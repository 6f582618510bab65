package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/cli"
)

// TestSlowPlugin expects that the time limit of a try starts only after the credential plugin, because the user may have to
// log in: the request is sent once.
func TestSlowPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, tries := newTestTransport(operationContext(t), nil)
		x.plugin = true
		inner := credentialed{roundTripper(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(5 * time.Second):
				return response(200, someObject), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})}
		x.next = roundTripper(func(r *http.Request) (*http.Response, error) {
			tries.Add(1)
			time.Sleep(time.Minute)
			return inner.RoundTrip(r)
		})
		if resp, err := x.RoundTrip(request(t.Context(), "GET", "/version", "")); err != nil || resp.StatusCode != 200 || tries.Load() != 1 {
			t.Errorf("%v, %v after %d tries", resp, err, tries.Load())
		}
	})
}

// TestPluginWithoutEnd (R54): a call ends with its context, although client-go waits for the plugin without one.
func TestPluginWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := newTestTransport(operationContext(t), nil)
		x.plugin = true
		stop := make(chan struct{})
		x.next = roundTripper(func(*http.Request) (*http.Response, error) {
			<-stop
			return nil, errors.New("the plugin was waited for")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := x.RoundTrip(request(ctx, "GET", "/version", ""))
		if err == nil || !noCredentials(err) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		close(stop)
	})
}

// TestPluginRunsOnce expects that all clients of a process, including Helm's own, share the credentials of a plugin.
func TestPluginRunsOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the plugin is a shell script")
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer given" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"major":"1","minor":"37","gitVersion":"v1.37.0"}`)
	}))
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	calls := filepath.Join(dir, "calls")
	plugin := write("plugin", "#!/bin/sh\necho called >> "+calls+`
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"given"}}'
`, 0o700)
	s := cli.New()
	s.KubeConfig = write("config", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "`+server.URL+`", insecure-skip-tls-verify: true}}],
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: `+plugin+`, interactiveMode: Never}}}]}`, 0o600)
	c, err := New(s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		bound, err := c.Bind(t.Context(), &Writes{})
		if err != nil {
			t.Fatal(err)
		}
		if err := bound.CheckReachable(t.Context()); err != nil {
			t.Error(err)
		}
		helm, err := bound.Helm("default")
		if err != nil {
			t.Fatal(err)
		}
		if err := helm.Client.IsReachable(); err != nil {
			t.Error(err)
		}
	}
	config, err := s.RESTClientGetter().ToDiscoveryClient() // Helm's own client
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.ServerVersion(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(calls)
	if n := strings.Count(string(text), "called"); err != nil || n != 1 {
		t.Errorf("the plugin ran %d times (%v)", n, err)
	}
}
