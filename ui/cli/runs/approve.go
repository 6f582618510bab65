package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// asked is what a run asks to be approved, and where that is written.
type asked struct {
	at        event.ApprovalsAt
	approvals []plan.Approval
}

// readsApprovals reports whether a run, or a release of a stack, reads its approvals from the cluster.
func readsApprovals(now *event.State) bool {
	for _, release := range now.Scopes {
		if release.Operation.Approvals != nil {
			return true
		}
	}
	return now.Operation.Approvals != nil
}

// approveInCluster writes approvals for a run that reads them from the cluster, with the account of this connection: of the
// groups that the commands name, or else of all that pause the run.
func (a *app) approveInCluster(cmd *cobra.Command, now *event.State, commands []event.Command) error {
	var all []asked
	add := func(scope string, s *event.State) {
		for g := range s.GroupStates() {
			at := s.Operation.Approvals
			if release := s.Scopes[g.ID]; s.Operation.IsStack() && release != nil {
				at = release.Operation.Approvals
			}
			named := func(c event.Command) bool {
				return c.Group == g.ID || now.Operation.IsStack() && names(now, c.Group, scope, g.ID)
			}
			if at != nil && (commands[0].Group == "" && g.Code == event.Unapproved || slices.ContainsFunc(commands, named)) {
				all = append(all, asked{*at, s.Unapproved(g)})
			}
		}
	}
	add("", now)
	for scope, s := range now.Scopes {
		add(scope, s)
	}
	return a.writeApprovals(cmd, all)
}

// names reports whether text, RELEASE, RELEASE/GROUP or GROUP, names a group of a release of a stack or, without a scope, that
// release.
func names(now *event.State, text, scope, group string) bool {
	id := cmp.Or(scope, group)
	release := now.Scopes[id]
	if release == nil {
		return false
	}
	for _, name := range []string{id, release.Operation.Release} {
		rest, ok := strings.CutPrefix(text, name)
		switch {
		case ok && rest == "":
			return scope == ""
		case ok && strings.HasPrefix(rest, "/"):
			text = rest[1:]
		}
	}
	ids, err := plan.Pick(text, release.Groups())
	return scope != "" && err == nil && slices.Contains(ids, group)
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
	return a.writeApprovals(cmd, []asked{{*at, asks}})
}

func (a *app) writeApprovals(cmd *cobra.Command, all []asked) error {
	all = slices.DeleteFunc(all, func(one asked) bool { return len(one.approvals) == 0 })
	if len(all) == 0 {
		return command.Exit(command.ExitFailed, errors.New("approve refused: nothing waits for an approval; name a group to approve it beforehand"))
	}
	client, err := a.Connect()
	if err != nil {
		return err
	}
	user := ""
	for _, one := range all {
		user, err = command.Cancelable(cmd.Context(), func(ctx context.Context) (string, error) { return client.Approve(ctx, one.at, one.approvals) })
		if err != nil {
			return command.Exit(command.ExitFailed, fmt.Errorf("approve refused: %w", err))
		}
	}
	message := "written as " + user
	return a.Display(cmd).Show(report.Answer(event.Event{Kind: event.KindCommand, Command: event.Approve, Status: event.Accepted, Message: message}))
}
