package infer

import (
	"fmt"
	"regexp"
	"strings"

	"lockstep/engine/plan"
)

// mayWait is how an init container that may wait for a workload ranks among the edges on a cycle (see Edge.class).
const mayWait = certain + 1

// addPossible notes the workloads that a script names if it may wait for them in a way that waitEdges cannot read. They order nothing,
// but an edge that is not certain must not make them wait for the init container: that might never end. A store is not suspected,
// because its script names what it creates for others.
func (w *waiter) addPossible() {
	c := w.container
	if !w.isInit || w.reader.isStore(w.node) || !seemsToWait.MatchString(strings.Join([]string{w.name(), c.At("image").Text(), w.script}, " ")) {
		return
	}
	for _, to := range w.named() {
		at := arc{w.node.at, to.at}
		if e, known := w.reader.found[at]; to != w.node && to.at >= 0 && !(known && e.isCertain()) {
			w.reader.possible[at] = fmt.Sprintf("an init container of %s names %s", w.node.name(), to.name())
		}
	}
}

var (
	// seemsToWait matches the words of a script that may wait.
	seemsToWait = regexp.MustCompile(`(?i)\b(?:until|while|for|sleep)\b|wait|ready|ping|check|poll|retry|connect`)
	// serviceVariable matches the variables that Kubernetes sets for each Service.
	serviceVariable = regexp.MustCompile(`\b([A-Z][A-Z0-9_]*)_SERVICE_(?:HOST|PORT)\b`)
)

// named returns the workloads that a script names: by their names, by those of their Services or the variables of these, or by labels.
func (w *waiter) named() (found []*node) {
	namespace := w.node.name().Namespace
	add := func(name string) {
		if to := w.reader.resolve(name, namespace); to.service != nil {
			found = append(found, w.reader.serversOf(to.service)...)
		}
		for _, kind := range kindByWord {
			if to := w.reader.byObject[plan.Object{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: name}]; to != nil && !to.idle() {
				found = append(found, to)
			}
		}
	}
	for i, j := range words(w.script) {
		lead := w.script[:i]
		path := strings.HasSuffix(lead, "/") && !strings.HasSuffix(lead, "//")
		if path || otherOption.MatchString(lead) || bucket.MatchString(lead) {
			continue
		}
		word := w.script[i:j]
		add(word)
		if host, glued := strings.CutPrefix(word, "-h"); glued {
			add(host)
		}
	}
	for _, m := range serviceVariable.FindAllStringSubmatch(w.script, -1) {
		add(strings.ToLower(strings.ReplaceAll(m[1], "_", "-")))
	}
	for _, m := range waitSelector.FindAllStringSubmatch(w.script, -1) {
		found = append(found, w.reader.labelledWorkloads(namespace, selectorOf(m[1]))...)
	}
	return found
}

// whyCyclic says why an edge on a cycle is dropped.
func (r *reader) whyCyclic(cycle []int) string {
	for i, from := range cycle {
		if why := r.possible[arc{from, cycle[(i+1)%len(cycle)]}]; why != "" {
			return "they may wait for each other, because " + why
		}
	}
	return "they wait for each other"
}
