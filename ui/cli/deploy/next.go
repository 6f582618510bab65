package deploy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/cli/command"
)

// proposer makes the command lines that a command proposes once it is over.
type proposer struct {
	*app
	cmd  *cobra.Command // as the user gave it
	mask *kube.Mask     // of what its operation brings; nil hides only what is named like a credential
}

// again is the command that the user gave, with all of its flags. Without are flags
// that args replace.
func (p proposer) again(s *event.State, args []string, without ...string) string {
	words := p.connected(s, p.cmd, append([]string{p.cmd.Name()}, args...))
	command.GivenFlags(p.cmd, func(name string, set []string) {
		if !p.connects(name) && name != "namespace" && !slices.Contains(without, name) {
			words = append(words, set...)
		}
	}, p.mask)
	why := "after fixing it"
	if s.Status == event.Aborted {
		why = "to go on"
	}
	return commented(words, why)
}

// other is another command about the release of an operation, of which the command
// given shares no more than the way to the cluster.
func (p proposer) other(s *event.State, why string, words ...string) string {
	cmd, _, err := p.cmd.Root().Find(words[:1])
	if err != nil {
		cmd = p.cmd
	}
	return commented(p.connected(s, cmd, words), why)
}

// connected are the words of a command with the flags that lead to the release.
func (p proposer) connected(s *event.State, cmd *cobra.Command, words []string) []string {
	words = p.shown(words)
	words = append(append([]string{"lockstep"}, words...), "-n", s.Operation.Namespace)
	if c := p.Settings.KubeContext; c != "" { // the environment may have it for this command alone
		words = append(words, "--kube-context", p.mask.Argument("kube-context", c))
	}
	command.GivenFlags(p.cmd, func(name string, set []string) {
		if p.connects(name) && name != "kube-context" && cmd.Flag(name) != nil {
			words = append(words, set...)
		}
	}, p.mask)
	return words
}

// shown are arguments as a command line may show them: a URL may have a password.
func (p proposer) shown(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = p.mask.Argument("", w)
	}
	return out
}

// connects reports whether a flag says which cluster is meant, and as whom.
func (p proposer) connects(flag string) bool {
	return strings.HasPrefix(flag, "kube") && p.cmd.InheritedFlags().Lookup(flag) != nil
}

// commented is a line for a shell, with why somebody would want to run it, and where
// values are left out that they are.
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

// afterDeploy says what to type after an installation or an upgrade: the same command
// goes on where it ended (R50).
func (p proposer) afterDeploy(s *event.State, ref string, sandbox bool) []string {
	name, back := s.Operation.Release, s.Operation.PreviousRevision
	if s.Status == event.Succeeded || sandbox || s.Exit == command.ExitNothing {
		return nil
	}
	next := []string{p.again(s, []string{name, ref}, "generate-name", "name-template")}
	switch {
	case rolledBack(s):
	case s.Release == event.NoRelease:
	case s.Release != "failed": // cut off, or somebody else is at work
		next = append(next, p.other(s, "or see the state of each object", "recover", name))
	case back > 0:
		next = append(next, p.other(s, "or go back", "rollback", name, fmt.Sprint(back)))
	case s.Operation.Name == "install": // nothing was ever deployed
		next = append(next, p.other(s, "or remove it", "uninstall", name))
	}
	return next
}

// afterRollback says what to type after a rollback.
func (p proposer) afterRollback(s *event.State) []string {
	if s.Status == event.Succeeded || s.Exit == command.ExitNothing {
		return nil
	}
	name := s.Operation.Release
	return []string{p.again(s, []string{name, fmt.Sprint(s.Operation.ToRevision)}), p.other(s, "", "history", name)}
}

// afterUninstall says what to type after an uninstallation, after which others were to
// come.
func (p proposer) afterUninstall(s *event.State, others []string) []string {
	if s.Status == event.Succeeded || s.Exit == command.ExitNothing || s.Release == event.NoRelease {
		return nil
	}
	name := s.Operation.Release
	return []string{p.again(s, append([]string{name}, others...)), p.other(s, "", "status", name)}
}

// afterTest says what to type after the tests of a release: those that failed
// can be run alone.
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

// rolledBack reports whether a rollback has come to its end.
func rolledBack(s *event.State) bool {
	there := false
	for _, p := range s.Phases {
		if !strings.HasPrefix(p.Name, event.RollbackPrefix) {
			continue
		}
		for _, g := range p.Groups {
			switch there = true; g.Status {
			case event.Ready, event.Applied, event.Gone:
			default:
				return false
			}
		}
	}
	return there
}
