package connect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"helm.sh/helm/v4/pkg/cli"
)

// TestConnectionsShareCredentials: once a connection has read a new token, all use it (R53).
func TestConnectionsShareCredentials(t *testing.T) {
	var tokens []string
	accepted := "Bearer old"
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		if tokens = append(tokens, token); token != accepted {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"major": "1", "minor": "36"}`)
	}))
	defer api.Close()
	dir := t.TempDir()
	token, kubeconfig := filepath.Join(dir, "token"), filepath.Join(dir, "kubeconfig")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "old")
	write(kubeconfig, fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {tokenFile: %q}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", api.URL, token))
	settings := cli.New()
	settings.KubeConfig, settings.KubeContext = kubeconfig, ""
	first, err := New(settings, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.Bind(t.Context(), &Writes{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c *Client) {
		t.Helper()
		if err := c.Clientset.Discovery().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error(); err != nil {
			t.Error(err)
		}
	}
	ask(first)
	ask(second)
	write(token, "new")
	accepted = "Bearer new"
	ask(first)
	ask(second)
	if want := []string{"Bearer old", "Bearer old", "Bearer old", "Bearer new", "Bearer new"}; !slices.Equal(tokens, want) {
		t.Errorf("tokens %q, want %q", tokens, want)
	}
}
