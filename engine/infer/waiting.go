package infer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// waitEdges reads the commands of workloads that wait for others. They prove the order.
func (r *reader) waitEdges() {
	for _, n := range r.nodes {
		if !n.isWorkload || n.idle() {
			continue
		}
		inits := len(n.spec().At("initContainers").Each())
		for i, c := range n.containers() {
			vars := r.variables(n, c)
			script, by := expand(command(c), vars)
			w := waiter{reader: r, node: n, container: c, script: script, why: Reason{Path: c.Path, By: by, proof: true}, isInit: i < inits}
			w.addWorkloads()
			w.addProbes()
			w.addEntrypoint(vars)
			if w.isInit {
				w.addByName()
			}
			w.addMentioned(vars)
			w.addPossible()
		}
	}
}

// command returns the command and arguments of a container.
func command(c refs.Field) string {
	return strings.Join(slices.Concat(texts(c.At("command")), texts(c.At("args"))), " ")
}

// waiter is a container that may wait for others.
type waiter struct {
	reader    *reader
	node      *node
	container refs.Field
	script    string // its command and arguments, with expanded variables
	why       Reason
	isInit    bool // it is an init container
}

func (w *waiter) name() string { return w.container.At("name").Text() }

// add makes the waiter wait for a workload.
func (w *waiter) add(to *node, word string) {
	why := w.why
	why.Value, why.Text = word, fmt.Sprintf("container %s waits for %s", w.name(), to.name())
	w.reader.add(w.node, to, Serving, why)
}

// waitFor makes the waiter wait for the workloads behind a Service.
func (w *waiter) waitFor(m mention) {
	why := w.why
	why.Text = fmt.Sprintf("container %s waits for %s", w.name(), m.service.name())
	w.reader.addCall(w.node, Serving, m, why, m.word)
}

// waitTarget matches a workload in a command that waits, waitSelector the labels of pods.
var (
	waitTarget   = regexp.MustCompile(`\b(job|deployment|deploy|statefulset|sts|daemonset|ds|pod)s?(?:-wr|-we|-w)?(?:\.[a-z]+)*(?:/|\s+)([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)`)
	waitSelector = regexp.MustCompile(`(?:-l|--selector)[ =]?"?'?([-\w./]+=[-\w.]+(?:,[-\w./]+=[-\w.]+)*)`)
)

var (
	deployment  = plan.GroupKind{Group: "apps", Kind: "Deployment"}
	statefulSet = plan.GroupKind{Group: "apps", Kind: "StatefulSet"}
	daemonSet   = plan.GroupKind{Group: "apps", Kind: "DaemonSet"}
	kindByWord  = map[string]plan.GroupKind{
		"job": job, "pod": {Kind: "Pod"}, "deployment": deployment, "deploy": deployment,
		"statefulset": statefulSet, "sts": statefulSet, "daemonset": daemonSet, "ds": daemonSet,
	}
)

// addWorkloads adds the workloads that kubectl wait, kubectl rollout status or k8s-wait-for waits for.
func (w *waiter) addWorkloads() {
	if strings.Contains(imageName(w.container), "wait") {
		w.addOperands(w.script)
		return
	}
	for _, s := range separator.Split(w.script, -1) {
		if m := waitCommand.FindStringSubmatch(s); m != nil && !waitForDeletion.MatchString(s) {
			w.addOperands(m[1])
		}
	}
}

// addOperands adds the workloads that the operands of a waiting command name or select.
func (w *waiter) addOperands(operands string) {
	namespace := w.node.name().Namespace
	for _, m := range waitTarget.FindAllStringSubmatch(operands, -1) {
		kind := kindByWord[m[1]]
		if to := w.reader.byObject[plan.Object{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: m[2]}]; to != nil {
			w.add(to, m[0])
		}
	}
	for _, m := range waitSelector.FindAllStringSubmatch(operands, -1) {
		for _, to := range w.reader.labelledWorkloads(namespace, selectorOf(m[1])) {
			w.add(to, m[0])
		}
	}
}

