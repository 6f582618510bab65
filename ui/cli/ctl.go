package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
)

const ctlLong = `Steers a live run of another process on this machine, and prints what has become of the command.

  pause           start nothing further; what is in flight goes on
  continue        go on after a pause
  step [GROUP]    let exactly one group go while paused: the next, or the one named
  break GROUP     stop before a group; again: take the breakpoint away
  accept [GROUP]  look again at what failed, without applying it
  retry [GROUP]   apply what failed again
  give-up [GROUP] leave what failed, and finish what is under way
  abort           start nothing more and keep what is there; during a rollback the first one only says so
  rollback        abort, and roll back
  stop            abort, and cancel the requests in flight
  status          print where the run stands

Groups are named as in "lockstep dag": CHART:GROUP. How runs are found, "lockstep attach --help" says.

Exit codes: 0 accepted, 1 refused, 2 there is no such run, or it ended before it could obey.`

// ctlCommands are the commands by the names that ctl has for them; those that
// take a group say so.
var ctlCommands = []struct {
	word    string
	command event.CommandName
	groups  int // 1: may be named, 2: has to be
}{
	{"pause", event.Pause, 0}, {"continue", event.Resume, 0}, {"step", event.Step, 1}, {"break", event.Break, 2},
	{"accept", event.Accept, 1}, {"retry", event.Retry, 1}, {"give-up", event.GiveUp, 1},
	{"abort", event.Abort, 0}, {"rollback", event.Rollback, 0}, {"stop", event.Stop, 0}, {"status", "", 0}, {"resume", event.Resume, 0},
}

func (a *app) newCtl() *cobra.Command {
	output := choice{allowed: []string{"text", "json"}}
	cmd := &cobra.Command{
		Use:     "ctl RELEASE COMMAND [GROUP]",
		GroupID: "deploy",
		Short:   "steer a live run of another process on this machine",
		Long:    ctlLong,
		Example: `lockstep ctl shop status
lockstep ctl shop pause
lockstep ctl shop step shop/db:schema`,
		Args: args(2, 3),
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
			if err != nil {
				return err
			}
			return a.ctl(cmd, args[0], c, mode(output.value))
		},
	}
	addChoice(cmd, &output, "output", "o", "format")
	return cmd
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
		case c.groups == 2 && len(args) < 2:
			return event.Command{}, fmt.Errorf("%s needs a group, CHART:GROUP", c.word)
		}
		return event.Command{Name: c.command, Group: first(args[1:]), Reason: "by lockstep ctl"}, nil
	}
	slices.Sort(words)
	return event.Command{}, fmt.Errorf("there is no command %q; there are %s", args[0], strings.Join(words, ", "))
}

func (a *app) ctl(cmd *cobra.Command, name string, c event.Command, m mode) error {
	r, err := a.joinRun(cmd, name)
	if err != nil {
		return err
	}
	defer r.Close()
	d := a.display(cmd, m.lines())
	if c.Name == "" {
		return d.Standing(r.Now(cmd.Context()))
	}
	answer, err := r.Ask(cmd.Context(), c)
	if err != nil {
		return err
	}
	if answer.Status == event.Refused {
		err = &exitError{exitFailed, errors.New(answer.Message)}
	}
	return errors.Join(d.Answer(answer), err)
}
