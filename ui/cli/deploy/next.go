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

// proposer makes the command lines that a command proposes at its end.
type proposer struct {
	*app
	cmd  *cobra.Command // as the user gave it
	mask *kube.Mask     // of the operation's secret values; nil hides only what is named like a credential
}

// again is the command that the user gave with all of its flags, except those in without,
// which args replace.
func (p proposer) again(s *event.State, args []string, without ...string) string {
	words := p.connected(s, p.cmd, append([]string{p.cmd.Name()}, args...))
	command.GivenFlags(p.cmd, func(name string, set []string) {
		if !p.connects(name) && name != "namespace" && !slices.Contains(without, name) {
			words = append(words, set...)
		}
	}, p.mask)
	why := "after fixing it"
	if s.Status == event.Aborted {
		why = "to continue"
	}
	return commented(words, why)
}

// other is another command about the release of an operation. It shares only the flags
// that select the cluster.
func (p proposer) other(s *event.State, why string, words ...string) string {
	cmd, _, err := p.cmd.Root().Find(words[:1])
	if err != nil {
		cmd = p.cmd
	}
	return commented(p.connected(s, cmd, words), why)
}

// connected are the words of a command with the flags that select cluster and namespace.
func (p proposer) connected(s *event.State, cmd *cobra.Command, words []string) []string {
	words = p.shown(words)
	words = append([]string{"lockstep"}, words...)
	if !s.Operation.Stack() { // each of its releases has a namespace
		words = append(words, "-n", s.Operation.Namespace)
	}
	if c := p.Settings.KubeContext; c != "" { // HELM_KUBECONTEXT may be set for this command alone
		words = append(words, "--kube-context", p.mask.Argument("kube-context", c))
	}
	command.GivenFlags(p.cmd, func(name string, set []string) {
		if p.connects(name) && name != "kube-context" && cmd.Flag(name) != nil {
			words = append(words, set...)
		}
	}, p.mask)
	return words
}

// shown hides passwords in arguments, such as in a URL.
func (p proposer) shown(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = p.mask.Argument("", w)
	}
	return out
}

// connects reports whether a flag selects the cluster or the user.
func (p proposer) connects(flag string) bool {
	return strings.HasPrefix(flag, "kube") && p.cmd.InheritedFlags().Lookup(flag) != nil
}

// commented is a line for a shell with a comment: why to run it, and whether hidden values
// must be filled in.
func commented(words []string, why string) string {
	var about []string
	if why != "" {
		about = append(about, why)
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, kube.Ellipsis) }) {
		about = append(about, "fill in "+kube.Ellipsis)
	}
	line := command.ShellWords(words)
	if len(about) > 0 {
		line += "   # " + strings.Join(about, "; ")
	}
	return line
}

// valueFlags are the flags that a file with all given values replaces.
func valueFlags() []string {
	names := []string{"reuse-values", "reset-values", "reset-then-reuse-values"}
	var flags pflag.FlagSet
	command.AddValueFlags(&flags, &values.Options{})
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// afterDeploy proposes commands after an install or an upgrade: the same command resumes
// it (R50), with saved values, unless that is "", instead of those that it was given.
func (p proposer) afterDeploy(s *event.State, ref, saved string, sandbox bool) []string {
	name, back := s.Operation.Release, s.Operation.PreviousRevision
	if s.Status == event.Succeeded || sandbox || s.Exit == command.ExitNothing {
		return nil
	}
	args, without := []string{name, ref}, []string{"generate-name", "name-template"}
	if saved != "" {
		args, without = append(args, "-f", saved), append(without, valueFlags()...)
	}
	next := []string{p.again(s, args, without...)}
	switch {
	case rolledBack(s):
	case s.Release == event.NoRelease:
	case s.Release != "failed": // killed, or another run is active
		next = append(next, p.other(s, "or show the state of each object", "recover", name))
	case back > 0:
		next = append(next, p.other(s, "or roll back", "rollback", name, fmt.Sprint(back)))
	case s.Operation.Name == "install": // nothing was ever deployed
		next = append(next, p.other(s, "or remove it", "uninstall", name))
	}
	return next
}

// afterRollback proposes commands after a rollback.
func (p proposer) afterRollback(s *event.State) []string {
	if s.Status == event.Succeeded || s.Exit == command.ExitNothing {
		return nil
	}
	name := s.Operation.Release
	return []string{p.again(s, []string{name, fmt.Sprint(s.Operation.ToRevision)}), p.other(s, "", "history", name)}
}

// afterUninstall proposes commands after an uninstall that others were to follow.
func (p proposer) afterUninstall(s *event.State, others []string) []string {
	if s.Status == event.Succeeded || s.Exit == command.ExitNothing || s.Release == event.NoRelease {
		return nil
	}
	name := s.Operation.Release
	return []string{p.again(s, append([]string{name}, others...)), p.other(s, "", "status", name)}
}

// afterTest proposes to run the failed tests again.
func (p proposer) afterTest(s *event.State) []string {
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
		return []string{p.again(s, []string{s.Operation.Release})}
	}
	return []string{p.again(s, append([]string{s.Operation.Release}, failed...), "filter")}
}

// rolledBack reports whether a rollback has completed.
func rolledBack(s *event.State) bool {
	found := false
	for _, p := range s.Phases {
		if !strings.HasPrefix(p.Name, event.RollbackPrefix) {
			continue
		}
		for _, g := range p.Groups {
			switch found = true; g.Status {
			case event.Ready, event.Applied, event.Gone:
			default:
				return false
			}
		}
	}
	return found
}
