package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/cli/values"
	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report/format"
)

// suggester suggests the commands to run after an operation.
type suggester struct {
	*app
	cmd  *cobra.Command // the command that the user ran
	mask *mask.Mask     // hides the operation's secret values; if nil, only credentials in flags are hidden
}

// rerun returns the user's command with args, with all its flags except those in without, and with longer timeouts if these may help.
func (s suggester) rerun(state *event.State, args []string, without ...string) string {
	longer, why := s.longerTimeouts(state), "after fixing it"
	switch {
	case longer != nil:
		why = "with more time, or after fixing it"
	case state.Status == event.Aborted && (rolledBack(state) || state.RollbackStopped() || isUninstalled(state)):
		why = "to run it again"
	case state.Status == event.Aborted:
		why = "to continue"
	}
	if s.planFile() != "" {
		why += "; this saves a new plan, because each can be used once"
	}
	return withComment(s.again(state, args, longer, without...), why)
}

// again returns the words of the user's command with args, with all its flags except those in without, and with more flags. Of a command
// with --plan it returns those that save the next plan.
func (s suggester) again(state *event.State, args, more []string, without ...string) []string {
	cmd, name := s.cmd, []string{s.cmd.Name()}
	if path := s.planFile(); path != "" {
		name = []string{"plan", s.cmd.Name()}
		if cmd, _, _ = s.cmd.Root().Find(name); state.Operation.IsStack() {
			name = name[:1]
		}
		more, without = append(slices.Clip(more), "--out", s.mask.Argument("out", path)), append(slices.Clip(without), "output", "sandbox")
	}
	words := s.withConnection(state, cmd, append(name, args...))
	command.VisitSetFlags(s.cmd, func(name string, set []string) {
		added := command.SelectsCluster(s.cmd, name) || name == "namespace" && !state.Operation.IsStack() // by withConnection
		// plan -f is also for values.
		known := cmd.Flag(name) != nil || name == "file"
		if !added && known && !slices.Contains(without, name) && !slices.Contains(more, "--"+name) && !(name == "install" && isUninstalled(state)) {
			words = append(words, set...)
		}
	}, s.mask)
	if s.cmd.Name() == "upgrade" && isUninstalled(state) {
		words = append(words, "--install")
	}
	return append(words, more...)
}

// planFile returns the file of the plan that the user's command followed, "" for none.
func (s suggester) planFile() string {
	path, _ := s.cmd.Flags().GetString("plan") // the command may have no such flag
	return path
}

// lateHook returns the first Job of a hook after the groups that did not start because one of them was not ready in time. Its
// pods may need that Job: Helm does not wait for them first. It returns "" if there is none.
func lateHook(state *event.State) string {
	timedOut := false
	for g := range state.GroupStates() {
		switch kind := state.PhaseKind(g.Phase); {
		case kind == event.PhaseApply:
			timedOut = timedOut || g.Status == event.Failed && g.Limit != ""
		case kind == event.PhaseHooks && timedOut && g.Started.IsZero() && slices.ContainsFunc(g.Objects, func(o *event.ObjectState) bool { return o.Object.Kind == "Job" }):
			return g.ID
		}
	}
	return ""
}

// longerTimeouts returns flags that double the timeout that made a group fail (R25), nil if no group timed out or more time
// would not help.
func (s suggester) longerTimeouts(state *event.State) (flags []string) {
	given, err := s.cmd.Flags().GetDuration("timeout")
	if err != nil || state.Status != event.Failed {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(state.Scopes)) {
		if flags = s.longerTimeouts(state.Scopes[id]); flags != nil {
			return flags
		}
	}
	for g := range state.GroupStates() {
		timedOut := g.Status == event.Failed && g.Limit != "" && g.FailedObject != nil
		if !timedOut || g.Find(*g.FailedObject) == nil || g.Find(*g.FailedObject).Degraded {
			continue
		}
		flags = nil
		op, longer := state.Operation, 2*state.Operation.Timeout
		objects, own := givenReadinessTimeout(s.cmd)
		switch wait := g.WaitOf(*g.FailedObject).Timeout; {
		case g.Limit == event.LimitObject && wait > 0:
			objects = append(slices.Clip(objects), g.FailedObject.Kind+"/"+g.FailedObject.Name+"="+format.Timeout(2*wait))
			if own {
				flags = []string{"--readiness-timeout", format.Timeout(op.ReadinessTimeout)}
			}
			longer = max(op.Timeout, 2*wait)
		case g.Limit == event.LimitObject && (own || !s.cmd.Flags().Changed("timeout")):
			flags = []string{"--readiness-timeout", format.Timeout(2 * op.ReadinessTimeout)}
			longer = max(op.Timeout, 2*op.ReadinessTimeout)
		default:
			objects = nil // they stay as they are
		}
		for _, o := range objects {
			flags = append(flags, "--readiness-timeout", o)
		}
		if longer > op.Timeout {
			if op.Timeout != given { // the helmfile sets it
				continue
			}
			flags = append(flags, "--timeout", format.Timeout(longer))
		}
		return flags
	}
	return nil
}

