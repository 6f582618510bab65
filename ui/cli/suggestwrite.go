package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/kube"
	"lockstep/ui/report"
)

// writeOrder writes an order into the files of the chart that was rendered, and
// says what is left.
func (a *app) writeOrder(cmd *cobra.Command, r *rendered, ordered *kube.Rendered, format string) error {
	mode := report.ModeText
	switch format {
	case "json":
		mode = report.ModeJSON
	case "text":
	default:
		return fmt.Errorf("--write says what it has written as text or json: leave -o %s out", format)
	}
	found, err := kube.PrepareAnnotations(cmd.Context(), kube.AnnotatedChart{Dir: r.chart.Path(), Values: r.values, Options: r.options, Rendered: r.Rendered},
		kube.AnnotatedOrder{Tree: ordered.Tree, Resources: ordered.Resources})
	if err != nil {
		return err
	}
	if err := found.Write(); err != nil {
		return err
	}
	written := report.Written{Chart: r.chart.Path(), Files: []report.WrittenFile{}, Left: []report.ManualEdit{}}
	for _, f := range found.Files {
		written.Files = append(written.Files, report.WrittenFile{Name: f.Name, Lines: f.Lines})
	}
	for _, l := range found.Left {
		written.Left = append(written.Left, report.ManualEdit(l))
	}
	if err := a.display(cmd, mode).Show(written); err != nil || len(found.Left) == 0 {
		return err
	}
	err = fmt.Errorf("%s in the order of %s cannot be written safely and is to be put in by hand; until then its order is another one",
		report.Count(len(found.Left), "place"), r.chart.Name())
	if len(found.Files) > 0 {
		return exitWith(exitFailed, err)
	}
	return err
}
