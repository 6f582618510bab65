package infer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// use is a host that a workload is told, by who, which is the Service's where the
// release has it.
type use struct {
	service plan.Object
	who     string
	host    string
}

// habits finds what is better done first.
//
// Rule R63: what one waits for in a command, migrations, and Helm's order of kinds.
func (r *reader) habits() {
	for _, n := range r.nodes {
		if n.works && !n.idle() {
			r.commands(n)
		}
	}
	r.kindOrder()
	r.credentials()
	r.migrations()
	r.brought()
}

// awaited is a workload in a command that waits.
var awaited = regexp.MustCompile(`\b(job|deployment|deploy|statefulset|sts|daemonset|ds|pod)s?(?:\.[a-z]+)*(?:/|\s+)([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)`)

var kindOf = map[string][]plan.GroupKind{
	"job": {{Group: "batch", Kind: "Job"}}, "deployment": {{Group: "apps", Kind: "Deployment"}}, "deploy": {{Group: "apps", Kind: "Deployment"}},
	"statefulset": {{Group: "apps", Kind: "StatefulSet"}}, "sts": {{Group: "apps", Kind: "StatefulSet"}},
	"daemonset": {{Group: "apps", Kind: "DaemonSet"}}, "ds": {{Group: "apps", Kind: "DaemonSet"}}, "pod": {{Kind: "Pod"}},
}

// commands reads what containers wait for.
func (r *reader) commands(n *node) {
	spec := refs.Field{Value: n.pods.Spec, Path: n.pods.Path}
	for _, kind := range []string{"initContainers", "containers"} {
		for _, c := range spec.At(kind).Each() {
			text := strings.Join(append(texts(c.At("command")), texts(c.At("args"))...), " ")
			if !strings.Contains(text+c.At("image").Text(), "wait") && !strings.Contains(text, "rollout status") {
				continue
			}
			for _, m := range awaited.FindAllStringSubmatch(text, -1) {
				for _, kind := range kindOf[m[1]] {
					to := r.by[plan.Object{Group: kind.Group, Kind: kind.Kind, Namespace: n.name().Namespace, Name: m[2]}]
					if to != nil {
						r.add(n, to, Soft, Reason{Path: c.Path, Value: m[0], proven: true, Text: fmt.Sprintf("container %s waits for %s", c.At("name").Text(), to.name())})
					}
				}
			}
		}
	}
}

