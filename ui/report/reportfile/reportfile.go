// Package reportfile reports the outcome of an operation to other programs: the files of --report (JUnit XML, JSON,
// Markdown), and the annotations and job summary of GitHub Actions. NewOutcome makes an Outcome from an event.State,
// and a Reporter writes it. Only ui/cli imports this package; it does not import package report.
package reportfile

import (
	_ "embed"
	"errors"
	"fmt"
)

// Doc documents the report files, as Markdown.
//
//go:embed reports.md
var Doc string

// formats are the formats of --report.
var formats = map[string]func(*Outcome) []byte{"junit": (*Outcome).junit, "json": (*Outcome).json, "markdown": (*Outcome).markdown}

// Reporter reports the outcome of one operation.
type Reporter struct {
	files    []file
	github   *GitHub
	reported bool
}

// NewReporter returns a Reporter for the arguments of --report, FORMAT=FILE. It checks that the files can be written.
// github is nil outside GitHub Actions.
func NewReporter(args []string, github *GitHub) (*Reporter, error) {
	files, err := parseFiles(args, "junit", "json", "markdown")
	if err != nil {
		return nil, err
	}
	return &Reporter{files: files, github: github}, nil
}

// Reported reports whether Report was called.
func (r *Reporter) Reported() bool { return r.reported }

// Report writes the files, the annotations and the job summary. If one of them cannot be written, it still writes the
// others; the error names those that failed.
func (r *Reporter) Report(o *Outcome) error {
	r.reported = true
	errs := []error{writeAll(r.files, func(format string) []byte { return formats[format](o) })}
	if r.github != nil {
		r.github.annotateAll(o)
		if err := r.github.appendSummary(o); err != nil {
			errs = append(errs, fmt.Errorf("cannot write the job summary: %w", err))
		}
	}
	return errors.Join(errs...)
}

// writeAll writes a report to each file, in its format. The error names those that failed.
func writeAll(files []file, report func(format string) []byte) error {
	var errs []error
	for _, f := range files {
		if err := f.write(report(f.format)); err != nil {
			errs = append(errs, fmt.Errorf("cannot write the %s report: %w", f.format, err))
		}
	}
	return errors.Join(errs...)
}
