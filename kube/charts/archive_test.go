package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is a member of an archive, by default a file.
type entry struct {
	name, data, link string
	kind             byte
	size             int64 // a wrong size for the header, 0 for the real one
}

// craftedArchive returns an archive of entries, which may be malformed.
func craftedArchive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: 0o644, Size: max(e.size, int64(len(e.data)))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.data)); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Flush() // Close would fail for a truncated archive
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostileArchives: paths that lead out of the chart are refused, in a chart and in a
// subchart. Links and devices are read as empty files.
func TestHostileArchives(t *testing.T) {
	chart := entry{name: "shop/Chart.yaml", data: chartYAML("shop")}
	zeros := strings.Repeat("\x00", 1<<20)
	var large []entry
	for range 101 {
		large = append(large, entry{name: "shop/zeros", data: zeros})
	}
	for name, tt := range map[string]struct {
		entries []entry
		want    string
	}{
		"parent directory":     {[]entry{chart, {name: "shop/../../etc/evil", data: "x"}}, "chart illegally references parent directory"},
		"parent, hidden":       {[]entry{chart, {name: "shop/templates/../../../evil", data: "x"}}, "chart illegally references parent directory"},
		"Windows parent":       {[]entry{chart, {name: `shop\..\..\evil`, data: "x"}}, "chart illegally references parent directory"},
		"absolute":             {[]entry{chart, {name: "shop//etc/evil", data: "x"}}, "chart illegally contains absolute paths"},
		"drive":                {[]entry{chart, {name: "shop/c:/evil", data: "x"}}, "chart contains illegally named files"},
		"no directory":         {[]entry{{name: "Chart.yaml", data: chart.data}}, "illegally contains content outside the base directory"},
		"Chart.yaml is a link": {[]entry{{name: "shop/Chart.yaml", kind: tar.TypeSymlink, link: "/etc/passwd"}}, "Chart.yaml: name is required"},
		"too large":            {append([]entry{chart}, large...), "decompressed chart is larger than the maximum size"},
		"claims a large file":  {[]entry{chart, {name: "shop/zeros", size: 1 << 40}}, "decompressed chart is larger than the maximum size"},
		"truncated":            {[]entry{chart, {name: "shop/zeros", data: "x", size: 1000}}, "unexpected EOF"},
		"empty":                {nil, "no files in chart archive"},
		"a subchart is a link": {[]entry{chart, {name: "shop/charts/sub", kind: tar.TypeSymlink, link: "/etc"}}, "error unpacking subchart sub in shop: Chart.yaml file is missing"},
		"links and devices":    {[]entry{chart, {name: "shop/templates/l.yaml", kind: tar.TypeSymlink, link: "/etc/passwd"}, {name: "shop/templates/h.yaml", kind: tar.TypeLink, link: "shop/Chart.yaml"}, {name: "shop/templates/d.yaml", kind: tar.TypeChar}, {name: "shop/templates/p.yaml", kind: tar.TypeFifo}}, ""},
	} {
		packed := craftedArchive(t, tt.entries...)
		dir := t.TempDir()
		inner := filepath.Join(dir, "shop.tgz")
		if err := os.WriteFile(inner, packed, 0o644); err != nil {
			t.Fatal(err)
		}
		outer := write(t, tree{"Chart.yaml": chartYAML("web"), "charts/shop.tgz": string(packed)})
		for _, path := range []string{inner, outer} {
			c, err := LoadPath(path)
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || tt.want == "" && err != nil {
				t.Errorf("%s, in %s: %v", name, filepath.Base(path), err)
			}
			if err != nil {
				continue
			}
			r, err := Render(t.Context(), c, nil, testOptions)
			if err != nil || len(r.Docs) != 0 || strings.Contains(r.Release.Manifest, "root:") {
				t.Errorf("%s, in %s: %v, %v", name, filepath.Base(path), r, err)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%s: %v was left, %v", name, left, err)
		}
	}
}

// TestArchivesOfEmptyFilesAreBounded: half a million empty files pack into a few KiB.
func TestArchivesOfEmptyFilesAreBounded(t *testing.T) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	var one bytes.Buffer
	if err := tar.NewWriter(&one).WriteHeader(&tar.Header{Name: "shop/x", Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat(one.Bytes(), 2048)
	for range maxArchive/len(many) + 1 {
		if _, err := z.Write(many); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, load := range []func() error{
		func() error { _, err := readArchive(bytes.NewReader(b.Bytes())); return err },
		func() error {
			_, err := LoadPath(write(t, tree{"Chart.yaml": chartYAML("web"), "charts/shop.tgz": b.String()}))
			return err
		},
	} {
		if err := load(); err == nil || !strings.Contains(err.Error(), "the archive unpacks to more than 200 MiB") {
			t.Error(err)
		}
	}
}
