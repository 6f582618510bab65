package deploy

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/screen"
)

// showStack runs a stack on the screen or as lines until it ends.
func (a *app) showStack(cmd *cobra.Command, r runOptions, stack *kube.Stack, all clients) error {
	nothing := func(why screen.NoChanges) board.Inspector { return screen.Disconnected{ChangeSource: why} }
	release := func(scope string) (board.Inspector, []string) {
		client := all[releaseContext(scope)]
		for _, rel := range stack.Releases() {
			if rel.ID == scope && rel.Operation != nil {
				return screen.NewInspector(screen.Changes(rel.Operation), client.Diagnoser(), rel.Operation.Mask()), client.KubectlFlags()
			}
		}
		return nothing("nothing to do"), client.KubectlFlags()
	}
	return a.showRun(cmd, shownRun{
		runOptions: r, op: stack, info: stack.Info(), clients: slices.Collect(maps.Values(all)), hide: stack.Text,
		outcome: "running releases will be marked failed",
		next:    func(s *event.State) []string { return suggester{app: a, cmd: cmd}.afterStack(s, r.sandbox) },
		board:   board.Options{Inspector: nothing("press enter to open the release"), Release: release},
		closed:  func() {},
	})
}

// releaseContext returns the context in the ID of a release, [context/]namespace/name.
func releaseContext(id string) string {
	parts := strings.Split(id, "/")
	if len(parts) < 3 {
		return ""
	}
	return strings.Join(parts[:len(parts)-2], "/")
}

// afterStack suggests running a stack again that did not succeed, which resumes it (S7).
func (p suggester) afterStack(s *event.State, sandbox bool) []string {
	if s.Status == event.Succeeded || sandbox || s.Exit == command.ExitNothing {
		return nil
	}
	return []string{p.rerun(s, nil)}
}
