package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/cli/values"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/annotate"
	"lockstep/kube/charts"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
	"lockstep/ui/report/reportfile"
)

const lintLong = `Check charts: everything that "helm lint" checks, and also the order: circular dependencies, unknown names, invalid
readiness expressions, objects that lose their place in the order, and more. This needs no cluster.

INFO lines are Helm's suggestions, and annotations that stop Helm (but not lockstep) from installing the chart.

-o json prints charts, each with chart, failed and findings (severity, rule, chart, object, path, message).

--fix corrects the files of the chart where only one answer is right: a misspelt annotation or group that resembles a known one,
and lists and keys that Helm refuses. Nothing else in the files changes. --diff only shows these lines.

An error prevents the chart from being deployed, or from being deployed in the intended order. Errors, and with --strict
also warnings, make the exit code 2.`

type lintFlags struct {
	values                               values.Options
	kubeVersion                          string
	strict, quiet, subcharts, skipSchema bool
	fix, diff                            bool
	reports                              []string
	waitForJobs                          plan.Jobs
}

func (a *app) newLint() *cobra.Command {
	var flags lintFlags
	cmd := &cobra.Command{
		Use: "lint CHART…", GroupID: "look", Short: "check charts for mistakes", Long: lintLong,
		Example: `lockstep lint ./shop
lockstep lint ./shop --diff
lockstep lint ./shop --strict -o json
lockstep lint ./shop --report sarif=lint.sarif   # for code scanning`,
		Args: command.Args(1, -1), ValidArgsFunction: input.CompleteChart(0, 1000),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.subcharts {
				args = withSubcharts(args)
			}
			files, err := reportfile.NewScanFiles(flags.reports)
			if err != nil {
				return err
			}
			out := report.Lint{Charts: []report.LintedChart{}, Quiet: flags.quiet, Diff: !flags.fix}
			for _, path := range args {
				fixed, err := flags.fixChart(cmd.Context(), a, path)
				if err != nil {
					return err
				}
				l, err := flags.lint(cmd.Context(), a, path)
				if err != nil {
					return err
				}
				l.Fixed = fixed
				out.Charts = append(out.Charts, l)
			}
			if err := errors.Join(a.Display(cmd).Show(out), reportLint(files, out)); err != nil {
				return err
			}
			if n := out.Failed(); n > 0 {
				return errors.New(text.Count(n, "chart") + " failed")
			}
			return nil
		},
	}
	f := cmd.Flags()
	input.AddValueFlags(f, &flags.values)
	f.BoolVar(&flags.strict, "strict", false, "treat warnings as errors")
	f.BoolVar(&flags.fix, "fix", false, "correct the files where only one answer is right, and show the changes")
	f.BoolVar(&flags.diff, "diff", false, "show what --fix would write")
	cmd.MarkFlagsMutuallyExclusive("fix", "diff")
	f.BoolVar(&flags.quiet, "quiet", false, "print only warnings and errors")
	f.BoolVar(&flags.subcharts, "with-subcharts", false, "also lint the charts in charts/")
	f.BoolVar(&flags.skipSchema, "skip-schema-validation", false, "skip validation of values against the chart's schema")
	f.StringArrayVar(&flags.reports, "report", nil, "write a report: junit=FILE or sarif=FILE (repeatable)")
	command.AddWaitForJobs(f, &flags.waitForJobs)
	input.AddKubeVersion(f, &flags.kubeVersion)
	command.AddOutput(cmd)
	return cmd
}

// reportLint writes the files of --report. In findings, paths of files are those in the chart.
func reportLint(files reportfile.ScanFiles, out report.Lint) error {
	var charts []string
	var found []reportfile.LintFinding
	for _, c := range out.Charts {
		path := filepath.ToSlash(c.Chart)
		charts = append(charts, path)
		for _, f := range c.Findings {
			file := strings.TrimPrefix(filepath.ToSlash(f.Path), path+"/")
			found = append(found, reportfile.LintFinding{Chart: path, File: file, Severity: f.Severity, Rule: f.Rule, Message: f.Message})
		}
	}
	return files.Lint(charts, found)
}

