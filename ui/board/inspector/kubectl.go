package inspector

import (
	"regexp"
	"strings"

	"lockstep/engine/plan"
)

// Kubectl is the line that makes kubectl tell of the subject what the open tab
// does, or describe it where i is nil. The object is the one that the tabs are
// about, cluster are the flags that lead to its cluster.
func (s Subject) Kubectl(i *Inspector, o plan.Object, cluster []string) string {
	words := append([]string{"kubectl"}, cluster...)
	if o.Namespace != "" {
		words = append(words, "-n", o.Namespace)
	}
	words = append(words, s.asks(i, o)...)
	for n, w := range words {
		words[n] = quoted(w)
	}
	return strings.Join(words, " ")
}

// asks are the words of a line that say what is asked.
func (s Subject) asks(i *Inspector, o plan.Object) []string {
	tab := TabWhy
	if i != nil {
		tab = i.Tab
	}
	switch {
	case tab == TabLogs && hasLogs[o.Kind]:
		return i.logs.asks(o)
	case tab == TabPods && len(i.pods) > 0:
		words := []string{"get", "pods", "-o", "wide"}
		for _, p := range i.pods {
			words = append(words, p.Name)
		}
		return words
	case tab == TabEvents:
		return []string{"events", "--for", resource(o)}
	case tab == TabManifest || tab == TabDiff && s.Object != nil:
		return []string{"get", resource(o), "-o", "yaml"}
	case s.Object != nil || len(s.Node.Objects) == 1:
		return []string{"describe", resource(o)}
	}
	words := []string{"get"}
	for _, other := range s.Node.Objects {
		if other := other.Object; other.Namespace == "" || other.Namespace == o.Namespace { // kubectl takes one
			words = append(words, resource(other))
		}
	}
	return words
}

// hasLogs are the kinds of which kubectl shows the logs.
var hasLogs = map[string]bool{"Pod": true, "Deployment": true, "ReplicaSet": true, "StatefulSet": true, "DaemonSet": true, "Job": true, "Service": true, "ReplicationController": true}

// asks are the words that ask for the logs that are shown.
func (b *logBook) asks(o plan.Object) []string {
	words := []string{"logs", "-f"}
	switch {
	case b.only.Pod != "":
		words = append(words, b.only.Pod)
	case o.Kind == "Pod":
		words = append(words, o.Name)
	default:
		words = append(words, resource(o), "--all-pods", "--prefix")
	}
	if b.only.Container != "" {
		return append(words, "-c", b.only.Container)
	}
	return append(words, "--all-containers")
}

// resource is an object as kubectl takes it.
func resource(o plan.Object) string {
	kind := strings.ToLower(o.Kind)
	if o.Group != "" {
		kind += "." + o.Group
	}
	return kind + "/" + o.Name
}

var plainWord = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
