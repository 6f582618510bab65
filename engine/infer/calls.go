package infer

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// said is a Service that an entry of a ConfigMap or Secret names.
type said struct {
	mention
	key, path string
	file      bool // it has several lines
}

// setting is a value that a container is given by an argument or a variable.
type setting struct{ key, value string }

// calls finds what pods call by the names of Services: in arguments and
// environment, and in the ConfigMaps and Secrets that they use.
//
// Rule R62: an object waits until the workloads are ready that it calls.
func (r *reader) calls() {
	for _, n := range r.nodes {
		if callers[n.name().Kind] && !ownGroup(n.name().Group) {
			r.callsFrom(n, n.root.At("spec"))
		}
		if !n.works || n.idle() {
			continue
		}
		spec := refs.Field{Value: n.pods.Spec, Path: n.pods.Path}
		for _, kind := range []string{"initContainers", "containers"} {
			for _, c := range spec.At(kind).Each() {
				r.callsOf(n, c)
				r.waitLoops(n, c, kind == "initContainers")
			}
		}
		for _, ref := range n.refs {
			if to := r.by[ref.To]; to != nil && (ref.Use == refs.Environment || ref.Use == refs.Volume) {
				r.callsIn(n, to, ref)
			}
		}
	}
}

// callers are the kinds of custom resources for which somebody calls what their fields
// name: they connect, or run pods. What others name is told, not called.
var callers = map[string]bool{
	"Component": true, "GrafanaDatasource": true, "GrafanaDataSource": true, "KafkaConnect": true, "KafkaConnector": true, "KafkaMirrorMaker2": true, "KafkaBridge": true, "KafkaUI": true,
	"Rollout": true, "Workflow": true, "CronWorkflow": true, "SparkApplication": true, "FlinkDeployment": true, "RayCluster": true, "RayJob": true, "RayService": true,
	"ClickHouseInstallation": true, "Keycloak": true, "OpenTelemetryCollector": true, "Jaeger": true, "Druid": true,
	"HTTPRoute": true, "GRPCRoute": true, "TCPRoute": true, "TLSRoute": true, "UDPRoute": true, "IngressRoute": true, "IngressRouteTCP": true, "VirtualService": true, "HTTPProxy": true, "ApisixRoute": true, "Mapping": true,
}

// callsFrom reads the texts of a custom resource: those who work on it call for it.
func (r *reader) callsFrom(n *node, f refs.Field) {
	switch v := f.Value.(type) {
	case string:
		key := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		key, _, _ = strings.Cut(key, "[")
		r.call(n, r.mentions(v, n.name().Namespace, key, false), Reason{Path: f.Path, doubt: 1}, f.Path)
	case map[string]any:
		for _, key := range sorted(v) {
			r.callsFrom(n, f.At(key))
		}
	case []any:
		for _, x := range f.Each() {
			r.callsFrom(n, x)
		}
	}
}

// callsOf reads one container.
func (r *reader) callsOf(n *node, c refs.Field) {
	set := literals(c)
	for _, list := range []string{"command", "args"} {
		flag := ""
		for _, arg := range c.At(list).Each() {
			text := expand(arg.Text(), set)
			r.call(n, r.mentions(text, n.name().Namespace, flag, false), Reason{Path: arg.Path}, argument(text, flag, list))
			key, value, assigned := strings.Cut(text, "=")
			if !assigned {
				key, value = flag, text
			}
			r.tell(n, arg, key, value)
			flag = ""
			if strings.HasPrefix(text, "-") && !strings.ContainsAny(text, "= \n") {
				flag = text
			}
		}
	}
	for _, e := range c.At("env").Each() {
		name, value := e.At("name").Text(), e.At("value")
		text := expand(value.Text(), set)
		r.call(n, r.mentions(text, n.name().Namespace, name, true), Reason{Path: value.Path}, "env "+name)
		r.tell(n, value, name, text)
		for field, kind := range map[string]string{"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"} {
			from := e.At("valueFrom", field)
			if to := r.by[plan.Object{Kind: kind, Namespace: n.name().Namespace, Name: from.At("name").Text()}]; to != nil {
				text, path := entry(to, from.At("key").Text())
				r.call(n, r.mentions(text, n.name().Namespace, name, true), Reason{In: to.name(), Path: path, By: []plan.Object{to.name()}}, "env "+name)
			}
		}
	}
}

// tell notes a setting. One that names a ConfigMap or Secret has it read, if not
// mounted.
func (r *reader) tell(n *node, at refs.Field, key, value string) {
	name := value[strings.LastIndexByte(value, '/')+1:]
	if name == "" || key == "" || strings.ContainsAny(name, " \n=:") {
		return
	}
	r.told[n] = append(r.told[n], setting{key, name})
	words := strings.Join(wordsOf(key), "")
	for word, kind := range map[string]string{"configmap": "ConfigMap", "secret": "Secret"} {
		to := r.by[plan.Object{Kind: kind, Namespace: n.name().Namespace, Name: name}]
		if to == nil || !strings.Contains(words, word) {
			continue
		}
		r.add(n, to, Soft, Reason{Path: at.Path, Value: name, Text: fmt.Sprintf("%s names %s", at.Path, to.name())})
		r.callsIn(n, to, refs.Ref{To: to.name(), Path: at.Path})
	}
}

