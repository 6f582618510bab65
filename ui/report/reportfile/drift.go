package reportfile

import (
	"encoding/json"
	"strings"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// DriftFiles are the files of --report of "lockstep drift".
type DriftFiles struct{ files []file }

// NewDriftFiles returns the files for the arguments of --report, FORMAT=FILE. It checks that they can be written.
func NewDriftFiles(args []string) (DriftFiles, error) {
	files, err := parseFiles(args, "junit", "sarif")
	return DriftFiles{files}, err
}

// Report writes the files.
func (d DriftFiles) Report(releases []inspect.Drift) error {
	return writeAll(d.files, func(format string) []byte {
		if format == "sarif" {
			return driftSARIF(releases)
		}
		return driftJUnit(releases)
	})
}

// releasePath identifies a release: CONTEXT/NAMESPACE/NAME, without an unknown context.
func releasePath(d inspect.Drift) string { return text.Join("/", d.Context, d.Namespace, d.Release) }

// driftJUnit returns a suite for each release, with a case for each object: a failure if it differs, an error if it could not be
// compared.
func driftJUnit(releases []inspect.Drift) []byte {
	all := junitSuites{junitHead: junitHead{Name: "lockstep drift", Time: junitTime(0)}}
	for _, r := range releases {
		s := junitSuite{junitHead: junitHead{Name: text.Line(releasePath(r)), Time: junitTime(0)}}
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

// The parts of a SARIF log (version 2.1.0) that code scanners read.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID   string    `json:"id"`
		Text sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule         string            `json:"ruleId"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// driftSARIF returns a result for each field that differs, each object that is gone, and each that could not be compared. The
// file of a result is the release, because scanners need one.
func driftSARIF(releases []inspect.Drift) []byte {
	run := sarifRun{Results: []sarifResult{}, Tool: sarifTool{sarifDriver{"lockstep", []sarifRule{
		{"drift/changed", sarifText{"A field is not as the record of its release says"}},
		{"drift/gone", sarifText{"An object or a field of a release is gone"}},
		{"drift/unknown", sarifText{"A release or an object could not be compared"}},
	}}}}
	add := func(r inspect.Drift, rule, level, object, pointer, message string) {
		l := sarifLocation{Logical: []sarifLogical{{text.Join("/", releasePath(r), object) + pointer, "resource"}}}
		l.Physical.Artifact.URI = releasePath(r)
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
	out, err := json.MarshalIndent(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}, "", "  ")
	if err != nil {
		panic(err) // cannot fail with these types
	}
	return append(text.EscapeJSON(out), '\n')
}
