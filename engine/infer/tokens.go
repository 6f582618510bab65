package infer

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// mention is a word in a text that names a Service.
type mention struct {
	target
	word  string
	doubt int  // see Reason.doubt
	bare  bool // without a port or a scheme
}

// mentions finds the Services whose DNS names are whole words of a text, if the context looks like a
// call. key is the key of the text; env means that the text is the value of an environment variable.
func (r *reader) mentions(text, namespace, key string, env bool) []mention {
	var found []mention
	for i, j := range words(text) {
		if to := r.lookupWord(text[i:j], text[j:], namespace); to.service != nil {
			c := candidate{text: text, from: i, to: j, key: key, env: env, service: to.service}
			if doubt := c.doubt(r, to.dotted); doubt >= 0 {
				found = append(found, mention{to, strings.TrimSuffix(text[i:j], "."), doubt, !c.isAddress()})
			}
		}
	}
	return slices.DeleteFunc(found, func(m mention) bool { return m.bare && spelledTwice(found, m) })
}

// before returns the part of a text before a separator, or the whole text.
func before(text, sep string) string {
	head, _, _ := strings.Cut(text, sep)
	return head
}

// spelledTwice reports whether a text has the name of a Service in several forms, such as db.ns and
// db.ns.svc. Then it lists the names of a certificate, not calls.
func spelledTwice(found []mention, m mention) bool {
	return slices.ContainsFunc(found, func(n mention) bool {
		return n.bare && n.service == m.service && n.word != m.word && before(n.word, ".") == before(m.word, ".")
	})
}