// argument is what can be told of an argument: its flag, never its value.
func argument(text, flag, list string) string {
	if strings.ContainsAny(text, " \n") {
		return list
	}
	if strings.HasPrefix(text, "-") {
		text, _, _ = strings.Cut(text, "=")
		return "argument " + text
	}
	if flag != "" {
		return "argument " + flag
	}
	return list
}

// call adds what mentions lead to.
func (r *reader) call(n *node, mentions []mention, why Reason, who string) {
	for _, m := range mentions {
		w := why
		w.Value, w.doubt = m.word, why.doubt+m.doubt
		w.Text = fmt.Sprintf("%s names %s", who, m.service.name())
		r.uses[n] = append(r.uses[n], use{m.service.name(), who, ""})
		servers := r.behind(m.service)
		if m.pods != nil {
			servers = []*node{m.pods}
		}
		strength := Serving
		if why.many {
			strength = Soft
		}
		if n.kind() == (plan.GroupKind{Group: "batch", Kind: "Job"}) && !w.proven && strength == Serving && !stores(m.service, who) {
			w.doubt += unproven
		}
		r.answers(n, m.service, servers, strength, w)
	}
}

// stores reports whether a Service is a database or a store of data, which waits for no Job.
func stores(s *node, who string) bool {
	return databaseWord(who) || databaseWord(s.name().Name) || slices.ContainsFunc(s.root.At("spec", "ports").Each(), func(p refs.Field) bool {
		number := numeral(p.At("port").Value)
		return databasePorts[number] || storePorts[number]
	})
}

// storePorts are those of Redis, Kafka, ZooKeeper, etcd, RabbitMQ, Elasticsearch, NATS and
// S3.
var storePorts = map[string]bool{"6379": true, "9092": true, "2181": true, "2379": true, "5672": true, "9200": true, "4222": true, "9000": true, "8123": true}

// callsIn reads the entries of a ConfigMap or Secret that a pod uses.
func (r *reader) callsIn(n, to *node, ref refs.Ref) {
	for _, s := range r.saidIn(to) {
		if len(ref.Keys) > 0 && !slices.Contains(ref.Keys, s.key) {
			continue
		}
		if s.file && slices.ContainsFunc(r.behind(s.service), func(server *node) bool { return r.reads(server, to) }) {
			continue // it is about all that read it, not about who calls whom
		}
		why := Reason{In: to.name(), Path: s.path, By: []plan.Object{to.name()}, doubt: 1}
		why.many = ref.Use == refs.Environment && len(ref.Keys) == 0 && to.name().Kind == "Secret" && len(keysOf(to)) > 1
		r.call(n, []mention{s.mention}, why, fmt.Sprintf("%s %s", to.name(), s.path))
	}
}

// reads reports whether a workload uses a ConfigMap or Secret.
func (r *reader) reads(n, to *node) bool {
	return slices.ContainsFunc(n.refs, func(ref refs.Ref) bool { return ref.To == to.name() })
}

// saidIn are the Services that the entries of a ConfigMap or Secret name.
func (r *reader) saidIn(n *node) []said {
	if known, ok := r.texts[n]; ok {
		return known
	}
	var found []said
	for _, field := range []string{"data", "stringData"} {
		entries, _ := n.root.At(field).Value.(map[string]any)
		for _, key := range sorted(entries) {
			text, path := entry(n, key)
			for _, m := range r.mentions(text, n.name().Namespace, key, !strings.Contains(text, "\n")) {
				found = append(found, said{m, key, path, strings.Contains(strings.TrimSpace(text), "\n")})
			}
		}
	}
	r.texts[n] = found
	return found
}

// keysOf are the keys of the entries of a ConfigMap or Secret.
func keysOf(n *node) []string {
	keys := map[string]bool{}
	for _, field := range []string{"data", "stringData"} {
		entries, _ := n.root.At(field).Value.(map[string]any)
		for key := range entries {
			keys[key] = true
		}
	}
	return sorted(keys)
}

// entry is the text of an entry of a ConfigMap or Secret, and where it is.
func entry(n *node, key string) (text, path string) {
	if s := n.root.At("stringData", key); s.There() {
		return s.Text(), s.Path
	}
	d := n.root.At("data", key)
	text = d.Text()
	if n.name().Kind == "Secret" {
		plain, err := base64.StdEncoding.DecodeString(text)
		if text = string(plain); err != nil {
			text = ""
		}
	}
	return text, d.Path
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// numeral is a number as it is written.
func numeral(v any) string {
	switch n := v.(type) {
	case int64:
		return strconv.FormatInt(n, 10)
	case float64:
		return strconv.FormatFloat(n, 'f', -1, 64)
	case int:
		return strconv.Itoa(n)
	case string:
		return n
	}
	return ""
}
