package inspector

import (
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/board/canvas"
)

// KubectlLine returns the kubectl command that shows the content of the open tab, or one that describes
// the selection.
func (i *Inspector) KubectlLine() string {
	o := i.TargetObject().Object
	words := append([]string{"kubectl"}, i.Kubectl...)
	if op := i.State.Operation; i.Kubectl == nil && op.Context != "" {
		words = append(words, "--context", op.Context)
	}
	if o.Namespace != "" {
		words = append(words, "-n", o.Namespace)
	}
	words = append(words, i.kubectlArgs(o)...)
	for n, w := range words {
		words[n] = text.ShellWord(w)
	}
	return canvas.Clean(strings.Join(words, " "))
}

// kubectlArgs returns the arguments that follow the context and the namespace.
func (i *Inspector) kubectlArgs(o plan.Object) []string {
	tab, n := TabWhy, i.Group()
	if i.Shown {
		tab = i.Tab
	}
	switch {
	case tab == TabLogs && hasLogs[o.Kind]:
		return i.logs.kubectlArgs(o)
	case tab == TabPods && len(i.pods) > 0:
		words := []string{"get", "pods", "-o", "wide"}
		for _, p := range i.pods {
			words = append(words, p.Name)
		}
		return words
	case tab == TabEvents:
		return []string{"events", "--for", resource(o)}
	case tab == TabManifest || tab == TabDiff && i.Object() != nil:
		return []string{"get", resource(o), "-o", "yaml"}
	case i.Object() != nil || len(n.Objects) == 1:
		return []string{"describe", resource(o)}
	}
	words := []string{"get"}
	for _, other := range n.Objects {
		if other := other.Object; other.Namespace == "" || other.Namespace == o.Namespace { // one kubectl command has one namespace
			words = append(words, resource(other))
		}
	}
	return words
}

// hasLogs are the kinds that kubectl logs accepts.
var hasLogs = map[string]bool{"Pod": true, "Deployment": true, "ReplicaSet": true, "StatefulSet": true, "DaemonSet": true, "Job": true, "Service": true, "ReplicationController": true}

// kubectlArgs returns the arguments of kubectl logs for the visible logs.
func (b *logBook) kubectlArgs(o plan.Object) []string {
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

func resource(o plan.Object) string {
	kind := strings.ToLower(o.Kind)
	if o.Group != "" {
		kind += "." + o.Group
	}
	return kind + "/" + o.Name
}
