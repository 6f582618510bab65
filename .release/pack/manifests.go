package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// formula is the Homebrew formula: brew install --formula lockstep.rb.
var formula = template.Must(template.New("formula").Parse(`class Lockstep < Formula
  desc "Deploys Helm charts in order"
  homepage "{{.Homepage}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{range .Systems}}
  on_{{.Name}} do
{{- range .Platforms}}
    on_{{.Processor}} do
      url "{{.URL}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "lockstep"
    bin.install_symlink "lockstep" => "kubectl-lockstep"
    bash_completion.install "completions/lockstep.bash" => "lockstep"
    zsh_completion.install "completions/_lockstep"
    fish_completion.install "completions/lockstep.fish"
    man1.install "man/lockstep.1"
    doc.install "README.md", "LICENSES.txt", "examples"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lockstep version --short")
  end
end
`))

type brewPlatform struct{ Processor, URL, Sum string }

// writeManifests writes the manifests of package managers that download the archives.
func (r *release) writeManifests(platforms []platform) error {
	scoop := map[string]any{}
	var brew struct {
		Homepage, Version string
		Systems           []struct {
			Name      string
			Platforms []brewPlatform
		}
	}
	brew.Homepage, brew.Version = r.download, r.version
	krew := strings.Builder{}
	fmt.Fprintf(&krew, krewHead, r.version, r.download)
	for _, system := range []struct{ os, brew string }{{"darwin", "macos"}, {"linux", "linux"}, {"windows", ""}} {
		var found []brewPlatform
		for _, p := range platforms {
			if p.os != system.os {
				continue
			}
			url := strings.TrimSuffix(r.download, "/") + "/" + p.archive
			found = append(found, brewPlatform{map[string]string{"amd64": "intel", "arm64": "arm"}[p.arch], url, p.sum})
			fmt.Fprintf(&krew, krewPlatform, p.os, p.arch, url, p.sum, p.program())
			if p.os == "windows" {
				scoop[map[string]string{"amd64": "64bit", "arm64": "arm64"}[p.arch]] = map[string]any{"url": url, "hash": p.sum}
			}
		}
		if system.brew != "" && len(found) > 0 {
			brew.Systems = append(brew.Systems, struct {
				Name      string
				Platforms []brewPlatform
			}{system.brew, found})
		}
	}
	var ruby bytes.Buffer
	if err := formula.Execute(&ruby, brew); err != nil {
		return err
	}
	bucket, err := json.MarshalIndent(map[string]any{
		"version": r.version, "description": description, "homepage": r.download, "license": "Apache-2.0", "architecture": scoop,
		"bin": []any{"lockstep.exe", []string{"lockstep.exe", "kubectl-lockstep"}},
	}, "", "    ")
	if err != nil {
		return err
	}
	manifests := map[string][]byte{"lockstep.rb": ruby.Bytes(), "krew.yaml": []byte(krew.String())}
	if slices.ContainsFunc(platforms, func(p platform) bool { return p.os == "windows" }) {
		manifests["scoop.json"] = append(bucket, '\n')
	}
	for name, data := range manifests {
		if err := os.WriteFile(filepath.Join(r.dist, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// krewHead is the start of the krew manifest: version and homepage.
const krewHead = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: lockstep
  annotations:
    artifacthub.io/category: integration-delivery
    artifacthub.io/license: Apache-2.0
    artifacthub.io/keywords: helm,deployment,order,dependencies
spec:
  version: v%s
  homepage: %s
  shortDescription: Deploys Helm charts in order
  description: |
    Deploys the groups of objects in a Helm chart in the order that the chart
    declares or implies, each once everything it needs is ready. You can watch,
    pause and step through a deployment.
  platforms:
`

// krewPlatform is a platform of the krew manifest.
const krewPlatform = `  - selector:
      matchLabels: {os: %s, arch: %s}
    uri: %s
    sha256: %s
    bin: %s
    files:
    - {from: "*", to: "."}
`
