package runs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/cli/values"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/documents"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
)

const ctlLong = `Control a live run of another process on this machine, or of a Job in the cluster. COMMAND is pause, resume, step,
run-to, break, disable, approve, accept, retry, give-up, edit, abort, rollback, stop or status.

  pause           start no new groups; running ones continue (p)
  resume          continue after a pause (c)
  step [GROUP]    while paused, start one group: the next one (n), or GROUP (N)
  run-to GROUP    continue, and pause before a group (t)
  break GROUP     set a breakpoint before a group, or remove it (b)
  disable GROUP   disable a breakpoint, or enable it again (B)
  approve [GROUP] approve a group that waits for it, or all of them (O)
  accept [GROUP]  re-check failed groups without applying them; skip failed hooks
                  ("re-check" on the screen, A)
  retry [GROUP]   apply failed groups again (R)
  give-up [GROUP] leave failed groups as they are, finish running work, then
                  end the run as failed ("stop here" on the screen, G)
  edit            while paused or held, continue as a new revision with the
                  values of -f and --set merged into those of the run (e)
  abort           start nothing new, keep existing objects; during a
                  rollback the first abort only prints a warning (a, K)
  rollback        abort and roll back (a, r)
  stop            abort now: cancel the requests in flight (ctrl-c twice)
  status          print the state of the run

The keys in parentheses do the same on the screen.

edit is refused if no object changes, if the chart fails to render, if its order is invalid, or if the values exceed
16 MiB (200 KiB for a run in the cluster).

GROUP is a name that "lockstep dag" prints, CHART:GROUP, or any unambiguous suffix of one; CHART:~ means objects
without a group. break and disable also accept a pattern, "*:schema", or the kind of an object in the group, kind=Job.
For a run of up or down, GROUP can also be RELEASE or RELEASE/GROUP. "lockstep help attach" explains how runs are found.

Exit codes: 0 accepted, 1 refused, 2 no such run, the run has ended, or the connection was lost.`

type groupArg int

const (
	noGroup groupArg = iota
	optionalGroup
	requiredGroup
)

// ctlCommand is a value of the argument COMMAND.
type ctlCommand struct {
	word    string
	command event.CommandName // "" for status
	group   groupArg
}

var ctlCommands = []ctlCommand{
	{"pause", event.Pause, noGroup}, {"resume", event.Resume, noGroup}, {"step", event.Step, optionalGroup}, {"run-to", event.RunTo, requiredGroup},
	{"break", event.Break, requiredGroup}, {"disable", event.Disable, requiredGroup},
	{"approve", event.Approve, optionalGroup},
	{"accept", event.Accept, optionalGroup}, {"retry", event.Retry, optionalGroup}, {"give-up", event.GiveUp, optionalGroup}, {"edit", event.Edit, noGroup},
	{"abort", event.Abort, noGroup}, {"rollback", event.Rollback, noGroup}, {"stop", event.Stop, noGroup}, {"status", "", noGroup},
}

