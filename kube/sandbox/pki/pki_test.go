package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/client-go/tools/clientcmd"
)

// Certificates and tokens remain valid when the authority is opened again.
func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	p, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.Certificate(KubeletServer)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := p.WriteKubeconfig(file, "https://127.0.0.1:1", Admin); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Leaf.Verify(x509.VerifyOptions{Roots: again.Pool()}); err != nil {
		t.Error(err)
	}
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := tokenfile.NewCSV(again.Path(Tokens))
	if err != nil {
		t.Fatal(err)
	}
	who, ok, err := tokens.AuthenticateToken(t.Context(), c.AuthInfos[Admin.Name].Token)
	if err != nil || !ok || who.User.GetName() != Admin.Name || !slices.Equal(who.User.GetGroups(), []string{Admin.Group}) {
		t.Errorf("the token authenticates %+v, %v, %v", who, ok, err)
	}
	if _, ok, _ := tokens.AuthenticateToken(t.Context(), ""); ok {
		t.Error("an empty token authenticates a user")
	}
	for _, f := range []string{file, again.Path(Tokens)} {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
}

func TestCanOverwrite(t *testing.T) {
	dir := t.TempDir()
	p, err := Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(dir, "ours")
	if err := p.WriteKubeconfig(ours, "https://127.0.0.1:1", Scheduler); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for file, want := range map[string]bool{
		ours:               true,
		write("empty", ""): true,
		write("foreign", "apiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster: {server: https://prod.example}\n"): false,
		write("text", "hello"):     false,
		filepath.Join(dir, "none"): false,
	} {
		if got := CanOverwrite(file); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
}
