package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSign: openssl accepts the signature of the checksums, also the one in the bundle, and refuses that of other checksums.
// sha256sum finds all files, and the provenance names those that were built, with the commit.
func TestSign(t *testing.T) {
	for _, tool := range []string{"openssl", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no " + tool)
		}
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	must(t, "", "openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
	one, two := signed(t, key), signed(t, key)
	entries, err := os.ReadDir(one)
	if err != nil || len(entries) != 7 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if !bytes.Equal(read(t, one, e.Name()), read(t, two, e.Name())) {
			t.Errorf("%s differs", e.Name())
		}
	}
	must(t, one, "sha256sum", "--strict", "--check", sumsName)
	must(t, one, "openssl", "dgst", "-sha256", "-verify", "lockstep.pub", "-signature", sumsName+".sig", sumsName)
	if out, err := command(one, "openssl", "dgst", "-sha256", "-verify", "lockstep.pub", "-signature", sumsName+".sig", provenanceName).CombinedOutput(); err == nil {
		t.Errorf("another file is accepted: %s", out)
	}
	var bundle struct {
		MediaType            string
		VerificationMaterial struct{ PublicKey struct{ Hint string } }
		MessageSignature     struct {
			MessageDigest struct {
				Algorithm string
				Digest    []byte
			}
			Signature []byte
		}
	}
	decode(t, read(t, one, sumsName+".sigstore.json"), &bundle)
	digest := sha256.Sum256(read(t, one, sumsName))
	if m := bundle.MessageSignature; !bytes.Equal(m.Signature, read(t, one, sumsName+".sig")) || m.MessageDigest.Algorithm != "SHA2_256" || !bytes.Equal(m.MessageDigest.Digest, digest[:]) ||
		bundle.MediaType != "application/vnd.dev.sigstore.bundle.v0.3+json" || bundle.VerificationMaterial.PublicKey.Hint == "" {
		t.Errorf("bundle: %+v", bundle)
	}
	var statement struct {
		Type          string `json:"_type"`
		Subject       []subject
		PredicateType string
		Predicate     struct {
			BuildDefinition struct {
				BuildType            string
				ExternalParameters   map[string]string
				ResolvedDependencies []struct {
					Name   string
					Digest map[string]string
				}
			}
			RunDetails struct {
				Builder  struct{ ID string }
				Metadata map[string]string
			}
		}
	}
	decode(t, read(t, one, provenanceName), &statement)
	if d := statement.Predicate.BuildDefinition; len(d.ResolvedDependencies) != 1 || d.ResolvedDependencies[0].Digest["gitCommit"] != "abc" || d.ExternalParameters["version"] != "v1.2.3" {
		t.Errorf("%+v", d)
	}
	if len(statement.Subject) != 2 {
		t.Errorf("%+v", statement.Subject)
	}
	for _, s := range statement.Subject {
		if sum := fmt.Sprintf("%x", sha256.Sum256(read(t, one, s.Name))); s.Digest["sha256"] != sum {
			t.Errorf("%+v, want %s", s, sum)
		}
	}
}

// signed returns a release of two files.
func signed(t *testing.T, key string) string {
	t.Helper()
	dist := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dist, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(dist, build{Commit: "abc", Time: "2026-01-02T03:04:05Z", Version: "v1.2.3"}, key); err != nil {
		t.Fatal(err)
	}
	return dist
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return cmd
}

func must(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if out, err := command(dir, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