// withSubcharts adds the subcharts of the charts to paths.
func withSubcharts(paths []string) []string {
	all := append([]string{}, paths...)
	for _, p := range paths {
		// Errors are ignored: linting the chart itself reports unreadable files.
		_ = filepath.WalkDir(filepath.Join(p, "charts"), func(path string, d os.DirEntry, err error) error {
			switch {
			case err != nil:
			case d.Name() == "Chart.yaml":
				all = append(all, filepath.Dir(path))
			case filepath.Ext(path) == ".tgz":
				all = append(all, path)
			}
			return nil
		})
	}
	return all
}

// fixChart fixes a chart, or finds out what it would fix. A chart that cannot be rendered has no fixes: lint says why.
func (l *lintFlags) fixChart(ctx context.Context, a *app, path string) (lines []report.FixedLine, err error) {
	if !l.fix && !l.diff {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("chart %s is an archive, and --fix and --diff need a directory; unpack it first", path)
	}
	vals, err := charts.Values(l.values, a.Settings)
	if err != nil {
		return nil, err
	}
	limits, err := input.RenderLimits()
	if err != nil {
		return nil, err
	}
	c, err := charts.LoadPath(path)
	if err != nil {
		return nil, nil // a finding of lint
	}
	opts := l.renderOptions(a.Settings.Namespace(), limits)
	r, err := charts.Render(ctx, c, vals, opts)
	if err != nil {
		return nil, nil // a finding of lint
	}
	fixed, err := annotate.Fix(ctx, annotate.Source{Dir: path, Values: vals, Options: opts, Rendered: r})
	if err == nil && l.fix {
		err = fixed.Write()
	}
	if err != nil {
		return nil, charts.HideValues(c, vals, err)
	}
	for _, line := range fixed.Lines {
		lines = append(lines, report.FixedLine(line))
	}
	return lines, nil
}

// renderOptions returns the options to render a chart that is linted.
func (l *lintFlags) renderOptions(namespace string, limits charts.Limits) charts.RenderOptions {
	return charts.RenderOptions{
		Release: input.DefaultRelease, Namespace: namespace, KubeVersion: l.kubeVersion, SkipSchemaValidation: l.skipSchema,
		Limits: limits, FindIncompatible: true,
	}
}

// linted collects the findings about one chart.
type linted struct {
	report.LintedChart
	*lintFlags
	namespace string
	limits    charts.Limits
	hide      func(string) string // hides secret values
}

// lint checks one chart. Problems of the chart are findings; other problems are errors.
func (l *lintFlags) lint(ctx context.Context, a *app, path string) (report.LintedChart, error) {
	out := linted{
		LintedChart: report.LintedChart{Chart: path, Findings: []report.Finding{}}, lintFlags: l,
		namespace: a.Settings.Namespace(), hide: new(mask.Mask).Text,
	}
	vals, err := charts.Values(l.values, a.Settings)
	if err == nil {
		out.limits, err = input.RenderLimits()
	}
	if err != nil {
		return out.LintedChart, err
	}
	c, err := charts.LoadPath(path)
	if errors.Is(err, fs.ErrNotExist) && !input.Exists(path) {
		out.NotFound = true
		out.fail("chart " + path + ": no such directory or archive; check the path")
		return out.LintedChart, nil
	}
	if err != nil {
		out.fail(err.Error())
		err := out.helm(ctx, vals, func(dir string) (string, error) { return charts.CopyBroken(path, dir) })
		return out.LintedChart, err
	}
	out.hide = charts.MaskOfValues(c, vals).Text
	if c.Metadata().Type != "library" {
		if err := out.order(ctx, a, c, vals); charts.IsLimit(err) || ctx.Err() != nil {
			return out.LintedChart, err // Helm's lint would render it again and hit the same limit
		}
	}
	ordered := out.Findings
	out.Findings = []report.Finding{}
	if err := out.helm(ctx, vals, func(dir string) (string, error) {
		dir = filepath.Join(dir, c.Name())
		return dir, c.Save(dir)
	}); err != nil {
		return out.LintedChart, err
	}
	out.Findings = append(out.Findings, ordered...)
	return out.LintedChart, nil
}

func (l *linted) add(f report.Finding) {
	f.Message = l.hide(f.Message)
	l.Failed = l.Failed || f.Severity == plan.SeverityError || l.strict && f.Severity == plan.SeverityWarning
	l.Findings = append(l.Findings, f)
}

func (l *linted) fail(message string) {
	l.add(report.Finding{Severity: plan.SeverityError, Message: message})
}