func (a *app) newCtl() *cobra.Command {
	var opts values.Options
	var pastNoReturn, reason string
	cmd := &cobra.Command{
		Use: "ctl RELEASE COMMAND [GROUP]", GroupID: "deploy", Short: "control a live run", Long: ctlLong,
		Example: `lockstep ctl shop status
lockstep ctl shop pause
lockstep ctl shop step shop/db:schema
lockstep ctl shop run-to web:~
lockstep ctl shop edit --set api.image.tag=1.2.3`,
		Args: func(cmd *cobra.Command, args []string) error {
			err := command.Args(2, 3)(cmd, args)
			if len(args) < 2 {
				err = command.UsageError(err.Error() + "; COMMAND is one of " + ctlList())
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return completeLive(cmd, args, word)
			case 1:
			default:
				return a.completeGroup(cmd, args)
			}
			return ctlWords(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := parseCtl(args[1:])
			if c.PastNoReturn = pastNoReturn; err == nil && pastNoReturn != "" && c.Name != event.Rollback {
				err = errors.New("only ctl rollback takes --past-no-return")
			}
			if c.Reason = reason; err == nil && reason != "" && c.Name != event.Accept {
				err = errors.New("only ctl accept takes --reason")
			}
			if err == nil {
				c.Values, err = a.editedValues(c, opts)
			}
			if err != nil {
				return err
			}
			return a.ctl(cmd, args[0], c)
		},
	}
	command.AddOutput(cmd)
	edit := pflag.NewFlagSet("edit", pflag.ContinueOnError)
	input.AddValueFlags(edit, &opts)
	edit.VisitAll(func(f *pflag.Flag) { f.Usage = "with edit, " + f.Usage })
	cmd.Flags().AddFlagSet(edit)
	cmd.Flags().StringVar(&pastNoReturn, "past-no-return", "", "with rollback: the reason of the point of no return to go back past")
	cmd.Flags().StringVar(&reason, "reason", "", "with accept: why, for the report and the record of the run")
	cmd.Flags().Duration("timeout", 30*time.Second, "how long to wait for the run and its reply")
	return cmd
}

// ctlTimeout returns --timeout.
func ctlTimeout(cmd *cobra.Command) time.Duration {
	timeout, _ := cmd.Flags().GetDuration("timeout") // defined below
	return timeout
}

func ctlWords() (words []string) {
	for _, c := range ctlCommands {
		words = append(words, c.word)
	}
	return words
}

func ctlList() string { return strings.Join(slices.Sorted(slices.Values(ctlWords())), ", ") }

func (a *app) completeGroup(cmd *cobra.Command, args []string) ([]string, cobra.ShellCompDirective) {
	takesGroup := func(c ctlCommand) bool { return c.word == args[1] && c.group != noGroup }
	if len(args) > 2 || !slices.ContainsFunc(ctlCommands, takesGroup) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	r, err := a.connectRun(cmd, args[0], time.Second)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer r.Close()
	return command.CompleteGroups(r.Now(cmd.Context()).Groups())
}

// editedValues returns the values passed to edit, encoded. Other commands take none.
func (a *app) editedValues(c event.Command, opts values.Options) (string, error) {
	vals, err := charts.Values(opts, a.Settings)
	switch {
	case err != nil:
		return "", err
	case c.Name != event.Edit && len(vals) > 0:
		return "", errors.New("only ctl edit takes values")
	case c.Name != event.Edit:
		return "", nil
	case len(vals) == 0:
		return "", errors.New("ctl edit needs values; pass -f or --set")
	}
	return documents.EncodeExact(vals)
}

// parseCtl parses COMMAND [GROUP].
func parseCtl(args []string) (none event.Command, _ error) {
	i := slices.IndexFunc(ctlCommands, func(c ctlCommand) bool {
		return c.word == args[0] || c.command == event.Resume && args[0] == "continue" // not listed by help
	})
	if i < 0 {
		return none, fmt.Errorf("unknown command %q; use one of %s", args[0], ctlList())
	}
	switch c := ctlCommands[i]; {
	case c.group == noGroup && len(args) > 1:
		return none, fmt.Errorf("ctl %s takes no group (got %q)", c.word, args[1])
	case c.group == requiredGroup && len(args) < 2:
		return none, fmt.Errorf("ctl %s needs a group, for example shop/db:schema", c.word)
	default:
		return event.Command{Name: c.command, Group: firstArg(args[1:]), Via: "lockstep ctl"}, nil
	}
}

func (a *app) ctl(cmd *cobra.Command, name string, c event.Command) error {
	r, err := a.connectRun(cmd, name, ctlTimeout(cmd))
	if err != nil && c.Name == event.Approve {
		return a.approveElsewhere(cmd, name, c.Group, err)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	d := a.Display(cmd)
	if c.Name == "" {
		return d.Show(report.NewRunStatus(r.Now(cmd.Context())))
	}
	now := r.Now(cmd.Context())
	if all, found := clusterApprovals(now); c.Name == event.Approve && found {
		return a.approveInCluster(cmd, all, c.Group)
	}
	commands := []event.Command{c}
	if c.Group != "" && !r.Operation.IsStack() { // a stack resolves the names of groups itself
		if commands, err = expandGroups(c, now); err != nil {
			return command.Exit(command.ExitFailed, err)
		}
	}
	var refused error
	for _, one := range commands {
		answer, err := r.Do(cmd.Context(), one)
		if err != nil {
			return waitedForPod(err, r.Waiting())
		}
		shown := report.Answer(answer)
		if answer.Status == event.Refused {
			refused = command.Exit(command.ExitFailed, errors.New(shown.Refusal()))
		}
		var view report.View = shown
		if toggles := one.Name == event.Break || one.Name == event.Disable; toggles && answer.Status == event.Accepted && !r.Operation.IsStack() {
			enabled, set := breakpointOf(r.Now(cmd.Context()), one.Group)
			view = report.Breakpoint{Answer: shown, Set: set, Enabled: enabled}
		}
		if err := d.Show(view); err != nil {
			return err
		}
	}
	return refused
}

// breakpointOf reports whether a group has a breakpoint, and whether that is enabled.
func breakpointOf(s *event.State, group string) (enabled, set bool) {
	for u, on := range s.Breakpoints {
		if u.Group == group {
			return on, true
		}
	}
	return false, false
}

// expandGroups returns one command for each group that c.Group matches. Break on several groups
// sets the missing breakpoints, or deletes all of them if every group has one. Disable on several
// groups skips those without a breakpoint.
func expandGroups(c event.Command, s *event.State) (commands []event.Command, err error) {
	ids, err := plan.Pick(c.Group, s.Groups())
	if err != nil {
		return nil, plan.WithHint(err, "list the groups with: "+command.ShellJoin([]string{text.Program, "ctl", s.Operation.Release, "status", "-n", s.Operation.Namespace}))
	}
	set := map[string]bool{}
	for u := range s.Breakpoints {
		set[u.Group] = true
	}
	toggles := c.Name == event.Break || c.Name == event.Disable
	switch {
	case len(ids) > 1 && !toggles:
		return nil, fmt.Errorf("%s takes one group, but %s matches %s", c.Name, c.Group, strings.Join(ids, ", "))
	case len(ids) > 1 && c.Name == event.Disable:
		ids = slices.DeleteFunc(ids, func(id string) bool { return !set[id] })
	case len(ids) > 1 && slices.ContainsFunc(ids, func(id string) bool { return !set[id] }):
		ids = slices.DeleteFunc(ids, func(id string) bool { return set[id] })
	}
	for _, id := range ids {
		c.Group = id
		commands = append(commands, c)
	}
	if len(commands) == 0 {
		return nil, fmt.Errorf("no group matching %s has a breakpoint", c.Group)
	}
	return commands, nil
}
