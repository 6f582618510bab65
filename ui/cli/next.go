package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/kube"
)

// command is a command line of this program about the release of an operation.
func (a *app) command(s *event.State, words ...string) string {
	line := append([]string{"lockstep"}, words...)
	line = append(line, "-n", s.Operation.Namespace)
	for _, f := range []struct{ flag, value string }{
		{"--kube-context", a.settings.KubeContext}, {"--kubeconfig", unlessSet("KUBECONFIG", a.settings.KubeConfig)},
		{"--kube-apiserver", unlessSet("HELM_KUBEAPISERVER", a.settings.KubeAPIServer)}, {"--kube-as-user", unlessSet("HELM_KUBEASUSER", a.settings.KubeAsUser)},
	} {
		if f.value != "" {
			line = append(line, f.flag, f.value)
		}
	}
	return shellWords(line)
}

// unlessSet is a value, unless the environment brings it without being asked.
func unlessSet(variable, value string) string {
	if os.Getenv(variable) == value {
		return ""
	}
	return value
}

// afterDeploy says what to type after an installation or an upgrade, which were
// asked for by words: the same command goes on where it ended (R50).
func (a *app) afterDeploy(s *event.State, words []string, ref string, sandbox bool, d *deployFlags) []string {
	name, back := s.Operation.Release, s.Operation.PreviousRevision
	if s.Status == event.Succeeded || sandbox || s.Exit == exitNothing {
		return nil
	}
	words = slices.Concat(words, []string{name, ref}, d.chart.words())
	if d.order.value == kube.OrderInferred {
		words = append(words, "--order="+d.order.value)
	}
	if d.createNamespace && s.Release == event.NoRelease { // it may not be there either
		words = append(words, "--create-namespace")
	}
	next := []string{a.command(s, words...) + again(s) + d.sameValues()}
	switch {
	case rolledBack(s):
	case s.Release == event.NoRelease:
	case s.Release != "failed": // cut off, or somebody else is at work
		next = append(next, a.command(s, "recover", name)+"   # or see what is where")
	case back > 0:
		next = append(next, a.command(s, "rollback", name, fmt.Sprint(back))+"   # or go back")
	case s.Operation.Name == "install": // nothing was ever deployed
		next = append(next, a.command(s, "uninstall", name)+"   # or take away what is there")
	}
	return next
}

// afterRollback says what to type after a rollback.
func (a *app) afterRollback(s *event.State) []string {
	if s.Status == event.Succeeded || s.Exit == exitNothing {
		return nil
	}
	name := s.Operation.Release
	return []string{a.command(s, "rollback", name, fmt.Sprint(s.Operation.ToRevision)) + again(s), a.command(s, "history", name)}
}

// afterUninstall says what to type after an uninstallation.
func (a *app) afterUninstall(s *event.State) []string {
	if s.Status == event.Succeeded || s.Exit == exitNothing || s.Release == event.NoRelease {
		return nil
	}
	return []string{a.command(s, "uninstall", s.Operation.Release) + again(s), a.command(s, "status", s.Operation.Release)}
}

// afterTest says what to type after the tests of a release: those that failed
// can be run alone.
func (a *app) afterTest(s *event.State) []string {
	if s.Status == event.Succeeded {
		return nil
	}
	again := []string{"test", s.Operation.Release}
	for _, p := range s.Phases {
		for _, g := range p.Groups {
			if g.Status == event.Failed {
				_, name, _ := strings.Cut(g.Name, "/")
				again = append(again, "--filter", "name="+name)
			}
		}
	}
	return []string{a.command(s, again...)}
}

// again says when the same command is of use.
func again(s *event.State) string {
	if s.Status == event.Aborted {
		return "   # to go on"
	}
	return "   # once that is mended"
}

// sameValues reminds of the values, which may be secret.
func (d *deployFlags) sameValues() string {
	v := d.values
	if len(v.ValueFiles)+len(v.Values)+len(v.StringValues)+len(v.FileValues)+len(v.JSONValues)+len(v.LiteralValues) == 0 {
		return ""
	}
	return ", with the same values"
}

// words are the flags that say which chart is meant.
func (c *chartFlags) words() []string {
	var words []string
	for _, f := range []struct{ flag, value string }{{"--repo", c.RepoURL}, {"--version", c.Version}} {
		if f.value != "" {
			words = append(words, f.flag, f.value)
		}
	}
	if c.devel {
		words = append(words, "--devel")
	}
	return words
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

// shellWords joins words so that a shell reads them as they are.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(safe, r) }) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,^"
