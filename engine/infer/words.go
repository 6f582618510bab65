package infer

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The value of a key that ends with one of hostWords is a host to call, unless the key also has one of
// ownWords: then it is the program's own address. The value of a key with one of nameWords is another name.
var (
	hostWords = []string{
		"host", "hosts", "hostname", "url", "urls", "uri", "uris", "addr", "addrs", "address", "addresses", "endpoint", "endpoints", "server", "servers",
		"service", "svc", "upstream", "upstreams", "dsn", "broker", "brokers", "seeds", "points", "nodes", "proxy", "backend", "backends", "connection", "connect", "dns", "master", "gateway", "target", "targets", "peers", "remote", "ip", "bootstrap",
	}
	ownWords  = []string{"no", "noproxy", "allowed", "trusted", "advertise", "advertised", "cors", "san", "sans", "publish", "external", "public", "election"}
	nameWords = []string{
		"name", "id", "group", "db", "database", "user", "username", "bucket", "topic", "namespace", "release", "instance", "cluster", "label", "labels", "tag", "type", "mode", "driver",
		"secret", "configmap", "config", "account", "serviceaccount", "prefix", "index", "realm", "client", "election", "lease", "image", "class", "project", "component", "role", "password", "key",
		"path", "dir", "file", "app", "application", "deployment", "statefulset", "job", "pvc", "claim", "selector", "environment", "env", "domain", "schema", "fullname", "chart", "fqdn",
	}
)

// callsHost reports whether the value of a key is a host to call, such as that of DB_HOST.
func callsHost(key string) bool {
	words := splitWords(key)
	for len(words) > 0 && strings.Trim(words[len(words)-1], "0123456789") == "" {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	if last == "name" && len(words) > 1 {
		last = words[len(words)-2]
		return slices.Contains([]string{"host", "server", "dns"}, last) && len(words) > 2
	}
	return slices.Contains(hostWords, last) && !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(ownWords, w) })
}

// allowWords are the words of keys whose values are addresses that the program admits, publishes or sends browsers back to.
var allowWords = []string{
	"no", "noproxy", "allowed", "trusted", "cors", "csrf", "origin", "origins", "redirect", "redirects", "callback", "callbacks", "advertise", "advertised", "san", "sans",
}

// ownAddress reports whether the value of a key is no call even if it is a whole address: one of allowWords, or the program's own
// address, as of APP_PUBLIC_URL, but not of EXTERNAL_DB_URL.
func ownAddress(key string) bool {
	words := splitWords(key)
	n := len(words)
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(allowWords, w) }) ||
		n > 1 && (words[n-2] == "public" || words[n-2] == "external") && slices.Contains(hostWords, words[n-1])
}

// namesOther reports whether the value of a key may be a name of something other than a host.
func namesOther(key string) bool {
	return slices.ContainsFunc(splitWords(key), func(w string) bool { return slices.Contains(nameWords, w) })
}

// camelCase matches the start of a word inside a name such as dbHost.
var camelCase = regexp.MustCompile(`(\p{Ll})(\p{Lu})`)

// splitWords splits a key into lower-case words: "db" and "host" for DB_HOST, db-host, db.host and dbHost.
func splitWords(key string) []string {
	key = strings.ToLower(camelCase.ReplaceAllString(key, "$1 $2"))
	return strings.FieldsFunc(key, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}
