package main

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// pluginVersion matches the version in plugin.yaml.
var pluginVersion = regexp.MustCompile(`(?m)^version: .*$`)

// writePlugin writes the archive of the Helm plugin for a platform, and its provenance if there is a key. Helm names the
// plugin's folder by what precedes the version in the archive's name, and expects a folder of that name in it.
func (r *release) writePlugin(p platform) error {
	manifest, err := os.ReadFile(filepath.Join(r.source, "plugin.yaml"))
	if err != nil {
		return err
	}
	manifest = pluginVersion.ReplaceAll(manifest, []byte("version: "+r.version))
	files := []file{{name: "lockstep/plugin.yaml", data: manifest}, {name: "lockstep/bin/" + p.program(), from: p.binary, program: true}}
	for _, f := range r.common {
		if f.name == "LICENSE" || f.name == "LICENSES.txt" {
			f.name = "lockstep/" + f.name
			files = append(files, f)
		}
	}
	data, err := tarGz(files, r.time)
	if err != nil {
		return err
	}
	name := r.pluginName(p)
	if err := os.WriteFile(filepath.Join(r.dist, name), data, 0o644); err != nil {
		return err
	}
	var signed []byte
	if r.pgpKey != "" {
		if signed, err = r.provenance(name, manifest, data); err == nil {
			err = os.WriteFile(filepath.Join(r.dist, name+".prov"), signed, 0o644)
		}
		if err != nil {
			return fmt.Errorf("provenance of the Helm plugin: %w", err)
		}
	}
	if r.pluginRepository != "" {
		return r.pushPlugin(p, data, signed)
	}
	return nil
}

// pluginName is the name of the plugin's archive. "-" and digits before a dot end the plugin's name for Helm, so only the
// first such place may be one.
func (r *release) pluginName(p platform) string {
	number, rest, _ := strings.Cut(r.version, "-")
	version := strings.TrimSuffix(number+"-"+strings.ReplaceAll(rest, ".", "_"), "-")
	return fmt.Sprintf("lockstep-%s-helm-plugin-%s-%s.tgz", version, p.os, p.arch)
}

// provenance returns what Helm checks: plugin.yaml and the digest of the archive, signed. It is the same each time.
func (r *release) provenance(name string, manifest, archive []byte) ([]byte, error) {
	key, err := os.Open(r.pgpKey)
	if err != nil {
		return nil, err
	}
	defer key.Close()
	keys, err := openpgp.ReadArmoredKeyRing(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; export it with: gpg --export-secret-keys --armor", r.pgpKey, err)
	}
	if keys[0].PrivateKey == nil || keys[0].PrivateKey.Encrypted {
		return nil, fmt.Errorf("%s has no private key, or one with a passphrase", r.pgpKey)
	}
	salted := false
	var out bytes.Buffer
	w, err := clearsign.Encode(&out, keys[0].PrivateKey, &packet.Config{
		DefaultHash: crypto.SHA512, Time: func() time.Time { return r.time }, NonDeterministicSignaturesViaNotation: &salted,
	})
	if err != nil {
		return nil, err
	}
	// "..." ends the YAML document, because "---" has another meaning in signed text.
	// Helm saves an archive that it pulls from a registry as NAME-VERSION.tgz.
	if _, err := fmt.Fprintf(w, "%s\n...\nfiles:\n  %s: sha256:%x\n  lockstep-%s.tgz: sha256:%[3]x\n", manifest, name, sha256.Sum256(archive), r.version); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
