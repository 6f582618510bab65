package infer

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// entryMention is a Service that an entry of a ConfigMap or Secret names.
type entryMention struct {
	mention
	key, path string
	file      bool // the entry has several lines
}

// setting is an argument or a variable of a container, with the last part of its value if that is a path.
type setting struct{ key, value string }

// callEdges finds the Services that pods call: their names are in arguments, in environment
// variables, and in the ConfigMaps and Secrets that the pods use.
//
// Rule R62: an object waits until the workloads that it calls are ready
func (r *reader) callEdges() {
	for _, n := range r.nodes {
		if !builtinGroup(n.name().Group) {
			r.readCustomResource(n, n.root.At("spec"), callsServices(n.kind))
		}
		if !n.isWorkload || n.idle() {
			continue
		}
		for _, c := range n.containers() {
			r.readContainer(n, c, r.variables(n, c))
		}
		for _, ref := range n.refs {
			if to := r.configSource(ref.To); to != nil && (ref.Use == refs.Environment || ref.Use == refs.Volume) {
				r.readEntries(n, to, ref)
			}
		}
	}
}

// containers returns the containers of a workload, init containers first.
func (n *node) containers() []refs.Field {
	return slices.Concat(n.spec().At("initContainers").Each(), n.spec().At("containers").Each())
}

func (n *node) spec() refs.Field { return refs.Field{Value: n.pods.Spec, Path: n.pods.Path} }

// configSource returns the ConfigMap or Secret with a name, or nil. It may be a hook.
func (r *reader) configSource(name plan.Object) *node {
	if n := r.byObject[name]; n != nil {
		return n
	}
	return r.hooks[name]
}

// readCustomResource reads the strings of a custom resource. Only those below "containers" are calls,
// or all of them if the controller calls the Services that they name.
func (r *reader) readCustomResource(n *node, f refs.Field, calls bool) {
	switch v := f.Value.(type) {
	case string:
		if calls {
			key := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
			key, _, _ = strings.Cut(key, "[")
			r.addCalls(n, Serving, r.mentions(v, n.name().Namespace, key, false), Reason{Path: f.Path, doubt: 1}, f.Path)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if !slices.Contains(labelKeys, key) {
				r.readCustomResource(n, f.At(key), calls || key == "containers")
			}
		}
	case []any:
		for _, x := range f.Each() {
			r.readCustomResource(n, x, calls)
		}
	}
}

// readContainer reads the arguments and variables of a container.
func (r *reader) readContainer(n *node, c refs.Field, vars map[string]variable) {
	for _, list := range []string{"command", "args"} {
		flag := ""
		for _, arg := range c.At(list).Each() {
			text := arg.Text()
			expanded, by := expand(text, vars)
			r.addCalls(n, Serving, r.mentions(expanded, n.name().Namespace, flag, false), Reason{Path: arg.Path, By: by}, argument(text, flag, list))
			key, value, set := strings.Cut(text, "=")
			if !set {
				key, value = flag, text
			}
			r.addSetting(n, arg, key, value)
			flag = ""
			if strings.HasPrefix(text, "-") && !strings.ContainsAny(text, "= \n") {
				flag = text
			}
		}
	}
	for _, e := range c.At("env").Each() {
		name, value := e.At("name").Text(), e.At("value")
		v := vars[name]
		for _, m := range r.mentions(v.text, n.name().Namespace, name, true) {
			why := Reason{In: v.in, Path: v.path, By: v.by}
			if n.kind == job && r.haveVariable(r.serversOf(m.service), name, v.text) {
				why.shared, why.doubt = true, 3 // any other reason is better
			}
			r.addCalls(n, Serving, []mention{m}, why, "env "+name)
		}
		r.addSetting(n, value, name, value.Text())
	}
}

// haveVariable reports whether a container of one of the workloads has a variable with the same value.
func (r *reader) haveVariable(workloads []*node, name, value string) bool {
	return slices.ContainsFunc(workloads, func(n *node) bool {
		return slices.ContainsFunc(n.containers(), func(c refs.Field) bool { return r.variables(n, c)[name].text == value })
	})
}

// variable is an environment variable of a container.
type variable struct {
	text string        // its value
	path string        // the field that contains the value
	in   plan.Object   // the object with that field, if it is not the workload
	by   []plan.Object // the other objects that the value comes from
}

// variables returns the environment variables of a container, expanded.
func (r *reader) variables(n *node, c refs.Field) map[string]variable {
	vars := map[string]variable{}
	for _, e := range c.At("envFrom").Each() {
		for field, kind := range sources {
			to := r.configSource(plan.Object{Kind: kind, Namespace: n.name().Namespace, Name: e.At(field+"Ref", "name").Text()})
			for _, key := range entryKeys(to) {
				text, path := entryText(to, key)
				vars[e.At("prefix").Text()+key] = variable{text: text, path: path, in: to.name(), by: []plan.Object{to.name()}}
			}
		}
	}
	for _, e := range c.At("env").Each() {
		v := variable{path: e.At("value").Path}
		v.text, v.by = expand(e.At("value").Text(), vars)
		for field, kind := range sources {
			from := e.At("valueFrom", field+"KeyRef")
			if to := r.configSource(plan.Object{Kind: kind, Namespace: n.name().Namespace, Name: from.At("name").Text()}); to != nil {
				v.text, v.path = entryText(to, from.At("key").Text())
				v.in, v.by = to.name(), []plan.Object{to.name()}
			}
		}
		vars[e.At("name").Text()] = v
	}
	return vars
}

