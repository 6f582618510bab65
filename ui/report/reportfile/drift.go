package reportfile

import (
	"path/filepath"
	"strconv"
	"strings"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// Drift writes the files of "lockstep drift".
func (f ScanFiles) Drift(releases []inspect.Drift) error {
	return f.write(func() []byte { return driftSARIF(releases) }, func() []byte { return driftJUnit(releases) })
}

// driftJUnit returns a suite for each release, with a case for each object: a failure if it differs, an error if it could not be
// compared.
func driftJUnit(releases []inspect.Drift) []byte {
	all := junitSuites{junitHead: junitHead{Name: "lockstep drift", Time: junitTime(0)}}
	for _, r := range releases {
		s := junitSuite{junitHead: junitHead{Name: text.Line(format.DriftRelease(r)), Time: junitTime(0)}}
		if r.Error != "" {
			s.Cases = append(s.Cases, junitCase{Class: s.Name, Name: "release", Time: s.Time, Error: newJunitProblem("error", r.Error)})
		}
		found := map[plan.Object]inspect.DriftedObject{}
		for _, o := range r.Objects {
			found[o.Object] = o
		}
		for _, o := range r.Compared {
			c := junitCase{Class: s.Name, Name: text.Line(o.String()), Time: s.Time}
			switch d, differs := found[o]; {
			case !differs:
			case d.Unread != "":
				c.Error = newJunitProblem("error", d.Unread)
			default:
				lines := format.DriftedObject(d)
				c.Failure = newJunitProblem("drift", lines[0], lines[1:]...)
			}
			s.Cases = append(s.Cases, c)
		}
		all.Suites = append(all.Suites, s)
	}
	return all.write()
}

// driftSARIF returns a result for each field that differs, each object that is gone, and each that could not be compared. The
// place of a result is that of the release in its helmfile or, because scanners need a file, the release.
func driftSARIF(releases []inspect.Drift) []byte {
	run := sarifRun{Tool: sarifTool{sarifDriver{"lockstep", []sarifRule{
		{"drift/changed", sarifText{"A field is not as the record of its release says"}},
		{"drift/gone", sarifText{"An object or a field of a release is gone"}},
		{"drift/unknown", sarifText{"A release or an object could not be compared"}},
	}}}}
	add := func(r inspect.Drift, rule, level, object, pointer, message string) {
		l := sarifLocation{Logical: []sarifLogical{{text.Join("/", format.DriftRelease(r), object) + pointer, "resource"}}}
		l.Physical.Artifact.URI = format.DriftRelease(r)
		if at := strings.LastIndex(r.At, ":"); at > 0 {
			line, _ := strconv.Atoi(r.At[at+1:]) // it is one
			l.Physical.Artifact.URI, l.Physical.Region = filepath.ToSlash(r.At[:at]), &sarifRegion{line}
		}
		run.Results = append(run.Results, sarifResult{rule, level, sarifText{text.Line(text.Join(": ", object, message))}, []sarifLocation{l},
			map[string]string{"lockstep/drift": l.Logical[0].Name}})
	}
	for _, r := range releases {
		if r.Error != "" {
			add(r, "drift/unknown", "error", "", "", r.Error)
		}
		for _, o := range r.Objects {
			name := o.Object.String()
			switch {
			case o.Unread != "":
				add(r, "drift/unknown", "error", name, "", o.Unread)
			case o.Gone:
				add(r, "drift/gone", "warning", name, "", strings.Join(format.DriftedObject(o), ""))
			}
			for _, f := range o.Fields {
				rule := "drift/changed"
				if f.Gone {
					rule = "drift/gone"
				}
				add(r, rule, "warning", name, f.Pointer, format.DriftedField(f))
			}
		}
	}
	return run.write()
}
