package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/engine"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/ui/report"
)

// dryRun prints an installation without a cluster.
func (flags *installFlags) dryRun(cmd *cobra.Command, a *app, name, ref string) error {
	d := &flags.deploy
	r := renderFlags{chart: d.chart, values: d.values, post: d.post, skipSchema: d.skipSchema, enableDNS: d.enableDNS}
	out, err := r.renderAs(cmd.Context(), a, name, ref)
	if err != nil {
		return err
	}
	return printDryRun(cmd, out, d, flags.run.noHooks)
}

// dryRunServer prints an installation that the cluster has checked.
func (a *app) dryRunServer(cmd *cobra.Command, j job, what kube.Rendering, d *deployFlags) error {
	in := watchInterrupts(cmd.Context(), cmd.ErrOrStderr())
	defer in.stop()
	return a.inSandbox(in.ctx, j.flags.sandbox, cmd.ErrOrStderr(), func() error {
		_, op, err := a.prepare(in, j)
		if err != nil {
			return err
		}
		out, err := previewed(op, what, a.settings.Namespace())
		if err != nil {
			return err
		}
		return printDryRun(cmd, out, d, j.flags.noHooks)
	})
}

// previewed is what an operation would deploy.
func previewed(op *kube.Operation, what kube.Rendering, namespace string) (*rendered, error) {
	tree, warnings, err := what.Chart.Tree(what.Values)
	if err != nil {
		return nil, err
	}
	rel := op.Preview()
	docs, lost, err := charts.Parse(rel.Manifest, tree.Path)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, lost...)
	crds, err := charts.CRDs(rel.Chart)
	if err != nil {
		return nil, err
	}
	all := append(append([]charts.Document{}, crds...), docs...)
	return planned(&charts.Rendered{
		Release: rel, Docs: docs, CRDs: crds, Tree: tree, Warnings: warnings,
		Resources: charts.Resources(docs, namespace, charts.OfflineScope(all...)),
	})
}

func printDryRun(cmd *cobra.Command, r *rendered, d *deployFlags, noHooks bool) error {
	if d.hideSecret {
		for i, doc := range r.Docs {
			if doc.Object.GetKind() == "Secret" {
				r.Docs[i].Raw = "# HIDDEN: the Secret is not shown (--hide-secret)\n"
			}
		}
	}
	printWarnings(cmd.ErrOrStderr(), r.plan.Warnings)
	if err := r.Print(cmd.OutOrStdout(), r.plan, charts.PrintOptions{IncludeCRDs: !d.skipCRDs, NoHooks: noHooks}); err != nil {
		return err
	}
	if notes := r.Release.Info.Notes; notes != "" && !d.hideNotes {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "NOTES:\n%s\n", notes)
		return err
	}
	return nil
}

// dryRunPhases says what an operation without a chart of its own would do.
func (a *app) dryRunPhases(cmd *cobra.Command, j job) error {
	in := watchInterrupts(cmd.Context(), cmd.ErrOrStderr())
	defer in.stop()
	return a.inSandbox(in.ctx, j.flags.sandbox, cmd.ErrOrStderr(), func() error {
		_, op, err := a.prepare(in, j)
		if err != nil {
			return err
		}
		printer := a.printer(cmd, j.flags.output.value, report.Options{})
		for _, w := range op.Warnings() {
			printer.Consume(engine.Event{Kind: engine.KindWarning, Rule: w.Rule, Object: w.Object, Message: w.Message})
		}
		printer.Consume(engine.Event{Kind: engine.KindPlan, Phases: op.Phases()})
		return nil
	})
}
