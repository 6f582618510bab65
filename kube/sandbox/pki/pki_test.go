package pki

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// An authority that is opened again vouches for what it issued before.
func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	p, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := p.WriteKubeconfig(file, "https://127.0.0.1:1", "me", "system:masters"); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(c.AuthInfos["me"].ClientCertificateData)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: again.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if cert.Subject.CommonName != "me" || cert.Subject.Organization[0] != "system:masters" {
		t.Errorf("issued to %v", cert.Subject)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info.Mode(), err)
	}
	if _, err := again.Certificate(KubeletServer); err != nil {
		t.Error(err)
	}
}

func TestIsKubeconfig(t *testing.T) {
	dir := t.TempDir()
	p, err := Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(dir, "ours")
	if err := p.WriteKubeconfig(ours, "https://127.0.0.1:1", "me", ""); err != nil {
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
		if got := IsKubeconfig(file); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
}
