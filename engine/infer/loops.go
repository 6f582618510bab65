package infer

import (
	"fmt"
	"regexp"
	"strings"

	"lockstep/engine/refs"
)

var (
	// probe is a program that tells whether somebody answers, loop what repeats it.
	probe = regexp.MustCompile(`\b(nslookup|getent|dig|ping|nc|ncat|netcat|telnet|curl|wget|wait-for|wait-for-it|wait4x|wait-for-port|wait_for|dockerize|pg_isready|psql|mysqladmin|mysql|mariadb|mariadb-admin|` +
		`redis-cli|valkey-cli|mongo|mongosh|cqlsh|etcdctl|kafka-topics|kafkacat|kcat|rabbitmqadmin|rabbitmq-diagnostics|clickhouse-client|grpc_health_probe)\b|/dev/tcp/`)
	loop = regexp.MustCompile(`\b(until|while)\b|\bwait|-wait\b|\bdockerize\b`)
	// awaits is an init container that is named after what it waits for.
	awaits = regexp.MustCompile(`^(?:wait-for|wait-on|wait|check-for|check)-(.+?)(?:-ready|-to-be-ready|-to-complete|-completed)?$`)
)

// waitLoops finds what a container waits for in a loop, the one reason that proves who is
// first: commands of init containers that ask whether a Service answers, loops of others
// that do, and init containers that are named after a workload.
func (r *reader) waitLoops(n *node, c refs.Field, init bool) {
	text := strings.Join(append(texts(c.At("command")), texts(c.At("args"))...), " ")
	text = expand(text, literals(c))
	for line := range strings.Lines(strings.NewReplacer("&&", "\n", "||", "\n", ";", "\n").Replace(text)) {
		if !probe.MatchString(line) || !init && !loop.MatchString(text) {
			continue
		}
		r.call(n, r.mentions(line, n.name().Namespace, "", false), Reason{Path: c.Path, proven: true}, "container "+c.At("name").Text()+" waits in a loop, which")
	}
	if m := awaits.FindStringSubmatch(c.At("name").Text()); init && m != nil {
		r.awaited(n, c, m[1])
	}
}

// awaited has an object wait for the one workload that a name is the end of.
func (r *reader) awaited(n *node, c refs.Field, name string) {
	var found []*node
	for _, w := range r.nodes {
		if w.works && w != n && w.name().Namespace == n.name().Namespace && (w.name().Name == name || strings.HasSuffix(w.name().Name, "-"+name)) {
			found = append(found, w)
		}
	}
	if len(found) != 1 || len(r.services[name]) > 0 {
		return
	}
	strength := Serving
	if found[0].kind().Group == "batch" {
		strength = Soft
	}
	r.add(n, found[0], strength, Reason{Path: c.Path, Value: name, proven: true, Text: fmt.Sprintf("init container %s waits for %s", c.At("name").Text(), found[0].name())})
}

// literals are the variables of a container that are set to a text.
func literals(c refs.Field) map[string]string {
	set := map[string]string{}
	for _, e := range c.At("env").Each() {
		if value := e.At("value"); value.There() {
			set[e.At("name").Text()] = expand(value.Text(), set)
		}
	}
	return set
}

var variable = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)|\$\{?([A-Z_][A-Z0-9_]*)\}?`)

// expand puts the values of variables into a text, as Kubernetes and shells do. Those that
// are not known stay.
func expand(text string, set map[string]string) string {
	if len(set) == 0 || !strings.Contains(text, "$") {
		return text
	}
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := set[strings.Trim(name, "$(){}")]; ok {
			return value
		}
		return name
	})
}

// contradicted drops what is not proven: what a Job says of a workload, and reasons for
// both of two objects to be first, of which one may be proven.
func (r *reader) contradicted(edges []Edge) (kept []Edge, dropped []Dropped) {
	at := make(map[arc]Edge, len(edges))
	for _, e := range edges {
		at[e.at] = e
	}
	sure := func(e Edge) bool { return e.Strength == Hard || e.Reason.proven }
	for _, e := range edges {
		other, reverse := at[arc{e.at.to, e.at.from}]
		switch {
		case e.Reason.doubt >= unproven:
			dropped = append(dropped, Dropped{Edge: e, Why: "nothing proves that a Job and a workload start in this order"})
		case reverse && other.Reason.doubt < unproven && !sure(e):
			d := Dropped{Edge: e, Why: "they wait for each other", Cycle: []string{e.From.String(), e.To.String()}}
			if sure(other) {
				d.Why, d.Cycle = "the other one waits for it, which is certain", nil
			}
			dropped = append(dropped, d)
		default:
			kept = append(kept, e)
		}
	}
	return kept, dropped
}