// selectorOf returns the labels of a selector: "app=db,tier=data".
func selectorOf(text string) map[string]any {
	labels := map[string]any{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	return labels
}

var (
	// separator matches the end of a command in a script.
	separator = regexp.MustCompile(`[\n;|&]+|\s(?:do|then|--)\s`)
	// leading matches the part of a command before its program.
	leading = `^(?:\s|\d*[<>]|until\b|while\b|if\b|elif\b|!|\[+|["'({]|\$\(|` + "`" + `|-[nzec]+\b|timeout\s+\S+|exec\b|(?:/\S*/)?(?:ba|a|z)?sh\s|/\S*/|\./)*`
	// probeProgram matches a program that checks whether a host answers.
	probeProgram = regexp.MustCompile(leading + `(?:nc|ncat|netcat|nslookup|dig|host|getent|ping|curl|wget|telnet|pg_isready|psql|mysqladmin|mysql|mariadb-admin|mariadb|redis-cli|valkey-cli|` +
		`mongo|mongosh|clickhouse-client|clickhouse|cqlsh|etcdctl|kafka-[a-z-]+(?:\.sh)?|kafkacat|kcat|zookeeper-shell(?:\.sh)?|zkCli\.sh|grpc_health_probe|grpcurl|nats|mc|influx|rabbitmq\w*|` +
		`(?:echo\s.*)?/dev/(?:tcp|udp)/)`)
	// waitProgram matches a program that waits until a host answers.
	waitProgram = regexp.MustCompile(leading + `(?:wait-for[-\w]*(?:\.sh)?|wait_for\w*(?:\.sh)?|wait4x|wait-on|waitport|cub|dockerize|\S*wait-for-it(?:\.sh)?)\s`)
	// waitCommand matches kubectl wait and kubectl rollout status up to the end of their operands.
	waitCommand     = regexp.MustCompile(leading + `(?:(?:kubectl|oc)\s+(?:-\S+(?:[ =][^-\s]\S*)?\s+)*)?(?:wait|rollout\s+status)\s(.*)`)
	waitForDeletion = regexp.MustCompile(`--for[= ]["']?delete\b`)
	// loop matches the start of a loop, sleepLoop a for loop that sleeps.
	loop      = regexp.MustCompile(`^\s*(?:\S*sh\s+-\w+\s+)?["']?(?:until|while)\b`)
	sleepLoop = regexp.MustCompile(`\bfor\b(?s:.*)\bsleep\b`)
	// connect matches a call that connects to a host, up to the host.
	connect = regexp.MustCompile(`(?:socket|connect)\S*\(+\s*["']([-\w.]+)["']`)
)

// addProbes adds the Services that a script polls until they answer. An init container needs no loop,
// because the kubelet restarts it.
func (w *waiter) addProbes() {
	inLoop := false
	for _, s := range separator.Split(w.script, -1) {
		switch {
		case loop.MatchString(s):
			inLoop = true
		case strings.TrimSpace(s) == "done":
			inLoop = false
		}
		polls := probeProgram.MatchString(s) && (w.isInit || inLoop || sleepLoop.MatchString(w.script))
		if polls || waitProgram.MatchString(s) || loop.MatchString(s) {
			for _, m := range w.targets(s) {
				w.waitFor(m)
			}
		}
	}
	repeats := w.isInit || strings.Contains(w.script, "while") || strings.Contains(w.script, "sleep")
	for _, m := range connect.FindAllStringSubmatch(w.script, -1) {
		if to := w.reader.resolve(m[1], w.node.name().Namespace); to.service != nil && repeats {
			w.waitFor(mention{target: to, word: m[1]})
		}
	}
}

// otherOption matches the options of probe programs whose value is not a host.
var otherOption = regexp.MustCompile(`(?:^|\s)(?:-[UdupnclaXD]|--(?:user|username|dbname|database|db|password|name|authenticationDatabase))[ =]?["']?$`)

// targets returns the Services among the words of a command.
func (w *waiter) targets(command string) []mention {
	namespace := w.node.name().Namespace
	dockerize := strings.Contains(command, "dockerize")
	var found []mention
	for i, j := range words(command) {
		lead := command[:i]
		start := strings.LastIndexAny(lead, " \t=") + 1
		if _, rest, url := strings.Cut(lead[start:], "://"); url && strings.Contains(rest, "/") {
			continue // the path of a URL
		}
		to := w.reader.lookupWord(command[i:j], command[j:], namespace)
		if to.service == nil || otherOption.MatchString(lead) || dockerize && !strings.HasSuffix(strings.TrimRight(lead[:start], " ="), "-wait") {
			continue
		}
		c := candidate{text: command, from: i, to: j, service: to.service}
		if c.isPolled(to.dotted) || waitProgram.MatchString(command) && strings.TrimSpace(lead) != "" {
			found = append(found, mention{target: to, word: command[i:j]})
		}
	}
	return found
}

var (
	// portAfter matches the port after a host, hostOption an option or a setting up to its value.
	portAfter  = regexp.MustCompile(`^:(?:\d|\$)`)
	hostOption = regexp.MustCompile(`(?:^|[\s"'])(?:-{1,2}([A-Za-z][\w-]*)[ =]|([A-Za-z]\w*)=)["']?$`)
)

// isPolled reports whether a command that checks a host calls the word, which may as well be the name of a database, a
// user or a bucket. dotted means that the word is a DNS name of several parts.
func (c candidate) isPolled(dotted bool) bool {
	lead := c.text[:c.from]
	switch {
	case c.isUser(), bucket.MatchString(lead):
		return false
	case dotted, strings.HasSuffix(lead, "://"), inURL(lead), strings.HasSuffix(lead, "/dev/tcp/"), strings.HasSuffix(lead, "/dev/udp/"):
		return true
	case strings.HasSuffix(lead, "/"):
		return false
	case portAfter.MatchString(c.text[c.to:]), c.isCommandTarget():
		return true
	}
	option := hostOption.FindStringSubmatch(lead)
	return option != nil && callsHost(option[1]+option[2])
}

// entrypointVariables are the variables of kubernetes-entrypoint with the kinds of the objects that they list.
var entrypointVariables = map[string]plan.GroupKind{
	"DEPENDENCY_SERVICE": service, "DEPENDENCY_JOBS": job, "DEPENDENCY_JOBS_JSON": job, "DEPENDENCY_DAEMONSET": daemonSet, "DEPENDENCY_POD_JSON": {Kind: "Pod"},
}

// dependency is an object, or pods by their labels, that kubernetes-entrypoint waits for.
type dependency struct {
	Namespace, Name string
	Labels          map[string]any
}

// addEntrypoint adds what the program kubernetes-entrypoint waits for.
func (w *waiter) addEntrypoint(vars map[string]variable) {
	if !strings.Contains(w.container.At("image").Text()+" "+w.script, "kubernetes-entrypoint") {
		return
	}
	for _, name := range sortedKeys(entrypointVariables) {
		kind := entrypointVariables[name]
		for _, d := range dependencies(vars[name].text) {
			namespace := cmp.Or(d.Namespace, w.node.name().Namespace)
			w.addObject(plan.Object{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: d.Name})
			for _, to := range w.reader.labelledWorkloads(namespace, d.Labels) {
				if kind != job || to.kind == job {
					w.add(to, name)
				}
			}
		}
	}
}

// dependencies reads a list of kubernetes-entrypoint: "name,namespace:name" or JSON.
func dependencies(text string) (all []dependency) {
	if strings.HasPrefix(text, "[") {
		_ = json.Unmarshal([]byte(text), &all) // the program refuses the rest
		return all
	}
	for entry := range strings.SplitSeq(text, ",") {
		namespace, name, ok := strings.Cut(strings.TrimSpace(entry), ":")
		if !ok {
			namespace, name = "", namespace
		}
		all = append(all, dependency{Namespace: namespace, Name: name})
	}
	return all
}

// addObject adds a workload of the release, or the workloads behind a Service.
func (w *waiter) addObject(name plan.Object) {
	switch to := w.reader.byObject[name]; {
	case to == nil:
	case to.kind == service:
		w.waitFor(mention{target: target{service: to}, word: name.Name})
	default:
		w.add(to, name.Name)
	}
}

// onlyWaits reports whether the name or the image of an init container says that it only waits.
func (w *waiter) onlyWaits() bool {
	return w.isInit && (strings.Contains(imageName(w.container), "wait") || strings.HasPrefix(w.name(), "wait"))
}

// waitVariable matches the environment variables that tell an entrypoint what to wait for.
var waitVariable = regexp.MustCompile(`^WAIT_?(FOR|HOSTS|ON)|_WAIT_?(FOR|HOSTS)$`)

// addMentioned adds the Services that a container mentions in its arguments if it only waits, and in
// variables for entrypoints that wait.
func (w *waiter) addMentioned(vars map[string]variable) {
	image := w.container.At("image").Text()
	if w.onlyWaits() {
		for _, m := range w.reader.mentions(w.script, w.node.name().Namespace, "", false) {
			w.waitFor(m)
		}
	}
	for _, e := range w.container.At("env").Each() {
		if name := e.At("name").Text(); waitVariable.MatchString(name) || w.onlyWaits() && strings.Contains(image, "wait") {
			for _, m := range w.reader.mentions(vars[name].text, w.node.name().Namespace, name, true) {
				w.waitFor(m)
			}
		}
	}
}

// waitName matches the name of an init container that names its target: "wait-for-migrations".
var waitName = regexp.MustCompile(`^(?:wait(?:s|ing)?-(?:for-|until-|on-)?|check-)(.+?)(?:-(?:ready|up|available|started|running|complete|completed|done))?$`)

// addByName adds the workload whose name ends with the target in an init container's name:
// shop-db-migrations for wait-for-db-migrations. There must be only one.
func (w *waiter) addByName() {
	m := waitName.FindStringSubmatch(w.name())
	if m == nil {
		return
	}
	var found []*node
	for _, to := range w.reader.nodes {
		if to.isWorkload && to != w.node && !to.idle() && to.name().Namespace == w.node.name().Namespace && (to.name().Name == m[1] || strings.HasSuffix(to.name().Name, "-"+m[1])) {
			found = append(found, to)
		}
	}
	if len(found) == 1 && found[0].name().Kind != "CronJob" {
		w.add(found[0], w.name())
	}
}