// sources has the kinds by the prefix of fields such as configMapRef and secretKeyRef.
var sources = map[string]string{"configMap": "ConfigMap", "secret": "Secret"}

// variableReference matches a variable in an argument or a value: $(HOST), ${HOST:-db}, $HOST.
var variableReference = regexp.MustCompile(`\$\(([A-Za-z_]\w*)\)|\$\{([A-Za-z_]\w*)(?::?-([^}]*))?\}|\$([A-Za-z_]\w*)`)

// expand replaces the variables in a text with their values. by lists the objects that the values come from.
func expand(text string, vars map[string]variable) (expanded string, by []plan.Object) {
	if !strings.Contains(text, "$") {
		return text, nil
	}
	return variableReference.ReplaceAllStringFunc(text, func(word string) string {
		m := variableReference.FindStringSubmatch(word)
		switch v, known := vars[m[1]+m[2]+m[4]]; {
		case known && v.text != "" && !strings.Contains(v.text, "\n"):
			by = append(by, v.by...)
			return v.text
		case m[3] != "":
			return m[3]
		}
		return word
	}), by
}

// addSetting records a setting. If it names a ConfigMap or Secret, as in --configmap=NAME, the
// workload also reads that.
func (r *reader) addSetting(n *node, at refs.Field, key, value string) {
	name := value[strings.LastIndexByte(value, '/')+1:]
	if name == "" || key == "" || strings.ContainsAny(name, " \n=:") {
		return
	}
	n.settings = append(n.settings, setting{key, name})
	words := strings.Join(splitWords(key), "")
	for word, kind := range map[string]string{"configmap": "ConfigMap", "secret": "Secret"} {
		to := r.configSource(plan.Object{Kind: kind, Namespace: n.name().Namespace, Name: name})
		if to == nil || !strings.Contains(words, word) {
			continue
		}
		r.add(n, to, Soft, Reason{Path: at.Path, Value: name, Text: fmt.Sprintf("%s names %s", at.Path, to.name())})
		r.readEntries(n, to, refs.Ref{To: to.name(), Path: at.Path})
	}
}

// argument describes an argument by its flag. It does not show the value, which may be secret.
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

// addCalls adds edges for mentions. where describes their place, for the reasons.
func (r *reader) addCalls(n *node, strength Strength, mentions []mention, why Reason, where string) {
	for _, m := range mentions {
		w := why
		w.doubt += m.doubt
		w.Text = fmt.Sprintf("%s names %s", where, m.service.name())
		r.addCall(n, strength, m, w, where)
	}
}

func (r *reader) addCall(n *node, strength Strength, m mention, why Reason, where string) {
	why.Value = m.word
	n.hosts = append(n.hosts, hostRef{service: m.service.name(), where: where})
	servers := r.serversOf(m.service)
	if m.workload != nil {
		servers = []*node{m.workload}
	}
	r.waitForWorkloads(n, m.service, servers, strength, why)
}

// readEntries reads the entries of a ConfigMap or Secret that a pod uses. An entry is only soft
// evidence if all entries become variables, and if they come from a Secret or the called workload
// reads them too: then they may configure a whole application, and the pod may not need all of them.
func (r *reader) readEntries(n, to *node, ref refs.Ref) {
	allEntries := ref.Use == refs.Environment && len(ref.Keys) == 0 && len(entryKeys(to)) > 1
	for _, s := range r.entryMentions(to) {
		if len(ref.Keys) > 0 && !slices.Contains(ref.Keys, s.key) {
			continue
		}
		shared := slices.ContainsFunc(r.serversOf(s.service), func(server *node) bool { return r.reads(server, to) })
		if shared && s.file {
			continue // both read the file, so it does not show which one calls the other
		}
		strength := Serving
		if allEntries && (shared || to.name().Kind == "Secret") {
			strength = Soft
		}
		r.addCalls(n, strength, []mention{s.mention}, Reason{In: to.name(), Path: s.path, By: []plan.Object{to.name()}, doubt: 1, allEntries: allEntries}, fmt.Sprintf("%s %s", to.name(), s.path))
	}
}

func (r *reader) reads(n, to *node) bool {
	return slices.ContainsFunc(n.refs, func(ref refs.Ref) bool { return ref.To == to.name() })
}

// entryMentions returns the Services that the entries of a ConfigMap or Secret name.
func (r *reader) entryMentions(n *node) []entryMention {
	if known, ok := r.mentionCache[n]; ok {
		return known
	}
	var found []entryMention
	for _, key := range entryKeys(n) {
		text, path := entryText(n, key)
		for _, m := range r.mentions(text, n.name().Namespace, key, !strings.Contains(text, "\n")) {
			found = append(found, entryMention{m, key, path, strings.Contains(strings.TrimSpace(text), "\n")})
		}
	}
	r.mentionCache[n] = found
	return found
}

// entryKeys returns the keys of a ConfigMap or Secret, or nil if n is nil.
func entryKeys(n *node) []string {
	all := map[string]any{}
	for _, field := range []string{"data", "stringData"} {
		if n != nil {
			found, _ := n.root.At(field).Value.(map[string]any)
			maps.Copy(all, found)
		}
	}
	return sortedKeys(all)
}

// entryText returns the text of an entry of a ConfigMap or Secret, and its path.
func entryText(n *node, key string) (text, path string) {
	if s := n.root.At("stringData", key); s.Exists() {
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// formatNumber formats a number as in the manifest.
func formatNumber(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