// words yields the start and end of each word in a text.
func words(text string) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(text); from++ {
			to := from
			for to < len(text) && refs.InWord(text[to]) {
				to++
			}
			if to > from && !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// target is the Service of a DNS name. If the name is that of a pod, workload is the pod's workload.
type target struct {
	service, workload *node
	dotted            bool // the name has several parts
}

// lookupWord resolves a word. A variable for the namespace may follow, as in "db.$(NAMESPACE).svc".
func (r *reader) lookupWord(word, after, namespace string) target {
	if rest, ok := strings.CutSuffix(word, "."); ok && (strings.HasPrefix(after, "$(") || strings.HasPrefix(after, "${")) {
		if end := strings.IndexAny(after, ")}"); end > 0 && (strings.HasPrefix(after[end+1:], ".svc") || !strings.HasPrefix(after[end+1:], ".")) {
			to := r.resolve(rest, namespace)
			to.dotted = true
			return to
		}
	}
	return r.resolve(word, namespace)
}

// resolve finds the Service of a DNS name as seen from a namespace: name, name.namespace,
// name.namespace.svc and longer, each also after the name of a pod.
func (r *reader) resolve(name, namespace string) target {
	first, rest, dotted := strings.Cut(strings.Trim(name, "."), ".")
	for strings.HasPrefix(first, "_") && dotted { // _grpc._tcp.db.ns.svc, an SRV record
		first, rest, dotted = strings.Cut(rest, ".")
	}
	if to := r.service(first, rest, namespace); to != nil || !dotted {
		return target{service: to, dotted: dotted}
	}
	second, rest, _ := strings.Cut(rest, ".")
	to := r.service(second, rest, namespace)
	if to == nil {
		return target{}
	}
	for _, n := range r.serversOf(to) {
		if number, ok := strings.CutPrefix(first, n.name().Name+"-"); ok && number != "" && strings.Trim(number, "0123456789") == "" {
			return target{to, n, true}
		}
	}
	return target{}
}

// service returns the Service of the DNS name name.rest, or nil.
func (r *reader) service(name, rest, namespace string) *node {
	for _, s := range r.servicesNamed[name] {
		in, rest, _ := strings.Cut(rest, ".")
		if in == "" && s.name().Namespace == namespace || in == s.name().Namespace && (rest == "" || rest == "svc" || strings.HasPrefix(rest, "svc.")) {
			return s
		}
	}
	return nil
}

// candidate is a word that may be a call to a Service, with the text around it.
type candidate struct {
	text     string
	from, to int
	key      string
	env      bool
	service  *node
}

// doubt returns Reason.doubt for the word, or -1 if it is no call.
func (c candidate) doubt(r *reader, dotted bool) int {
	line, at := c.line()
	if !c.env && comment.MatchString(line[:at]) {
		return -1
	}
	ofLine, key := c.keys(line, at)
	switch {
	case c.isUser(), bucket.MatchString(line[:at]), ownAddress(ofLine):
		return -1
	case !c.env && strings.Contains(c.text, "\n") && key == "targets":
		return -1 // the configuration of a monitor, which works without the Service
	case slices.Contains([]string{"dnsNames", "commonName"}, key) && !c.isAddress():
		return -1 // a certificate
	case !c.env && c.isInLabels():
		return -1
	case dotted, c.isAddress():
		return 0
	case c.isCommandTarget(), callsHost(key), beforeDefault.MatchString(line[:at]), c.isInKey(key):
		return 1
	case c.env && c.text == c.service.name().Name && strings.Contains(c.text, "-") && !namesOther(key) && !r.ambiguousName(c.service):
		return 2
	}
	return -1
}

var startKey = regexp.MustCompile(`^\s*(?:- )?["']?([\w.-]+)["']?\s*[:=](?:[^/]|$)`)

// comment matches the part of a line before a word that is commented out.
var comment = regexp.MustCompile(`^\s*(?:#|;|//|--\s)|\s(?:#|//)\s|/\*|<!--`)

// beforeDefault matches code that reads a variable with a default, up to the default: env("DB_HOST", "
var beforeDefault = regexp.MustCompile(`[(\[{,]\s*["']?[A-Z][A-Z0-9]*_(HOST|HOSTS|URL|URI|ADDR|ADDRESS|ENDPOINT|SERVER|SERVERS|BROKERS)["']?\s*[,:]\s*["']$`)

// isAddress reports whether the word is the host of a URL, or has a port.
func (c candidate) isAddress() bool {
	lead := c.text[:c.from]
	return strings.HasSuffix(lead, "://") || strings.HasSuffix(lead, "tcp(") || strings.HasSuffix(lead, "/dev/tcp/") || inURL(lead) || c.portFollows()
}

// urlEnds are the characters after the user or the host of a URL, bucket matches the start of a URL without a host.
const urlEnds = "@/?#,;|<> \t\n\"'"

var bucket = regexp.MustCompile(`\b(?:s3a?|gs|file)://$`)

// isUser reports whether the word is in the user or the password of a URL.
func (c candidate) isUser() bool {
	start, rest := strings.LastIndex(c.text[:c.from], "://"), c.text[c.to:]
	end := strings.IndexAny(rest, urlEnds)
	return start >= 0 && !strings.ContainsAny(c.text[start+3:c.from], urlEnds) && end >= 0 && rest[end] == '@'
}

// isInKey reports whether the key contains the name of the Service, and a port follows:
// --thanos-store=thanos-store:10901.
func (c candidate) isInKey(key string) bool {
	rest, colon := strings.CutPrefix(c.text[c.to:], ":")
	return colon && leadingNumber(rest) != "" && strings.Contains(strings.Join(splitWords(key), "-"), c.text[c.from:c.to])
}

// labelKeys are the keys of labels, annotations and selectors, alertRules matches Prometheus rules.
var (
	labelKeys  = []string{"labels", "annotations", "external_labels", "externalLabels", "matchLabels", "selector"}
	alertRules = regexp.MustCompile(`(?m)^\s*-?\s*"?(alert|record)"?:\s`)
)

// isInLabels reports whether the word is in a label, an annotation, a selector or an alert rule.
func (c candidate) isInLabels() bool {
	if !strings.Contains(c.text, "\n") {
		return false
	}
	if alertRules.MatchString(c.text) && strings.Contains(c.text, "expr:") {
		return true
	}
	line, _ := c.line()
	column := func(line string) int { return len(line) - len(strings.TrimLeft(line, "- ")) } // of its key
	indent := column(line)
	above := strings.Split(c.text[:c.from], "\n")
	for n := len(above) - 2; n >= 0 && indent > 0; n-- {
		if at := column(above[n]); at < indent && at < len(above[n]) {
			key, _, _ := strings.Cut(above[n][at:], ":")
			if slices.Contains(labelKeys, strings.Trim(key, "\" ")) {
				return true
			}
			indent = at
		}
	}
	return false
}

// line returns the line of the word, and the word's place in it.
func (c candidate) line() (line string, at int) {
	start := strings.LastIndexByte(c.text[:c.from], '\n') + 1
	end := len(c.text)
	if i := strings.IndexByte(c.text[c.to:], '\n'); i >= 0 {
		end = c.to + i
	}
	return c.text[start:end], c.from - start
}

// inURL reports whether a text ends with a URL up to its user.
func inURL(lead string) bool {
	word := lead[strings.LastIndexAny(lead, " \t\n\"'")+1:]
	return strings.HasSuffix(lead, "@") && strings.Contains(word, "://")
}

// portFollows reports whether a port of the Service follows the word: "db:5432", "db:$(PORT)".
func (c candidate) portFollows() bool {
	rest, ok := strings.CutPrefix(c.text[c.to:], ":")
	if !ok {
		return false
	}
	if strings.HasPrefix(rest, "$(") || strings.HasPrefix(rest, "${") {
		return true
	}
	if lead := c.text[:c.from]; strings.HasSuffix(lead, "/") && !strings.HasSuffix(lead, c.service.name().Namespace+"/") {
		return false
	}
	return c.servesPort(leadingNumber(rest))
}

// isCommandTarget reports whether the word is an argument of a command that calls it: "nc -z db 5432", "ping db".
func (c candidate) isCommandTarget() bool {
	rest, space := strings.CutPrefix(strings.TrimLeft(c.text[c.to:], "\"'"), " ")
	if space && c.servesPort(leadingNumber(strings.TrimLeft(rest, " \t"))) {
		return true
	}
	return hostCommand.MatchString(c.text[max(0, c.from-80):c.from])
}

// hostCommand matches a command up to its host: nslookup x, curl -s x, nc -z x.
var hostCommand = regexp.MustCompile(`(?:(?:^|[\s"'(;&|])(?:nslookup|ping|curl|wget|nc|ncat|netcat|telnet|dig|host|a?hosts(?:v[46])?|cqlsh|wait-for|wait-for-it)(?:\.sh)?(?:\s+[-+]{1,2}[\w-]+(?:=\S+| \d+| /\S+| [A-Z]+)?)*|(?:^|[\s"'])(?:-h|-H|--host|--server))[\s=]+["']?$`)

// leadingNumber returns the number that is the first word of a text, or "".
func leadingNumber(text string) string {
	rest := strings.TrimLeft(text, "0123456789")
	if rest != "" && refs.InWord(rest[0]) {
		return ""
	}
	return text[:len(text)-len(rest)]
}

// servesPort reports whether the Service has a port. A Service without ports or a headless one may have any.
func (c candidate) servesPort(number string) bool {
	ports := c.service.root.At("spec", "ports").Each()
	if number == "" {
		return false
	}
	for _, p := range ports {
		if formatNumber(p.At("port").Value) == number || formatNumber(p.At("targetPort").Value) == number {
			return true
		}
	}
	return len(ports) == 0 || c.service.root.At("spec", "clusterIP").Text() == "None"
}

// keys returns the key at the start of a line, or that of the text, and the key of the word at a place in the line, "" if the word is
// not at the start of a value.
func (c candidate) keys(line string, at int) (ofLine, ofWord string) {
	ofLine = c.key
	if m := startKey.FindStringSubmatch(line); m != nil {
		ofLine = m[1]
	}
	lead := line[:at]
	if tag := xmlTag.FindStringSubmatch(lead); tag != nil {
		return ofLine, tag[1]
	}
	end, start := -1, 0 // of the key, and of its value
	for _, sep := range []string{"=", ": ", `":`, `':`, "\t"} {
		if i := strings.LastIndex(lead, sep); i > end {
			end, start = i, i+len(sep)
		}
	}
	switch {
	case !c.isValue(lead[start:]):
		return ofLine, ""
	case end >= 0:
		return ofLine, lastWord(lead[:end])
	case strings.Contains(c.text, "\n") && strings.Trim(lead, " -\"'") == "":
		return ofLine, c.keyAbove(c.from - len(lead))
	}
	return ofLine, c.key
}

// xmlTag matches the tag before an XML value.
var xmlTag = regexp.MustCompile(`<([A-Za-z_][-\w.]*)(?:\s[^<>]*)?>\s*$`)

// isValue reports whether the word starts a value, or follows other hosts in a list. lead is the text
// before the word; it may end with the namespace, as in "default/db".
func (c candidate) isValue(lead string) bool {
	lead = strings.TrimSuffix(lead, c.service.name().Namespace+"/")
	if strings.HasSuffix(lead, ")/") && strings.HasPrefix(lead, "$(") {
		return true
	}
	return strings.Trim(lead, hostListChars) == ""
}

// keyAbove returns the key of the YAML or JSON list with the item at a place, or "".
func (c candidate) keyAbove(at int) string {
	above := strings.Split(c.text[max(0, at-1000):at], "\n")
	for n := len(above) - 1; n >= 0; n-- {
		line := strings.TrimRight(above[n], " \r")
		if key, ok := strings.CutSuffix(strings.TrimSuffix(strings.TrimRight(line, "["), " "), ":"); ok {
			return lastWord(key)
		}
		if item := strings.TrimLeft(line, " "); item != "" && item[0] != '-' && item[0] != '"' {
			return ""
		}
	}
	return ""
}

// keyEnds are the characters around a key.
const keyEnds = " \t\"'{,;"

// lastWord returns the key at the end of a text.
func lastWord(text string) string {
	text = strings.TrimRight(text, keyEnds)
	return text[strings.LastIndexAny(text, keyEnds)+1:]
}

// hostListChars are the characters that a list of hosts may contain.
const hostListChars = "abcdefghijklmnopqrstuvwxyz0123456789.,:;-_ \"'[]"

// ambiguousName reports whether another object with the name of a Service makes a value ambiguous.
func (r *reader) ambiguousName(s *node) bool {
	return slices.ContainsFunc([]string{"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"}, func(kind string) bool {
		return r.byObject[plan.Object{Kind: kind, Namespace: s.name().Namespace, Name: s.name().Name}] != nil
	})
}
