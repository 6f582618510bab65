package reportfile

import (
	"cmp"
	"path"
	"slices"

	"lockstep/engine"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// ScanFiles are the files of --report of "lockstep lint" and "lockstep drift".
type ScanFiles struct{ files []file }

// NewScanFiles returns the files for the arguments of --report, FORMAT=FILE. It checks that they can be written.
func NewScanFiles(args []string) (ScanFiles, error) {
	files, err := parseFiles(args, "junit", "sarif")
	return ScanFiles{files}, err
}

func (f ScanFiles) write(sarif, junit func() []byte) error {
	return writeAll(f.files, func(format string) []byte {
		if format == "sarif" {
			return sarif()
		}
		return junit()
	})
}

// LintFinding is a finding about a chart. Chart is the path of its directory or archive, File a path in it, "" for Chart.yaml.
type LintFinding struct {
	Chart, File             string
	Severity, Rule, Message string // Rule is "" for Helm's findings
}

// Lint writes the files of "lockstep lint". charts are the paths of all charts, also of those without findings.
func (f ScanFiles) Lint(charts []string, found []LintFinding) error {
	return f.write(func() []byte { return lintSARIF(found) }, func() []byte { return lintJUnit(charts, found) })
}

// helmRule stands for the findings of Helm's lint, which have no numbers.
const helmRule = "helm"

// lintSARIF returns a result for each finding, at the file of the chart that it is about.
func lintSARIF(found []LintFinding) []byte {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "lockstep", Rules: []sarifRule{}}}}
	levels := map[string]string{plan.SeverityError: "error", plan.SeverityWarning: "warning"}
	for _, f := range found {
		id := cmp.Or(f.Rule, helmRule)
		if !slices.ContainsFunc(run.Tool.Driver.Rules, func(r sarifRule) bool { return r.ID == id }) {
			title := "Findings of helm lint"
			if rule, err := engine.FindRule(id); err == nil {
				title = rule.Title
			}
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{id, sarifText{title}})
		}
		l := sarifLocation{}
		l.Physical.Artifact.URI = f.path()
		run.Results = append(run.Results, sarifResult{id, cmp.Or(levels[f.Severity], "note"), sarifText{text.Line(f.Message)}, []sarifLocation{l},
			map[string]string{"lockstep/lint": id + " " + l.Physical.Artifact.URI + " " + text.Line(f.Message)}})
	}
	return run.write()
}

// path is the path of the file from the current directory. A packaged chart is one file.
func (f LintFinding) path() string {
	if path.Ext(f.Chart) == ".tgz" {
		return text.Line(f.Chart)
	}
	return text.Line(path.Join(f.Chart, cmp.Or(f.File, "Chart.yaml")))
}

// lintJUnit returns a suite with a case for each chart, and for each finding except notes a failure.
func lintJUnit(charts []string, found []LintFinding) []byte {
	suite := junitSuite{junitHead: junitHead{Name: "lint", Time: junitTime(0)}}
	for _, chart := range charts {
		clean := true
		for _, f := range found {
			if f.Chart != chart || f.Severity != plan.SeverityError && f.Severity != plan.SeverityWarning {
				continue
			}
			clean = false
			c := junitCase{Class: text.Line(chart), Name: text.Line(cmp.Or(f.Rule, helmRule) + ": " + f.Message), Time: suite.Time}
			if f.Severity == plan.SeverityError {
				c.Error = newJunitProblem(f.Severity, f.Message)
			} else {
				c.Failure = newJunitProblem(f.Severity, f.Message)
			}
			suite.Cases = append(suite.Cases, c)
		}
		if clean {
			suite.Cases = append(suite.Cases, junitCase{Class: text.Line(chart), Name: "lint", Time: suite.Time})
		}
	}
	all := junitSuites{junitHead: junitHead{Name: "lockstep lint", Time: junitTime(0)}, Suites: []junitSuite{suite}}
	return all.write()
}
