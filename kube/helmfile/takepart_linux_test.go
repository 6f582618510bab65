package helmfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// opened returns the names of the files that do opens in a directory and the given directories below it.
func opened(t *testing.T, dir string, below []string, do func()) (names []string) {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK)
	if err != nil {
		t.Skip("no inotify: ", err)
	}
	defer func() { _ = syscall.Close(fd) }()
	for _, d := range append([]string{"."}, below...) {
		if _, err := syscall.InotifyAddWatch(fd, filepath.Join(dir, d), syscall.IN_OPEN); err != nil {
			t.Fatal(err)
		}
	}
	do()
	buffer := make([]byte, 1<<16)
	n, err := syscall.Read(fd, buffer)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; {
		length := int(buffer[at+12]) | int(buffer[at+13])<<8
		names = append(names, strings.TrimRight(string(buffer[at+syscall.SizeofInotifyEvent:at+syscall.SizeofInotifyEvent+length]), "\x00"))
		at += syscall.SizeofInotifyEvent + length
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }) // the directories themselves
}

// TestOnlyReleasesThatTakePartAreOpened (S12): values, secrets and charts of releases that are not selected, not installed
// or have a false condition are not opened, whether they exist or not, with and without helmfile.
func TestOnlyReleasesThatTakePartAreOpened(t *testing.T) {
	const file = `
environments: {default: {values: [{on: {enabled: true}, off: {enabled: false}}]}}
---
releases:
- {name: one, chart: ./one, labels: {tier: a}, values: [one.yaml]}
- {name: other, chart: ./other, labels: {tier: b}, values: [other.yaml, other.yaml.gotmpl, gone.yaml], secrets: [s.yaml]}
- {name: removed, chart: ./gone, labels: {tier: a}, installed: false, values: [removed.yaml, gone.yaml], secrets: [s.yaml]}
- {name: off, chart: ./gone, labels: {tier: a}, condition: off.enabled, values: [off.yaml, 'ref+file://x', '{{ .Release.Name }}.yaml'], set: [{name: x, file: gone}]}
- {name: broken, labels: {tier: b}, condition: missing.enabled, values: 5}
== one.yaml
x: 1
== other.yaml
x: 1
== other.yaml.gotmpl
x: 1
== removed.yaml
x: 1
== off.yaml
x: 1
== s.yaml
x: 1
== one/Chart.yaml
name: one
== other/Chart.yaml
name: other`
	for _, test := range []struct {
		name, values, helmfile string
		want                   []string
		calls                  int
	}{
		{"plain", "one.yaml", "helmfile.yaml", []string{"helmfile.yaml", "one.yaml"}, 0},
		{"templates in its values", "one.yaml.gotmpl", "helmfile.yaml", []string{"helmfile.yaml", "one.yaml.gotmpl"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := useHelmfileBuild(t)
			dir := writeFiles(t, "== "+test.helmfile+strings.ReplaceAll(file, "one.yaml", test.values))
			got := opened(t, dir, []string{"one", "other"}, func() {
				f, err := Read(t.Context(), Options{Path: dir, Selectors: []string{"tier=a"}})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range slices.Concat(f.Releases, f.Others) {
					values, _, err := r.Merge(t.Context(), nil, os.ReadFile)
					if takesPart := r.Name == "one"; takesPart != (err == nil) || takesPart != (r.Chart != "") || takesPart && values["x"] == nil {
						t.Errorf("release %s: chart %q, values %v, %v", r.Name, r.Chart, values, err)
					}
				}
			})
			if !slices.Equal(got, test.want) {
				t.Errorf("opened %v, want %v", got, test.want)
			}
			if n := len(slices.DeleteFunc(calls(), func(s string) bool { return s == "" })); n != test.calls {
				t.Errorf("helmfile was called %d times: %v", n, calls())
			}
		})
	}
}