// related returns another command for the release of an operation, with the flags of the user's
// command that select the cluster.
func (s suggester) related(state *event.State, why string, words ...string) string {
	cmd, _, err := s.cmd.Root().Find(words[:1])
	if err != nil {
		cmd = s.cmd
	}
	return withComment(s.withConnection(state, cmd, words), why)
}

// withConnection returns the words of a command line for cmd, with the flags that select the cluster and
// namespace.
func (s suggester) withConnection(state *event.State, cmd *cobra.Command, words []string) []string {
	line := []string{text.Program}
	for _, w := range words {
		line = append(line, s.mask.Argument("", w)) // hides passwords, for example in a URL
	}
	if !state.Operation.IsStack() { // each release of a stack has a namespace
		line = append(line, "-n", state.Operation.Namespace)
	}
	if c := s.Settings.KubeContext; c != "" { // may come from HELM_KUBECONTEXT, set only for this command
		line = append(line, "--kube-context", s.mask.Argument("kube-context", c))
	}
	command.VisitSetFlags(s.cmd, func(name string, set []string) {
		if command.SelectsCluster(s.cmd, name) && name != "kube-context" && cmd.Flag(name) != nil {
			line = append(line, set...)
		}
	}, s.mask)
	return line
}

// withComment returns a shell command with a comment: why to run it, and whether the user must
// fill in hidden values.
func withComment(words []string, why string) string {
	var notes []string
	if why != "" {
		notes = append(notes, why)
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, mask.Ellipsis) }) {
		notes = append(notes, "fill in "+mask.Ellipsis)
	}
	line := command.ShellJoin(words)
	if len(notes) > 0 {
		line += "   # " + strings.Join(notes, "; ")
	}
	return line
}