// kindOrder has workloads come after what Helm applies before them and is about
// them: Services and policies that select their pods.
func (r *reader) kindOrder() {
	for _, n := range r.nodes {
		var about []*node
		path := "spec.selector"
		switch {
		case n.kind() == service:
			if selector, _ := n.root.At("spec", "selector").Value.(map[string]any); len(selector) > 0 {
				about = r.pods(n.name().Namespace, selector)
			}
		case n.kind() == plan.GroupKind{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:
			path = "spec.podSelector"
			about = r.matched(n.name().Namespace, n.root.At("spec", "podSelector"))
		}
		for _, w := range about {
			if w.kind().Group != "batch" {
				r.add(w, n, Soft, Reason{In: n.name(), Path: path, By: []plan.Object{}, Text: fmt.Sprintf("%s %s selects its pods and comes first", n.name(), path)})
			}
		}
	}
}

// migrations has workloads wait for the Jobs that use the same database.
func (r *reader) migrations() {
	jobs := map[use][]*node{}
	for _, n := range r.nodes {
		if n.kind() == (plan.GroupKind{Group: "batch", Kind: "Job"}) && !n.idle() {
			for host := range r.databases(n) {
				jobs[host] = append(jobs[host], n)
			}
		}
	}
	for _, n := range r.nodes {
		if !n.works || n.kind().Group == "batch" || len(jobs) == 0 || r.pools(n) {
			continue
		}
		for host, field := range r.databases(n) {
			for _, j := range jobs[host] {
				if _, reverse := r.found[arc{j.at, n.at}]; !reverse {
					name := host.host
					why := Reason{Path: field}
					if host.service.Name != "" {
						name = host.service.String()
						why.By = []plan.Object{host.service}
					}
					why.Value, why.Text = name, fmt.Sprintf("both use database %s, and a Job prepares it", name)
					r.add(n, j, Soft, why)
				}
			}
		}
	}
}

// pools reports whether a workload answers for a database: a Job may reach it through that.
func (r *reader) pools(n *node) bool {
	return slices.ContainsFunc(r.inNamespace[n.name().Namespace], func(s *node) bool {
		return slices.Contains(r.behind(s), n) && (slices.ContainsFunc(wordsOf(s.name().Name), pooler) || slices.ContainsFunc(s.root.At("spec", "ports").Each(), func(p refs.Field) bool {
			return databasePorts[numeral(p.At("port").Value)] || numeral(p.At("port").Value) == "6432"
		}))
	})
}

func pooler(word string) bool {
	return slices.Contains([]string{"bouncer", "pgbouncer", "pgpool", "pooler", "proxysql", "maxscale", "haproxy", "odyssey", "pgcat", "supavisor"}, word)
}

// databases are the databases that a workload is told, with who says so.
func (r *reader) databases(n *node) map[use]string {
	found := map[use]string{}
	for _, u := range r.uses[n] {
		s := r.by[u.service]
		if s == nil || slices.Contains(r.behind(s), n) {
			continue
		}
		if databaseWord(u.who) || slices.ContainsFunc(s.root.At("spec", "ports").Each(), func(p refs.Field) bool { return databasePorts[numeral(p.At("port").Value)] }) {
			found[use{service: u.service}] = u.who
		}
	}
	spec := refs.Field{Value: n.pods.Spec, Path: n.pods.Path}
	for _, kind := range []string{"initContainers", "containers"} {
		for _, c := range spec.At(kind).Each() {
			for _, e := range c.At("env").Each() {
				key, value := e.At("name").Text(), e.At("value").Text()
				if !callsHost(key) || !databaseWord(key) {
					continue
				}
				if strings.Contains(value, ".") && !strings.ContainsAny(value, "/@ ") {
					found[use{host: value}] = e.At("value").Path
				}
				for _, field := range []string{"configMapKeyRef", "secretKeyRef"} {
					if from := e.At("valueFrom", field); from.There() {
						found[use{host: from.At("name").Text() + ":" + from.At("key").Text()}] = from.Path
					}
				}
			}
		}
	}
	for _, ref := range n.refs {
		to := r.by[ref.To]
		if to == nil || ref.Use != refs.Environment || len(ref.Keys) > 0 {
			continue
		}
		for _, key := range keysOf(to) {
			if callsHost(key) && databaseWord(key) {
				found[use{host: to.name().Name + ":" + key}] = ref.Path
			}
		}
	}
	return found
}

var databasePorts = map[string]bool{"5432": true, "3306": true, "1433": true, "1521": true, "27017": true, "9042": true, "26257": true, "5984": true}

func databaseWord(key string) bool {
	return slices.ContainsFunc(wordsOf(key), func(w string) bool {
		return slices.Contains([]string{"db", "database", "postgres", "postgresql", "pg", "mysql", "mariadb", "mongo", "mongodb", "sql", "jdbc", "mssql", "oracle", "cockroach"}, w)
	})
}

// credentials has a Job wait for the StatefulSet of its chart that reads the same
// Secret, and whose client it therefore is.
func (r *reader) credentials() {
	readers := map[*node][]*node{}
	for _, n := range r.nodes {
		for _, s := range r.environment(n) {
			readers[s] = append(readers[s], n)
		}
	}
	for s, list := range readers {
		for _, j := range list {
			for _, n := range list {
				if j.kind() != (plan.GroupKind{Group: "batch", Kind: "Job"}) || n.kind().Kind != "StatefulSet" || j.Chart != n.Chart || n.idle() {
					continue
				}
				for _, service := range r.steady(n) {
					r.uses[j] = append(r.uses[j], use{service: service.name(), who: s.name().String()})
					r.add(j, n, Soft, Reason{In: s.name(), Path: "metadata.name", Value: s.name().Name, By: []plan.Object{s.name()}, Text: fmt.Sprintf("both read %s, so it is a client of it", s.name())})
				}
			}
		}
	}
}

// environment are the Secrets that a workload reads its environment from.
func (r *reader) environment(n *node) []*node {
	var found []*node
	if !n.works {
		return nil
	}
	for _, ref := range n.refs {
		if to := r.by[ref.To]; ref.Use == refs.Environment && ref.To.Kind == "Secret" && to != nil && !slices.Contains(found, to) {
			found = append(found, to)
		}
	}
	return found
}

// steady are the Services that reach a workload once it is ready, and not before:
// a Job may be what makes it so otherwise.
func (r *reader) steady(n *node) []*node {
	var found []*node
	for _, s := range r.inNamespace[n.name().Namespace] {
		if slices.Contains(r.behind(s), n) && !s.root.At("spec", "publishNotReadyAddresses").Yes() {
			found = append(found, s)
		}
	}
	return found
}

// brought has pods wait for the custom resource that their Secret is made from.
func (r *reader) brought() {
	makers := map[plan.Object]*node{}
	for _, n := range r.nodes {
		if ownGroup(n.name().Group) {
			continue
		}
		for _, at := range []refs.Field{n.root.At("spec", "secretName"), n.root.At("spec", "target", "name")} {
			if at.Text() != "" && (n.kind().Kind == "Certificate" || n.kind().Kind == "ExternalSecret") {
				makers[plan.Object{Kind: "Secret", Namespace: n.name().Namespace, Name: at.Text()}] = n
			}
		}
	}
	for _, n := range r.nodes {
		if !n.works || len(makers) == 0 {
			continue
		}
		for _, ref := range n.refs {
			if m := makers[ref.To]; m != nil && !ref.Optional && r.by[ref.To] == nil {
				r.add(n, m, Soft, Reason{Path: ref.Path, Value: ref.To.Name, Text: fmt.Sprintf("%s names %s, which %s creates", ref.Path, ref.To, m.name())})
			}
		}
	}
}
