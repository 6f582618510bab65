package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/engine"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/ui/report"
)

// addDryRun adds --dry-run as Helm has it.
func addDryRun(cmd *cobra.Command, value *string) {
	f := cmd.Flags()
	f.StringVar(value, "dry-run", "none", "write nothing and print what would be done: client (an installation without a cluster), server (checked by the cluster)")
	f.Lookup("dry-run").NoOptDefVal = "client"
	complete(cmd, "dry-run", []string{"none", "client", "server"})
}

// dryRunMode reads --dry-run as Helm does: none, client or server.
func dryRunMode(value string) (string, error) {
	switch value {
	case "none", "client", "server":
		return value, nil
	}
	yes, err := strconv.ParseBool(value)
	if err != nil {
		return "", fmt.Errorf("--dry-run=%s: use none, client or server", value)
	}
	if yes {
		return "client", nil
	}
	return "none", nil
}

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

// dryRunServer prints an installation or an upgrade that the cluster has
// checked.
func (a *app) dryRunServer(cmd *cobra.Command, j job, chart *charts.Chart, d *deployFlags) error {
	return a.prepared(cmd, j, func(_ *kube.Client, op *kube.Operation) error {
		out, err := previewed(op, chart, a.settings.Namespace())
		if err != nil {
			return err
		}
		if err := printDryRun(cmd, out, d, j.flags.noHooks); err != nil {
			return err
		}
		return printRemovals(cmd, op.Phases())
	})
}

// operateOrPlan carries a job out, or in a dry run prints what it would do.
func (a *app) operateOrPlan(cmd *cobra.Command, dry bool, j job) error {
	if !dry {
		return a.operate(cmd, j)
	}
	return a.prepared(cmd, j, func(_ *kube.Client, op *kube.Operation) error {
		var feed engine.Feed
		info := op.Info()
		feed.Publish(engine.Event{Kind: engine.KindOperation, Status: engine.Running, Operation: &info, Message: "dry run: nothing is written"})
		feed.Publish(engine.Event{Kind: engine.KindPlan, Phases: op.Phases()})
		for _, w := range op.Warnings() {
			feed.Publish(engine.Event{Kind: engine.KindWarning, Rule: w.Rule, Object: w.Object, Message: w.Message})
		}
		report.Replay(feed.Events(), a.printer(cmd, string(j.mode), report.Options{}))
		return nil
	})
}

// previewed is what an operation would deploy.
func previewed(op *kube.Operation, chart *charts.Chart, namespace string) (*rendered, error) {
	rel := op.Preview()
	tree, warnings, err := chart.Tree(rel.Config)
	if err != nil {
		return nil, err
	}
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

// printRemovals lists, in comments, what an upgrade would remove.
func printRemovals(cmd *cobra.Command, phases []engine.Phase) error {
	for _, p := range phases {
		if p.Kind != engine.PhaseRemove {
			continue
		}
		for _, g := range p.Groups {
			for _, o := range g.Objects {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "## REMOVE: %s %s\n", g.ID, o); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
