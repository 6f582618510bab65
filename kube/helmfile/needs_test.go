package helmfile

import (
	"slices"
	"strings"
	"testing"
)

// TestNeeds (S2): a need on a release of another file counts, one on a release that is not installed is dropped with a
// warning, and one that cannot be met is an error that tells the truth.
func TestNeeds(t *testing.T) {
	for _, test := range []struct {
		name, files   string
		options       Options
		want          []string
		warnings, err string
	}{
		{name: "on a release of an included file", files: `
== helmfile.yaml
helmfiles: [sub.yaml]
releases: [{name: b, namespace: x, chart: ./a, needs: [a, y/c]}]
== sub.yaml
releases: [{name: a, namespace: x, chart: ./a}, {name: c, namespace: y, chart: ./a}]`,
			want: []string{"x/a /a {} [] []", "y/c /a {} [] []", "x/b /a {} [x/a y/c] [x/a y/c]"}},
		{name: "on a release of another file of helmfile.d", files: `
== helmfile.d/1.yaml
releases: [{name: a, chart: ../a, needs: [b]}]
== helmfile.d/2.yaml
releases: [{name: b, chart: ../a}]`, want: []string{"a /a {} [b] []", "b /a {} [] []"}},
		{name: "on a release of a later file", files: `
== helmfile.yaml
helmfiles: [one.yaml, two.yaml]
== one.yaml
releases: [{name: a, chart: ./a, needs: [b]}]
== two.yaml
releases: [{name: b, chart: ./a}]`, err: "two.yaml:1) comes after its own: name the files under helmfiles in the other order"},
		{name: "in another namespace", files: `
== helmfile.yaml
releases: [{name: a, namespace: x, chart: ./a, needs: [b]}, {name: b, namespace: y, chart: ./a}]`,
			err: "release x/a needs x/b, which no file defines: "},
		{name: "nowhere", files: `
== helmfile.yaml
helmfiles: [sub.yaml]
releases: [{name: a, chart: ./a, needs: [b]}]
== sub.yaml
releases: [{name: c, chart: ./a}]`, err: "release a needs b, which no file defines: correct the name"},
		{name: "on a release that is not installed", files: `
== helmfile.yaml
environments: {default: {values: [{d: {enabled: false}}]}}
---
releases:
- {name: a, chart: ./a, needs: [b, d, e]}
- {name: b, chart: ./a, installed: false}
- {name: c, chart: ./a, installed: false, needs: [b]}
- {name: d, chart: ./a, condition: d.enabled}
- {name: e, chart: ./a}`, want: []string{"a /a {} [b e] []", "b  {} [] [] not installed", "c  {} [b] [] not installed", "e /a {} [] []"},
			warnings: "release a needs b, which is not installed (it has installed: false): install it, or remove it from needs\n" +
				"release a needs d, which is not installed (its condition is false): install it, or remove it from needs"},
		{name: "on a release that is not selected", files: `
== helmfile.yaml
releases: [{name: a, chart: ./a, needs: [b, c]}, {name: b, chart: ./a}, {name: c, chart: ./a, installed: false}]`,
			options: Options{Selectors: []string{"name=a"}}, want: []string{"a /a {} [] []"},
			warnings: "release a needs c, which is not installed (it has installed: false): install it, or remove it from needs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := writeFiles(t, test.files)
			test.options.Path = dir
			f, err := Read(t.Context(), test.options)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error: %v\nwant:  %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(t, dir, f); !slices.Equal(got, test.want) {
				t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			var warnings []string
			for _, w := range f.Warnings {
				_, text, _ := strings.Cut(w, ": ")
				warnings = append(warnings, text)
			}
			if got := strings.Join(warnings, "\n"); got != test.warnings {
				t.Errorf("warnings\n%s\nwant\n%s", got, test.warnings)
			}
		})
	}
}

// TestHandwrittenRenderedValues: the key renderedvalues alone does not make a file the output of helmfile build.
func TestHandwrittenRenderedValues(t *testing.T) {
	for _, file := range []string{"", "filepath: \"\"\n", "templates: {}\n"} {
		dir := writeFiles(t, "== helmfile.yaml\n"+file+`bases: [base.yaml]
environments: {default: {values: [{on: {enabled: true}}]}}
helmfiles: [c/helmfile.yaml]
releases: [{name: b, chart: ./c/app, condition: on.enabled}]
renderedvalues: {on: {enabled: false}}
== base.yaml
releases: [{name: z, chart: ./c/app}]
== c/helmfile.yaml
releases: [{name: a, chart: ./app}]
renderedvalues: {}`)
		f, err := Read(t.Context(), Options{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"a /c/app {} [] []", "z /c/app {} [] [a]", "b /c/app {} [] [a]"}
		if got := describe(t, dir, f); !slices.Equal(got, want) {
			t.Errorf("with %q: read %q, want %q", file, got, want)
		}
	}
}

// TestOtherEnvironments: a file that does not define the environment takes no part, but its releases are known, so that
// nothing prunes them (S10). Files that it includes are not read.
func TestOtherEnvironments(t *testing.T) {
	dir := writeFiles(t, `
== helmfile.d/a.yaml
environments: {prod: {}}
releases: [{name: a, namespace: n, chart: ./c}]
== helmfile.d/b.yaml
environments: {staging: {kubeContext: far}}
namespace: m
releases: [{name: b, chart: ./c, values: [missing.yaml]}]
== helmfile.d/c.yaml
helmfiles: [../more.yaml]
environments: {staging: {}}
== more.yaml
releases: [{name: d, chart: ./c}]
`)
	f, err := Read(t.Context(), Options{Path: dir, Environment: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Releases) != 1 || len(f.Others) != 1 || f.Others[0].ID() != "m/b" || len(f.Unread) != 1 || !strings.HasSuffix(f.Unread[0].File, "c.yaml") {
		t.Errorf("releases %v, others %v, unread %v", f.Releases, f.Others, f.Unread)
	}
}

// TestMissingInclude: a file that may be missing (missingFileHandler) may define releases, so they count as unread (S10).
func TestMissingInclude(t *testing.T) {
	dir := writeFiles(t, `
== helmfile.yaml
missingFileHandler: Warn
helmfiles: [sub.yaml]
---
releases: [{name: a, chart: ./c}]
`)
	f, err := Read(t.Context(), Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Releases) != 1 || len(f.Unread) != 1 || f.Unread[0].Missing != "sub.yaml" {
		t.Errorf("releases %v, unread %v", f.Releases, f.Unread)
	}
}
