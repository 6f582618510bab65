package deploy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/cli/values"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/cli/command"
)

// suggester suggests the commands to run after an operation.
type suggester struct {
	*app
	cmd  *cobra.Command // the command that the user ran
	mask *kube.Mask     // hides the operation's secret values; if nil, only flags named like credentials
}

// rerun returns the user's command with args. It keeps all flags except those in without.
func (p suggester) rerun(s *event.State, args []string, without ...string) string {
	words := p.withConnection(s, p.cmd, append([]string{p.cmd.Name()}, args...))
	command.VisitSetFlags(p.cmd, func(name string, set []string) {
		if !p.selectsCluster(name) && name != "namespace" && !slices.Contains(without, name) {
			words = append(words, set...)
		}
	}, p.mask)
	why := "after fixing it"
	if s.Status == event.Aborted {
		why = "to continue"
	}
	return withComment(words, why)
}

// related returns another command for the release of an operation. It keeps only the flags that
// select the cluster.
func (p suggester) related(s *event.State, why string, words ...string) string {
	cmd, _, err := p.cmd.Root().Find(words[:1])
	if err != nil {
		cmd = p.cmd
	}
	return withComment(p.withConnection(s, cmd, words), why)
}

// withConnection adds the flags that select the cluster and namespace to a command.
func (p suggester) withConnection(s *event.State, cmd *cobra.Command, words []string) []string {
	given := words
	words = []string{"lockstep"}
	for _, w := range given {
		words = append(words, p.mask.Argument("", w)) // hides passwords, for example in a URL
	}
	if !s.Operation.Stack() { // each release of a stack has a namespace
		words = append(words, "-n", s.Operation.Namespace)
	}
	if c := p.Settings.KubeContext; c != "" { // may come from HELM_KUBECONTEXT, set only for this command
		words = append(words, "--kube-context", p.mask.Argument("kube-context", c))
	}
	command.VisitSetFlags(p.cmd, func(name string, set []string) {
		if p.selectsCluster(name) && name != "kube-context" && cmd.Flag(name) != nil {
			words = append(words, set...)
		}
	}, p.mask)
	return words
}

// selectsCluster reports whether a flag selects the cluster or the user.
func (p suggester) selectsCluster(flag string) bool {
	return strings.HasPrefix(flag, "kube") && p.cmd.InheritedFlags().Lookup(flag) != nil
}

// withComment returns a shell command with a comment: why to run it, and whether the user must
// fill in hidden values.
func withComment(words []string, why string) string {
	var notes []string
	if why != "" {
		notes = append(notes, why)
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, kube.Ellipsis) }) {
		notes = append(notes, "fill in "+kube.Ellipsis)
	}
	line := command.ShellJoin(words)
	if len(notes) > 0 {
		line += "   # " + strings.Join(notes, "; ")
	}
	return line
}

// valueFlags returns the names of the flags that a file with all user values replaces.
func valueFlags() []string {
	names := []string{"reuse-values", "reset-values", "reset-then-reuse-values"}
	var flags pflag.FlagSet
	command.AddValueFlags(&flags, &values.Options{})
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// afterDeploy suggests commands after an install or upgrade. The same command resumes it (R50).
// A values file in saved replaces the flags for values.
func (p suggester) afterDeploy(s *event.State, ref, saved string, sandbox bool) []string {
	name, back := s.Operation.Release, s.Operation.PreviousRevision
	if s.Status == event.Succeeded || sandbox || s.Exit == command.ExitNothing {
		return nil
	}
	args, without := []string{name, ref}, []string{"generate-name", "name-template"}
	if saved != "" {
		args, without = append(args, "-f", saved), append(without, valueFlags()...)
	}
	next := []string{p.rerun(s, args, without...)}
	switch {
	case rolledBack(s):
	case s.Release == event.NoRelease:
	case s.Release != "failed": // another run is active, or the record could not be written
		next = append(next, p.related(s, "or show the state of each object", "recover", name))
	case back > 0:
		next = append(next, p.related(s, "or roll back", "rollback", name, fmt.Sprint(back)))
	case s.Operation.Name == "install": // no earlier revision to roll back to
		next = append(next, p.related(s, "or remove it", "uninstall", name))
	}
	return next
}

func (p suggester) afterRollback(s *event.State) []string {
	if s.Status == event.Succeeded || s.Exit == command.ExitNothing {
		return nil
	}
	name := s.Operation.Release
	return []string{p.rerun(s, []string{name, fmt.Sprint(s.Operation.ToRevision)}), p.related(s, "", "history", name)}
}

// afterUninstall suggests commands after an uninstall. others are releases still to uninstall.
func (p suggester) afterUninstall(s *event.State, others []string) []string {
	if s.Status == event.Succeeded || s.Exit == command.ExitNothing || s.Release == event.NoRelease {
		return nil
	}
	name := s.Operation.Release
	return []string{p.rerun(s, append([]string{name}, others...)), p.related(s, "", "status", name)}
}

// afterTest suggests running the failed tests again.
func (p suggester) afterTest(s *event.State) []string {
	if s.Status == event.Succeeded {
		return nil
	}
	var failed []string
	for _, phase := range s.Phases {
		for _, g := range phase.Groups {
			if g.Status == event.Failed {
				_, name, _ := strings.Cut(g.Name, "/")
				failed = append(failed, "--filter", "name="+name)
			}
		}
	}
	if failed == nil {
		return []string{p.rerun(s, []string{s.Operation.Release})}
	}
	return []string{p.rerun(s, append([]string{s.Operation.Release}, failed...), "filter")}
}

// rolledBack reports whether the operation was rolled back completely.
func rolledBack(s *event.State) bool {
	any := false
	for _, p := range s.Phases {
		if !strings.HasPrefix(p.Name, event.RollbackPrefix) {
			continue
		}
		for _, g := range p.Groups {
			switch any = true; g.Status {
			case event.Ready, event.Applied, event.Gone:
			default:
				return false
			}
		}
	}
	return any
}
