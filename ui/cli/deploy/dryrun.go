package deploy

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

// Usages of --dry-run: only an install can be rendered without the cluster.
const (
	installDryRunUsage = "print the result without writing anything: client renders locally, server also checks against the cluster"
	dryRunUsage        = "print the result without writing anything (client and server are the same here)"
)

var dryRunValues = []string{command.DryRunNone, command.DryRunClient, command.DryRunServer}

// dryRun prints the result of an install without a cluster.
func (flags *installFlags) dryRun(cmd *cobra.Command, a *app, name, ref string) error {
	render := input.RenderFlags{ChartInput: flags.deploy.ChartInput}
	out, err := render.RenderAs(cmd.Context(), a.App, name, ref)
	if err != nil {
		return err
	}
	for _, text := range flags.run.common.BreakOn {
		if text == "failure" {
			continue
		}
		if _, err := plan.PickBreakpoint(text, out.Planned.Groups); err != nil {
			err = plan.WithHint(err, listChartGroups(ref))
			// It may be a hook: those are not in the plan.
			a.Display(cmd).Warn(fmt.Sprintf("--break-on: %v (--dry-run=client does not search hooks)", err))
		}
	}
	return a.showDryRun(cmd, out, out.Secrets, &flags.deploy, flags.run.common.NoHooks, nil)
}

// dryRunServer prints the result of an install or upgrade after checking it against the cluster.
func (a *app) dryRunServer(cmd *cobra.Command, spec operationSpec, chart *charts.Chart, d *deployFlags) error {
	return a.preview(cmd, spec, func(_ context.Context, op *kube.Operation) error {
		if err := refusal(op); err != nil {
			return err
		}
		out, err := renderPreview(op, chart)
		if err != nil {
			return err
		}
		return a.showDryRun(cmd, out, op.Mask(), d, spec.common.NoHooks, op.Phases())
	})
}

const nothingWritten = "dry run: nothing was written"

// dryRunLines returns an executor that prints the plan of an operation as lines.
func (a *app) dryRunLines() executor {
	return executor{run: func(cmd *cobra.Command, spec operationSpec) error {
		return a.preview(cmd, spec, func(_ context.Context, op *kube.Operation) error {
			if err := refusal(op); err != nil {
				return err
			}
			feed, info := event.Feed{Mask: op.Mask().Event}, op.Info()
			feed.Publish(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &info, Message: nothingWritten})
			feed.Publish(event.Event{Kind: event.KindPlan, Phases: op.Phases()})
			for _, w := range op.Warnings() {
				feed.Publish(event.WarningEvent(w))
			}
			d := a.Display(cmd)
			report.Replay(feed.Events(), d.Operation(report.Options{}))
			d.Print("\n" + nothingWritten + "\n")
			return nil
		})
	}}
}

// refusal returns the error about an operation that lockstep would refuse, or nil.
func refusal(op *kube.Operation) error {
	if conflicts := op.Conflicts(); len(conflicts) > 0 {
		return &kube.Refusal{Operation: op.Info().Name, Conflicts: conflicts}
	}
	return nil
}

// renderPreview returns the release that an operation would deploy.
func renderPreview(op *kube.Operation, chart *charts.Chart) (*input.Rendered, error) {
	rel := op.Preview()
	tree, warnings, err := chart.Tree(rel.Config)
	if err != nil {
		return nil, err
	}
	if op.Tree() != nil {
		tree = op.Tree()
	}
	r, err := charts.FromRelease(rel, tree, op.Info().Name == "upgrade")
	if err != nil {
		return nil, err
	}
	r.Warnings = append(warnings, r.Warnings...)
	return input.PlanRendered(r)
}

// showDryRun prints the objects that would be deployed, in order, and those that an upgrade
// would remove. As JSON it prints Helm's release with an ordered manifest.
func (a *app) showDryRun(cmd *cobra.Command, r *input.Rendered, secrets *mask.Mask, d *deployFlags, noHooks bool, phases []event.Phase) error {
	if d.showSecrets {
		secrets = nil
	} else {
		r.HideSecrets()
	}
	if d.hideSecret {
		for i, doc := range r.Docs {
			if doc.Object.GetKind() == "Secret" {
				r.Docs[i].Raw = "# HIDDEN: Secret omitted by --hide-secret\n"
			}
		}
	}
	var manifest bytes.Buffer
	if err := r.Print(&manifest, r.Planned, charts.PrintOptions{NoHooks: true}); err != nil {
		return err
	}
	shown := *r.Release
	shown.Manifest = manifest.String()
	out := report.DryRun{
		Release: &shown, Phases: phases, Warnings: secrets.Warnings(r.Planned.Warnings), Hide: secrets.Text,
		Print: func(w io.Writer) error {
			return r.Print(w, r.Planned, charts.PrintOptions{IncludeCRDs: d.Options.CRDs != kube.CRDsSkip, NoHooks: noHooks})
		},
	}
	if !d.Options.HideNotes {
		out.Notes = r.Release.Info.Notes
	}
	return a.Display(cmd).DryRun(out)
}
