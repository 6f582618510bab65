// Command sign completes the directory of a release: it writes how the files were built (provenance.json, SLSA 1.0 as in-toto
// JSON), the checksums of all files (SHA256SUMS), and with a key their signature, once as DER for openssl and once as a
// Sigstore bundle for cosign. The same files, commit and key give the same bytes.
//
//	sign -dist DIST -commit SHA -time RFC3339 [-version V] [-key FILE]
package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	sumsName       = "SHA256SUMS"
	provenanceName = "provenance.json"
)

func main() {
	var b build
	dist := flag.String("dist", "dist", "directory of the release")
	flag.StringVar(&b.Commit, "commit", "", "the commit that was built")
	flag.StringVar(&b.Time, "time", "", "time of the commit, RFC 3339")
	flag.StringVar(&b.Version, "version", "", "version that was given to the build")
	key := flag.String("key", "", "file with a private ECDSA key (P-256, PEM without a passphrase); without it, nothing is signed")
	flag.Parse()
	if err := run(*dist, b, *key); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func run(dist string, b build, keyFile string) error {
	files, err := digests(dist)
	if err != nil {
		return err
	}
	statement, err := indented(b.statement(files))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dist, provenanceName), statement, 0o644); err != nil {
		return err
	}
	if files, err = digests(dist); err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", f.Digest["sha256"], f.Name)
	}
	if err := os.WriteFile(filepath.Join(dist, sumsName), sums.Bytes(), 0o644); err != nil || keyFile == "" {
		return err
	}
	key, err := readKey(keyFile)
	if err != nil {
		return err
	}
	return sign(dist, sums.Bytes(), key)
}

// subject is a file of the release.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// digests returns the files of a directory, sorted by name.
func digests(dir string) (files []subject, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, subject{e.Name(), map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256(data))}})
	}
	return files, nil
}

// build is what a release was built from.
type build struct{ Commit, Time, Version string }

// statement returns the provenance in the format of SLSA 1.0.
func (b build) statement(files []subject) any {
	type object = map[string]any
	parameters := object{"target": "release"}
	if b.Version != "" {
		parameters["version"] = b.Version
	}
	return object{
		"_type": "https://in-toto.io/Statement/v1", "subject": files, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType": "urn:lockstep:make:1", "externalParameters": parameters,
				"resolvedDependencies": []object{{"name": "lockstep", "digest": object{"gitCommit": b.Commit}}},
			},
			"runDetails": object{"builder": object{"id": "urn:lockstep:make:1"}, "metadata": object{"startedOn": b.Time}},
		},
	}
}

func indented(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}

// readKey reads a key as openssl and "cosign import-key-pair" take it: PKCS 8 or SEC 1.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			parsed, err = x509.ParseECPrivateKey(block.Bytes)
		}
		if key, ok := parsed.(*ecdsa.PrivateKey); ok && err == nil && key.Curve == elliptic.P256() {
			return key, nil
		}
	}
	return nil, errors.New(path + " has no private ECDSA key on curve P-256; make one with: openssl ecparam -name prime256v1 -genkey -noout -out key.pem")
}

// sign writes the signature of the checksums, as DER and in a Sigstore bundle. It is deterministic (RFC 6979).
func sign(dist string, sums []byte, key *ecdsa.PrivateKey) error {
	digest := sha256.Sum256(sums)
	signature, err := key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	id := sha256.Sum256(public)
	type object = map[string]any
	bundle, err := indented(object{
		"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": object{"publicKey": object{"hint": base64.StdEncoding.EncodeToString(id[:])}},
		"messageSignature": object{
			"messageDigest": object{"algorithm": "SHA2_256", "digest": digest[:]}, "signature": signature,
		},
	})
	if err != nil {
		return err
	}
	var pub strings.Builder
	if err := pem.Encode(&pub, &pem.Block{Type: "PUBLIC KEY", Bytes: public}); err != nil {
		return err
	}
	for name, data := range map[string][]byte{sumsName + ".sig": signature, sumsName + ".sigstore.json": bundle, "lockstep.pub": []byte(pub.String())} {
		if err := os.WriteFile(filepath.Join(dist, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