// valueFlags returns the names of the flags that a file with all user values replaces.
func valueFlags() []string {
	names := []string{"reuse-values", "reset-values", "reset-then-reuse-values", input.BaseFlag}
	var flags pflag.FlagSet
	input.AddValueFlags(&flags, &values.Options{})
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// afterDeploy suggests commands after an install or upgrade. The same command resumes it (R50).
// The flags in saved, if any, replace those for values.
func (s suggester) afterDeploy(state *event.State, ref string, saved []string, sandbox bool) []string {
	name, goodRevision := state.Operation.Release, state.Operation.PreviousRevision
	if sandbox || wroteNothing(state) {
		return nil
	}
	if state.Status == event.Succeeded {
		return s.afterSuccess(state)
	}
	args, without := []string{name, ref}, []string{"generate-name", "name-template"}
	if saved != nil {
		args, without = append(args, saved...), append(without, valueFlags()...)
	}
	next := []string{s.rerun(state, args, without...)}
	if hook := lateHook(state); hook != "" {
		words := s.again(state, args, []string{"--wait=hookOnly"}, append(without, "order", "wait")...)
		next = append(next, withComment(words, "or if its pods need "+hook+": in Helm's order, without waiting"))
	}
	if state.Operation.EditedValues && saved == nil && !isUninstalled(state) && state.AnyGroupStarted() && state.Operation.Revision > 0 { // before that, no revision has them
		values := []string{"get", "values", name, "--revision", fmt.Sprint(state.Operation.Revision), "-o", "yaml"}
		next = slices.Insert(next, 0, s.related(state, "the values of the edit, which the next command does not have", values...))
	}
	switch {
	case rolledBack(state):
	case isUninstalled(state):
	case state.Newer != nil: // recover would mark the revision of somebody else
		next = append(next, s.related(state, "to see who has deployed it", "history", name))
	case state.Release != "failed": // another run is active, or the record could not be written
		next = append(next, s.related(state, "or mark the release failed and show its objects", "recover", name))
	case goodRevision > 0:
		why := "or roll back"
		switch {
		case state.RollbackStopped():
			why = "or finish the rollback"
		case state.HasRollback():
			why = "or retry the rollback, after fixing the problem"
		}
		words := []string{"rollback", name, fmt.Sprint(goodRevision)}
		if reason := plan.JoinReasons(state.NoReturn...); reason != "" {
			why, words = "or roll back anyway", append(words, "--past-no-return", reason)
		}
		next = append(next, s.related(state, why, words...))
	case state.Operation.Name == "install": // no earlier revision to roll back to
		next = append(next, s.related(state, "or remove it", "uninstall", name))
	}
	return next
}

// undoDrift is why to run drift --repair.
const undoDrift = "to undo what others have changed"

// afterSuccess suggests how to find the cause if an object has not stayed ready, as its group's result says only that, and how to
// undo what others have changed.
func (s suggester) afterSuccess(state *event.State) []string {
	if state.HasDrift() {
		return []string{s.related(state, undoDrift, "drift", state.Operation.Release, "--repair")}
	}
	for g := range state.GroupStates() {
		if format.GroupStatus(g) == event.Degraded {
			return []string{s.related(state, "why "+format.GroupName(state, g)+" is degraded", "status", state.Operation.Release)}
		}
	}
	return nil
}

func (s suggester) afterRollback(state *event.State) []string {
	if wroteNothing(state) {
		return nil
	}
	if state.Status == event.Succeeded {
		return s.afterSuccess(state)
	}
	name := state.Operation.Release
	if state.Release == event.NoRelease { // somebody else uninstalled it, with the revision to go back to
		return []string{s.related(state, "to deploy it again", "install", name, mask.Ellipsis)}
	}
	return []string{
		s.rerun(state, []string{name, fmt.Sprint(state.Operation.ToRevision)}),
		s.related(state, "", "history", name),
	}
}

// afterUninstall suggests commands after an uninstall. others are releases still to uninstall.
func (s suggester) afterUninstall(state *event.State, others []string) []string {
	if state.Status == event.Succeeded || wroteNothing(state) || state.Release == event.NoRelease {
		return nil
	}
	name := state.Operation.Release
	return []string{s.rerun(state, append([]string{name}, others...)), s.related(state, "", "status", name)}
}

// afterTest suggests running the failed tests again.
func (s suggester) afterTest(state *event.State) []string {
	if state.Status == event.Succeeded {
		return nil
	}
	var failed []string
	for g := range state.GroupStates() {
		if g.Status == event.Failed {
			for _, o := range g.Objects {
				failed = append(failed, "--filter", "name="+o.Object.Name)
			}
		}
	}
	if failed == nil {
		return []string{s.rerun(state, []string{state.Operation.Release})}
	}
	return []string{s.rerun(state, append([]string{state.Operation.Release}, failed...), "filter")}
}

// wroteNothing reports whether the operation ended before its first write. Then there is nothing to
// suggest.
func wroteNothing(state *event.State) bool {
	return state.Exit == command.ExitNothingWritten || state.Code == event.NothingWritten
}

// isUninstalled reports whether there is nothing left to upgrade: somebody else uninstalled the release, or the run did.
func isUninstalled(state *event.State) bool {
	return state.Release == event.NoRelease || state.Release == rcommon.StatusUninstalled.String()
}

// rolledBack reports whether the operation was rolled back completely.
func rolledBack(state *event.State) bool {
	found := false
	for g := range state.GroupStates() {
		if !event.IsRollback(g.Phase) {
			continue
		}
		found = true
		switch g.Status {
		case event.Ready, event.Applied, event.Gone:
		default:
			return false
		}
	}
	return found
}
