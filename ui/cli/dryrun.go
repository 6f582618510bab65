package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
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
	return printDryRun(cmd, out, d, &flags.run)
}

// dryRunServer prints an installation or an upgrade that the cluster has
// checked.
func (a *app) dryRunServer(cmd *cobra.Command, j job, chart *charts.Chart, d *deployFlags) error {
	return a.prepared(cmd, j, func(_ context.Context, op *kube.Operation) error {
		out, err := previewed(op, chart)
		if err != nil {
			return err
		}
		if err := printDryRun(cmd, out, d, j.flags); err != nil || j.mode == modeJSON {
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
	return a.prepared(cmd, j, func(_ context.Context, op *kube.Operation) error {
		var feed event.Feed
		info := op.Info()
		feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &info, Message: "dry run: nothing is written"})
		feed.Publish(event.Event{Kind: event.KindPlan, Phases: op.Phases()})
		for _, w := range op.Warnings() {
			feed.Publish(event.Event{Kind: event.KindWarning, Rule: w.Rule, Object: w.Object, Message: w.Message})
		}
		report.Replay(feed.Events(), a.printer(cmd, string(j.mode), report.Options{}))
		return nil
	})
}

// previewed is what an operation would deploy.
func previewed(op *kube.Operation, chart *charts.Chart) (*rendered, error) {
	rel := op.Preview()
	tree, warnings, err := chart.Tree(rel.Config)
	if err != nil {
		return nil, err
	}
	r, err := charts.FromRelease(rel, tree, op.Info().Name == "upgrade")
	if err != nil {
		return nil, err
	}
	r.Warnings = append(warnings, r.Warnings...)
	return planned(r)
}

// printRemovals lists, in comments, what an upgrade would remove.
func printRemovals(cmd *cobra.Command, phases []event.Phase) error {
	for _, p := range phases {
		if p.Kind != event.PhaseRemove {
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

// printDryRun prints what would be deployed, in order, or with -o json the
// release as Helm does, whose manifest is in order.
func printDryRun(cmd *cobra.Command, r *rendered, d *deployFlags, run *runFlags) error {
	if d.hideSecret {
		for i, doc := range r.Docs {
			if doc.Object.GetKind() == "Secret" {
				r.Docs[i].Raw = "# HIDDEN: the Secret is not shown (--hide-secret)\n"
			}
		}
	}
	printWarnings(cmd.ErrOrStderr(), r.plan.Warnings)
	if run.output.value == "json" {
		var manifest bytes.Buffer
		if err := r.Print(&manifest, r.plan, charts.PrintOptions{NoHooks: true}); err != nil {
			return err
		}
		shown := *r.Release
		shown.Manifest = manifest.String()
		return json.NewEncoder(cmd.OutOrStdout()).Encode(&shown)
	}
	if err := r.Print(cmd.OutOrStdout(), r.plan, charts.PrintOptions{IncludeCRDs: !d.skipCRDs, NoHooks: run.noHooks}); err != nil {
		return err
	}
	if notes := r.Release.Info.Notes; notes != "" && !d.hideNotes {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "NOTES:\n%s\n", notes)
		return err
	}
	return nil
}
