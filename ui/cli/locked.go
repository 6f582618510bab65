package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/runs"
)

// offerAttach makes commands whose release is locked by a live run offer to attach to it, on terminals that allow the screen.
func (a *app) offerAttach(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if _, operates := formArgs[cmd.Name()]; !operates {
			continue
		}
		run := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			locked, ok := errors.AsType[*kube.LockedError](err)
			if !ok || a.FromHome != "" || !command.UseScreen(cmd) { // home lists the run, and attaches
				return err
			}
			attach, here := locked.Follow()
			if !here || locked.Holder.Job == "" && !isHere(attach[1]) || !a.confirm(cmd, fmt.Sprintf("release %s in namespace %s is locked by another run: %s", locked.Release, locked.Namespace, locked.Holder), "attach to it?") {
				return err
			}
			return a.runLine(cmd.Context(), append(command.ConnectionArgs(cmd, nil), attach...))
		}
	}
}

// isHere reports whether a live run of a release or stack can be controlled from here: other runs of this user on this machine have
// another state folder.
func isHere(name string) bool {
	live, err := runs.LiveRuns(func(op event.Operation) bool { return op.Release == name })
	for _, r := range live {
		r.Close()
	}
	return err == nil && len(live) > 0
}

// confirm says something and asks a question on the terminal. Only y and enter mean yes.
func (a *app) confirm(cmd *cobra.Command, fact, question string) bool {
	a.Display(cmd).Note(fact + "\n" + question + " [Y/n]")
	answer, err := command.Cancelable(cmd.Context(), func(context.Context) (string, error) {
		return bufio.NewReader(os.Stdin).ReadString('\n')
	})
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "" || answer == "y" || answer == "yes")
}
