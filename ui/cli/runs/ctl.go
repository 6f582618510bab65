package runs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/cli/values"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

const ctlLong = `Steers a live run of another process on this machine, and prints what has become of the command.

  pause           start nothing further; what is in flight goes on
  continue        go on after a pause
  step [GROUP]    let exactly one group go while paused: the next, or the one named
  run-to GROUP    go on, and pause before a group
  break GROUP     stop before a group; again: take the breakpoint away
  disable GROUP   let a breakpoint stop nothing; again: let it stop
  accept [GROUP]  look again at what failed, without applying it
  retry [GROUP]   apply what failed again
  give-up [GROUP] leave what failed, and finish what is under way
  edit            while paused or held: end the revision and begin another one with other values, those of -f and --set laid
                  over the ones of the run; refused if it cannot be rendered or planned, or has more than 16 MiB of values
  abort           start nothing more and keep what is there; during a rollback the first one only says so
  rollback        abort, and roll back
  stop            abort, and cancel the requests in flight
  status          print where the run stands

Groups are named as in "lockstep dag", CHART:GROUP, or as on the screen where that is enough; break and disable also
take a pattern, "*:schema", and what is in a group, kind=Job. How runs are found, "lockstep attach --help" says.

Exit codes: 0 accepted, 1 refused, 2 there is no such run, or it ended before it could obey.`

// ctlCommands are the commands by the names that ctl has for them; those that
// take a group say so.
var ctlCommands = []struct {
	word    string
	command event.CommandName
	groups  int // 1: one may be named, 2: one has to be, 3: some have to be
}{
	{"pause", event.Pause, 0}, {"continue", event.Resume, 0}, {"step", event.Step, 1}, {"run-to", event.RunTo, 2}, {"break", event.Break, 3}, {"disable", event.Disable, 3},
	{"accept", event.Accept, 1}, {"retry", event.Retry, 1}, {"give-up", event.GiveUp, 1}, {"edit", event.Edit, 0},
	{"abort", event.Abort, 0}, {"rollback", event.Rollback, 0}, {"stop", event.Stop, 0}, {"status", "", 0}, {"resume", event.Resume, 0},
}

func (a *app) newCtl() *cobra.Command {
	output := command.TextOrJSON()
	var given values.Options
	cmd := &cobra.Command{
		Use:     "ctl RELEASE COMMAND [GROUP]",
		GroupID: "deploy",
		Short:   "steer a live run of another process on this machine",
		Long:    ctlLong,
		Example: `lockstep ctl shop status
lockstep ctl shop pause
lockstep ctl shop step shop/db:schema
lockstep ctl shop edit --set api.image.tag=1.2.3`,
		Args: command.Args(2, 3),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return completeLive(cmd, args, word)
			}
			var words []string
			for _, c := range ctlCommands {
				words = append(words, c.word)
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := ctlCommand(args[1:])
			if err == nil {
				c.Values, err = a.editedValues(c, given)
			}
			if err != nil {
				return err
			}
			return a.ctl(cmd, args[0], c, command.Mode(output.Value))
		},
	}
	command.AddChoice(cmd, &output, "output", "o", "format")
	command.AddValueFlags(cmd.Flags(), &given)
	return cmd
}

// editedValues are those that an edit is given, as YAML; other commands take none.
func (a *app) editedValues(c event.Command, given values.Options) (string, error) {
	vals, err := kube.MergeValues(given, a.Settings)
	switch {
	case err != nil:
		return "", err
	case c.Name != event.Edit && len(vals) > 0:
		return "", errors.New("values are for edit alone")
	case c.Name != event.Edit:
		return "", nil
	case len(vals) == 0:
		return "", errors.New("edit needs values: -f or --set")
	}
	return kube.YAML(vals)
}

// ctlCommand reads the command; status has no name.
func ctlCommand(args []string) (event.Command, error) {
	var words []string
	for _, c := range ctlCommands {
		switch {
		case c.word != args[0]:
			words = append(words, c.word)
			continue
		case c.groups == 0 && len(args) > 1:
			return event.Command{}, fmt.Errorf("%s takes no group", c.word)
		case c.groups >= 2 && len(args) < 2:
			return event.Command{}, fmt.Errorf("%s needs a group, CHART:GROUP", c.word)
		}
		return event.Command{Name: c.command, Group: first(args[1:]), Reason: "by lockstep ctl"}, nil
	}
	slices.Sort(words)
	return event.Command{}, fmt.Errorf("unknown command %q; there are %s", args[0], strings.Join(words, ", "))
}

func (a *app) ctl(cmd *cobra.Command, name string, c event.Command, m command.Mode) error {
	r, err := a.joinRun(cmd, name)
	if err != nil {
		return err
	}
	defer r.Close()
	d := a.Display(cmd, m.Report())
	if c.Name == "" {
		return d.Show(report.NewRunStatus(r.Now(cmd.Context())))
	}
	orders := []event.Command{c}
	if c.Group != "" {
		if orders, err = about(c, r.Now(cmd.Context())); err != nil {
			return command.Exit(command.ExitFailed, err)
		}
	}
	var refused error
	for _, order := range orders {
		answer, err := r.Ask(cmd.Context(), order)
		if err != nil {
			return err
		}
		if answer.Status == event.Refused {
			refused = command.Exit(command.ExitFailed, errors.New(answer.Message))
		}
		if err := d.Show(report.Answer(answer)); err != nil {
			return err
		}
	}
	return refused
}

// about are the commands for the groups that a command names. A breakpoint on
// several is set where there is none, and taken away where there is one on each.
func about(c event.Command, s *event.State) (orders []event.Command, err error) {
	ids, err := plan.Pick(c.Group, s.Groups())
	if err != nil {
		return nil, err
	}
	set := func(id string) bool {
		for u := range s.Breakpoints {
			if u.Group == id {
				return true
			}
		}
		return false
	}
	several := c.Name == event.Break || c.Name == event.Disable
	switch {
	case len(ids) > 1 && !several:
		return nil, fmt.Errorf("%s takes one group, %s is %s", c.Name, c.Group, strings.Join(ids, ", "))
	case len(ids) > 1 && c.Name == event.Disable:
		ids = slices.DeleteFunc(ids, func(id string) bool { return !set(id) })
	case len(ids) > 1 && slices.ContainsFunc(ids, func(id string) bool { return !set(id) }):
		ids = slices.DeleteFunc(ids, set)
	}
	for _, id := range ids {
		c.Group = id
		orders = append(orders, c)
	}
	if len(orders) == 0 {
		return nil, fmt.Errorf("no group that %s means has a breakpoint", c.Group)
	}
	return orders, nil
}