// helm adds the findings of Helm's lint, which loads charts from disk. save writes a copy that
// Helm can read (R1) to dir and returns its path.
func (l *linted) helm(ctx context.Context, vals map[string]any, save func(dir string) (string, error)) error {
	temp, err := os.MkdirTemp("", "lockstep-lint-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	dir, err := save(temp)
	if err != nil {
		return err
	}
	lint := action.NewLint()
	lint.Namespace, lint.SkipSchemaValidation = l.namespace, l.skipSchema
	if l.kubeVersion != "" {
		if lint.KubeVersion, err = common.ParseKubeVersion(l.kubeVersion); err != nil {
			return fmt.Errorf("--kube-version %s is not a valid version; use a form such as 1.33", l.kubeVersion)
		}
	}
	done := make(chan *action.LintResult, 1)
	if err := charts.NewGuard(l.limits).Run(ctx, func() error { done <- lint.Run([]string{dir}, vals); return nil }); err != nil {
		return fmt.Errorf("chart %s: %w", l.Chart, err)
	}
	result := <-done
	relabel := func(s string) string { return strings.ReplaceAll(s, dir, l.Chart) }
	severities := map[int]string{support.ErrorSev: plan.SeverityError, support.WarningSev: plan.SeverityWarning}
	for _, m := range result.Messages {
		if m.Err.Error() == "" { // Helm adds these for disabled subcharts
			continue
		}
		l.add(report.Finding{
			Severity: cmp.Or(severities[m.Severity], plan.SeverityInfo), Path: relabel(m.Path), Message: relabel(m.Err.Error()),
		})
	}
	if len(result.Messages) == 0 {
		for _, err := range result.Errors {
			l.fail(relabel(err.Error()))
		}
	}
	return nil
}

// order adds the findings about the chart's order (R37). If the chart cannot be rendered, it adds the
// error as a finding and returns it.
func (l *linted) order(ctx context.Context, a *app, c *charts.Chart, vals map[string]any) error {
	r, err := charts.Render(ctx, c, vals, l.renderOptions(l.namespace, l.limits))
	if where, message, refused := charts.RefusedByTemplate(err); refused {
		l.add(report.Finding{Severity: plan.SeverityWarning, Rule: "R37", Chart: c.Name(), Message: fmt.Sprintf(
			"%s: order not checked, because %s needs other values: %s; set them with -f or --set", c.Name(), where, text.CollapseSpace(message))})
		return err
	}
	if charts.RequiresVersion(err) {
		l.add(report.Finding{Severity: plan.SeverityWarning, Rule: "R37", Chart: c.Name(), Message: fmt.Sprintf("%s: order not checked: %s", c.Name(), text.CollapseSpace(err.Error()))})
		return err
	}
	if err != nil {
		l.fail(err.Error())
		return err
	}
	secrets, hideValues := r.Mask(), l.hide
	l.hide = func(s string) string { return hideValues(secrets.Text(s)) }
	a.Logs.Hide(l.hide)
	for _, err := range r.Check() {
		l.fail(err.Error())
	}
	var found []plan.Finding
	for _, w := range append(r.Warnings, r.SharedPorts()...) {
		found = append(found, plan.Finding{Severity: severity(w.Rule), Rule: w.Rule, Chart: w.Chart, Object: w.Object, Message: w.Message})
	}
	found = append(found, l.waitForJobs.Lint(r.Tree, r.Resources)...)
	if p, err := r.Plan(); err == nil { // otherwise plan.Lint has found the reason
		found = append(found, r.UnnamedWaits(p)...)
		_, implied := r.Ordered()
		found = append(found, implied.Contradictions(p)...)
		if plan.Unordered(p.Groups) && len(implied.Edges) > 0 {
			found = append(found, plan.Finding{Severity: plan.SeverityInfo, Rule: "R60", Chart: c.Name(), Message: c.Name() + ": " + input.NoOrder(l.Chart)})
		}
	}
	for _, f := range found {
		l.add(report.Finding{Severity: f.Severity, Rule: f.Rule, Chart: f.Chart, Object: f.Object, Message: f.Message})
	}
	for _, s := range r.Incompatible {
		l.add(report.Finding{Severity: plan.SeverityInfo, Rule: s.Rule, Message: s.String()})
	}
	return nil
}

// severity returns the severity of a chart loader's warning (R37).
func severity(rule string) string {
	if rule == "R34a" {
		return plan.SeverityInfo
	}
	return plan.SeverityOf(rule)
}
