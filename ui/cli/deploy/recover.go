package deploy

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/releases"
	"lockstep/ui/report"
)

const recoverLong = `Mark a release as failed if a killed run left it pending or uninstalling, and show its objects: which match the latest
revision or an earlier one, which are missing or left over, and which are ready. Nothing else changes.

After a killed run of lockstep you do not need recover: the next install, upgrade, rollback or uninstall does the same
and continues. After a killed run of helm you do: other commands refuse a release that helm left pending, because helm
may still be running. Make sure that it is not, then run recover. If a run of lockstep is still active, recover names it
and exits with code 2.

-o json prints one object: release, namespace, revision, status, marked (revision, from, to, by), groups (id, after,
status, objects), left (objects) and next (commands). Each object has group, kind, namespace, name, status, message,
is (applied, earlier, changed, missing or left) and revision.`

func (a *app) newRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover NAME", GroupID: "release", Short: "mark a release as failed if a killed run left it pending", Long: recoverLong,
		Example: `lockstep recover shop -n shop
lockstep recover shop -n shop -o json | jq '.groups[] | {id, status}'`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error { return a.recover(cmd, args[0]) },
	}
	command.AddOutput(cmd)
	return cmd
}

func (a *app) recover(cmd *cobra.Command, name string) error {
	client, err := a.Connect()
	if err != nil {
		return err
	}
	common := kube.Common{Release: name, Namespace: a.Settings.Namespace(), Lease: a.leaseOptions(cmd)}
	found, err := command.Cancelable(cmd.Context(), func(ctx context.Context) (*kube.Recovery, error) {
		return client.Recover(ctx, common)
	})
	if err != nil {
		return err
	}
	d := a.Display(cmd)
	r := report.Recovery{
		Release: found.Release, Namespace: found.Namespace, Revision: found.Revision, Status: string(found.Status),
		Marked: []report.MarkedRevision{}, Groups: []report.RecoveredGroup{}, Leftovers: []report.RecoveredObject{},
		Next: suggester{app: a, cmd: cmd}.afterRecovery(found),
	}
	killedRun := ""
	if found.Dead != nil {
		killedRun = found.Dead.String()
	}
	for _, mark := range found.Marked {
		r.Marked = append(r.Marked, report.MarkedRevision{
			Revision: mark.Revision, From: string(mark.From), To: string(mark.To), By: killedRun,
		})
	}
	if found.Interrupted == "" {
		return d.Show(r)
	}
	view, err := releases.OpenView(cmd.Context(), client, name, a.Settings.Namespace(), found.Revision)
	if err != nil {
		return err
	}
	state, err := releases.ReadOnce(cmd.Context(), view)
	if state == nil {
		return errors.Join(err, d.Show(r))
	}
	command.WarnIf(d.Notices, err)
	r.Groups, r.Leftovers = joinRecovery(found, report.Groups(state, nil))
	return d.Show(r)
}

// joinRecovery adds to the live objects of a release the revision that each matches.
func joinRecovery(found *kube.Recovery, live []report.Group) (groups []report.RecoveredGroup, leftovers []report.RecoveredObject) {
	groups, leftovers = []report.RecoveredGroup{}, []report.RecoveredObject{}
	byObject := map[plan.Object]report.RecoveredObject{}
	for _, c := range found.Changes {
		o := report.RecoveredObject{Object: c.Object, Match: "changed"}
		switch c.Action {
		case inspect.Unchanged:
			o.Match, o.Revision = "applied", found.Revision
		case inspect.Create:
			o.Match = "missing"
		case inspect.Delete:
			o.Match, o.Revision = "left", event.LeftoverRevision(c.Phase)
			leftovers = append(leftovers, o)
			continue
		default:
			if found.MatchesGood[c.Object] {
				o.Match, o.Revision = "earlier", found.GoodRevision
			}
		}
		byObject[c.Object] = o
	}
	for _, g := range live {
		out := report.RecoveredGroup{ID: g.ID, After: g.After, Status: g.Status}
		for _, o := range g.Objects {
			recovered, ok := byObject[o.Object]
			if !ok { // an object with a generated name
				recovered = report.RecoveredObject{Object: o.Object, Match: "applied", Revision: found.Revision}
			}
			recovered.Status, recovered.Message = o.Status, o.Message
			if recovered.Match == "missing" {
				recovered.Status, recovered.Message = event.Waiting, ""
			}
			out.Objects = append(out.Objects, recovered)
		}
		groups = append(groups, out)
	}
	return groups, leftovers
}

// afterRecovery suggests commands after a recovery: the interrupted one, and for an upgrade also a
// rollback to the last good revision.
func (s suggester) afterRecovery(r *kube.Recovery) []string {
	state := &event.State{Operation: event.Operation{Release: r.Release, Namespace: r.Namespace}}
	rollback := func(to int) string { return s.related(state, "", "rollback", r.Release, fmt.Sprint(to)) }
	next := []string{}
	switch r.Interrupted {
	case "install", "upgrade":
		next = append(next, s.related(state, "with the same chart, values and flags", r.Interrupted, r.Release, "CHART"))
	case "rollback":
		return append(next, rollback(r.RollbackTarget))
	case "uninstall":
		return append(next, s.related(state, "", r.Interrupted, r.Release))
	}
	if r.GoodRevision > 0 && r.Interrupted == "upgrade" {
		next = append(next, rollback(r.GoodRevision))
	}
	return next
}

// NewRepair returns the function that applies the objects that differ from the record of a release again (S18), and prints the
// run as lines.
func NewRepair(shared *command.App) releases.Repair {
	var out outFlags
	return releases.Repair{AddFlags: out.addNotify, Run: func(cmd *cobra.Command, settings *helmcli.EnvSettings, name string, how command.Repairs) error {
		here := *shared
		here.Settings = settings
		a := &app{&here}
		follow, err := a.follow(cmd, out, nil)
		if err != nil {
			return err
		}
		defer follow.close(a.Display(cmd).Notices)
		return a.prepareAndRun(cmd, operationSpec{
			runOptions: runOptions{
				hangup: command.HangupContinue, follow: follow, approvalTimeout: how.ApprovalTimeout,
				common: kube.Common{Timeout: how.Timeout, Approve: how.Approve, Heartbeat: heartbeat},
			},
			release: name, abortOutcome: "the record of the release does not change",
			next: func(s *event.State, m *mask.Mask) []string {
				if s.Status == event.Succeeded || wroteNothing(s) {
					return nil
				}
				return []string{suggester{a, cmd, m}.related(s, "to see what still differs", "drift", name)}
			},
			prepare: func(ctx context.Context, c *kube.Client, common kube.Common) (*kube.Operation, error) {
				return c.PrepareRepair(ctx, kube.Repair{Common: common})
			},
		})
	}}
}
