// Command release completes a release: it makes the SBOMs reproducible, so that repeated builds give the same bytes, and
// writes the modules in the binaries with their licence texts to a file.
//
//	release -source DIR -time RFC3339 -licenses FILE SBOM...
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	source := flag.String("source", ".", "directory of the module that was built")
	time := flag.String("time", "", "timestamp of the SBOMs, RFC 3339")
	licenses := flag.String("licenses", "", "file to write the licences to")
	flag.Parse()
	if err := run(*source, *time, *licenses, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(source, time, licenses string, boms []string) error {
	used := map[string]module{}
	for _, name := range boms {
		bom, err := makeReproducible(name, time)
		if err != nil {
			return err
		}
		for _, c := range *bom.Components {
			used[c.Name] = module{name: c.Name, version: c.Version, licenses: detectedLicenses(c)}
		}
	}
	if err := locate(source, used); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := writeLicenses(&text, slices.SortedFunc(maps.Values(used), func(a, b module) int { return strings.Compare(a.name, b.name) })); err != nil {
		return err
	}
	return os.WriteFile(licenses, text.Bytes(), 0o644)
}

// makeReproducible sets the timestamp in an SBOM file, removes the checksums of the tool that wrote it, and
// returns the SBOM.
func makeReproducible(name, time string) (*cyclonedx.BOM, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if bom.Metadata == nil || bom.Components == nil {
		return nil, fmt.Errorf("read %s: the SBOM has no metadata or no components; create it again with make release", name)
	}
	bom.Metadata.Timestamp = time
	// These are checksums of the tool's binary, which differ between machines.
	if tools := bom.Metadata.Tools; tools != nil && tools.Tools != nil {
		for i := range *tools.Tools {
			(*tools.Tools)[i].Hashes = nil
		}
	}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(&bom); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return &bom, os.WriteFile(name, out.Bytes(), 0o644)
}

// module is a module in a binary.
type module struct {
	name, version string
	licenses      []string // SPDX identifiers, as detected
	dir           string   // with its sources
}

// detectedLicenses returns the SPDX identifiers of a component's licences.
func detectedLicenses(c cyclonedx.Component) []string {
	if c.Evidence == nil || c.Evidence.Licenses == nil {
		return nil
	}
	var ids []string
	for _, l := range *c.Evidence.Licenses {
		if l.License != nil && l.License.ID != "" {
			ids = append(ids, l.License.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// standard is the name of Go's standard library in SBOMs.
const standard = "std"

// locate sets the directories of the modules, and the licence of the standard library.
func locate(source string, used map[string]module) error {
	cmd := exec.Command("go", "list", "-m", "-json", "all")
	cmd.Dir, cmd.Stderr = source, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the modules of %s: %w", source, err)
	}
	for modules := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := modules.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("list the modules of %s: %w", source, err)
		}
		if u, ok := used[m.Path]; ok {
			u.dir = m.Dir
			used[m.Path] = u
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find GOROOT: %w", err)
	}
	if std, ok := used[standard]; ok {
		std.dir, std.licenses = strings.TrimSpace(string(root)), []string{"BSD-3-Clause"}
		used[standard] = std
	}
	return nil
}

// writeLicenses writes an overview, then each licence text once. A module without a text is an error, because it must
// not be distributed without one.
func writeLicenses(out io.Writer, modules []module) error {
	fmt.Fprint(out, "lockstep is under the Apache License 2.0. Its binaries contain these modules:\n\n")
	under := map[string][]string{} // modules by licence text
	var order, missing []string
	for _, m := range modules {
		ids := cmp.Or(strings.Join(m.licenses, " "), "see the text below")
		fmt.Fprintf(out, "%s %s: %s\n", m.name, m.version, ids)
		texts, err := licenseTexts(m.dir)
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			missing = append(missing, m.name)
		}
		for _, text := range texts {
			if under[text] == nil {
				order = append(order, text)
			}
			under[text] = append(under[text], m.name+" "+m.version)
		}
	}
	for _, text := range order {
		fmt.Fprintf(out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(under[text], "\n"), text)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no licence file found in the sources of %s", strings.Join(missing, ", "))
	}
	return nil
}

// licenseTexts returns the licences and notices in a module's directory.
func licenseTexts(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		is := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !e.Type().IsRegular() || filepath.Ext(name) == ".GO" || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"}, is) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, string(bytes.TrimSpace(text)))
	}
	return all, nil
}
