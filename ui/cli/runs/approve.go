package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// asked is what a group, or a release of a stack, asks to be approved, and where that is written.
type asked struct {
	release   string // of a group of a stack
	id        string // of the group, or of a release of a stack
	at        event.ApprovalsAt
	approvals []plan.Approval
	waits     bool // it pauses the run
}

// clusterApprovals returns what must still be approved in the cluster. found is false if the run takes commands instead.
func clusterApprovals(now *event.State) (all []asked, found bool) {
	add := func(scope string, s *event.State) {
		for g := range s.GroupStates() {
			at := s.Operation.Approvals
			if release := s.Scopes[g.ID]; s.Operation.IsStack() && release != nil {
				at = release.Operation.Approvals
			}
			found = found || at != nil
			if missing := s.Unapproved(g); at != nil && len(missing) > 0 {
				all = append(all, asked{scope, g.ID, *at, missing, g.Code == event.Unapproved})
			}
		}
	}
	add("", now)
	for _, scope := range slices.Sorted(maps.Keys(now.Scopes)) {
		add(scope, now.Scopes[scope])
	}
	return all, found
}

// approveElsewhere writes approvals for the run of a release on another machine, which this one cannot reach: of the named
// group, or else of all that it asks for. notFound says that there is no other run.
func (a *app) approveElsewhere(cmd *cobra.Command, name, group string, notFound error) error {
	client, err := a.Connect()
	if err != nil {
		return notFound
	}
	at, asks, err := client.FindApprovals(cmd.Context(), a.Settings.Namespace(), name)
	switch {
	case err != nil: // there may be one
		return fmt.Errorf("find the run of release %s on another machine: %w", name, client.ExplainDenied(err))
	case at == nil:
		return notFound
	}
	var all []asked
	for _, ask := range asks {
		all = append(all, asked{"", ask.Of, *at, []plan.Approval{ask}, true})
	}
	return a.approveInCluster(cmd, all, group)
}

// pickAsked returns what the group or the release asks for that text names: GROUP, RELEASE or RELEASE/GROUP.
func pickAsked(all []asked, name string) (picked []asked, err error) {
	named := func(one asked) bool { return one.release == "" && (one.id == name || path.Base(one.id) == name) }
	if i := slices.IndexFunc(all, named); i >= 0 && !slices.ContainsFunc(all[i+1:], named) {
		return all[i : i+1], nil // a group may have the name of a release
	}
	pick := func(all []asked, name string, id func(asked) string) error {
		var groups []*plan.Group
		for _, one := range all {
			groups = append(groups, &plan.Group{ID: id(one)})
		}
		ids, err := plan.Pick(name, groups)
		for _, one := range all {
			if slices.Contains(ids, id(one)) {
				picked = append(picked, one)
			}
		}
		return err
	}
	err = pick(all, name, func(one asked) string { return text.Join("/", one.release, one.id) })
	if at := strings.LastIndexByte(name, '/'); err != nil && at > 0 { // the group may be shortened
		in := slices.DeleteFunc(slices.Clone(all), func(one asked) bool { return name[:at] != one.release && name[:at] != path.Base(one.release) })
		if len(in) > 0 {
			err = pick(in, name[at+1:], func(one asked) string { return one.id })
		}
	}
	return picked, err
}

// approveInCluster writes approvals with the account of this connection: of the named group or release, or else of all that
// pause the run.
func (a *app) approveInCluster(cmd *cobra.Command, all []asked, group string) error {
	if group == "" {
		all = slices.DeleteFunc(all, func(one asked) bool { return !one.waits })
	} else if picked, err := pickAsked(all, group); err != nil && len(all) > 0 {
		return command.Exit(command.ExitFailed, fmt.Errorf("approve refused: %w", err))
	} else {
		all = picked
	}
	if len(all) == 0 {
		return command.Exit(command.ExitFailed, errors.New("approve refused: nothing waits for an approval; name a group to approve it beforehand"))
	}
	client, err := a.Connect()
	if err != nil {
		return err
	}
	by := ""
	for _, one := range all {
		by, err = command.Cancelable(cmd.Context(), func(ctx context.Context) (string, error) { return client.Approve(ctx, one.at, one.approvals) })
		if err != nil {
			return command.Exit(command.ExitFailed, fmt.Errorf("approve refused: %w", err))
		}
	}
	message := "approved by " + by
	return a.Display(cmd).Show(report.Answer(event.Event{Kind: event.KindCommand, Command: event.Approve, Status: event.Accepted, Message: message}))
}
