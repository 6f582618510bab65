package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// approveInCluster writes approvals for a run that reads them from the cluster, with the account of this connection: of the
// groups that the commands name, or else of all that pause the run.
func (a *app) approveInCluster(cmd *cobra.Command, now *event.State, commands []event.Command) error {
	named := commands[0].Group != ""
	var asked []plan.Approval
	for g := range now.GroupStates() {
		if !named && g.Code != event.Unapproved || named && !slices.ContainsFunc(commands, func(c event.Command) bool { return c.Group == g.ID }) {
			continue
		}
		asked = append(asked, now.Unapproved(g)...)
	}
	return a.writeApprovals(cmd, *now.Operation.Approvals, asked)
}

// approveElsewhere writes approvals for the run of a release on another machine, which this one cannot reach: of the named
// group, or else of all that it asks for. notFound is why there is no other run.
func (a *app) approveElsewhere(cmd *cobra.Command, name, group string, notFound error) error {
	client, err := a.Connect()
	if err != nil {
		return notFound
	}
	at, asks, err := client.FindApprovals(cmd.Context(), a.Settings.Namespace(), name)
	if err != nil || at == nil {
		return errors.Join(notFound, err)
	}
	if group != "" {
		var groups []*plan.Group
		for _, ask := range asks {
			groups = append(groups, &plan.Group{ID: ask.Of, Name: ask.Of})
		}
		ids, err := plan.Pick(group, groups)
		if err != nil {
			return command.Exit(command.ExitFailed, err)
		}
		asks = slices.DeleteFunc(asks, func(ask plan.Approval) bool { return !slices.Contains(ids, ask.Of) })
	}
	return a.writeApprovals(cmd, *at, asks)
}

func (a *app) writeApprovals(cmd *cobra.Command, at event.ApprovalsAt, asked []plan.Approval) error {
	if len(asked) == 0 {
		return command.Exit(command.ExitFailed, errors.New("approve refused: nothing waits for an approval; name a group to approve it beforehand"))
	}
	client, err := a.Connect()
	if err != nil {
		return err
	}
	user, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (string, error) { return client.Approve(ctx, at, asked) })
	if err != nil {
		return command.Exit(command.ExitFailed, fmt.Errorf("approve refused: %w", err))
	}
	message := "written as " + user
	return a.Display(cmd).Show(report.Answer(event.Event{Kind: event.KindCommand, Command: event.Approve, Status: event.Accepted, Message: message}))
}
