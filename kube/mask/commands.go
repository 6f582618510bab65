package mask

import (
	"regexp"
	"slices"
	"strings"
)

// client is a family of programs whose option for a password is not named like one.
type client struct {
	word     string // is in the names of all of them
	password *regexp.Regexp
}

const (
	// words matches the words between a program and an option: the rest of a command, as far as that.
	words = `\s((?:(?:"[^"\n]*"|'[^'\n]*'|[^|;&"'\n])*?\s)?)`
	// literal matches a value in a command. Its groups are the value between quotes or without them.
	literal = `(?:\\*"([^"\\\n]+)|\\*'([^'\\\n]+)|([^\s"'` + "`" + `\\|;&)]+))`
	// login matches user:, before a password.
	login = `\\*["']?[^\s:"'/\\]+:`
)

var clients = []client{
	newClient("mysql", `mysql(?:admin|dump|check|import|show|pump|sh)?`, `-p`),
	newClient("mariadb", `mariadb(?:-\w+)?`, `-p`),
	newClient("-cli ", `(?:redis|valkey|keydb)-cli`, `-a\s+`),
	newClient("mongo", `mongo(?:sh|dump|restore|export|import|stat|top)?`, `-p\s*`),
	newClient("sshpass", `sshpass`, `-p\s*`),
	newClient("ldap", `ldap(?:search|add|modify|delete|whoami|passwd)`, `-w\s*`),
	newClient("sqlcmd", `sqlcmd`, `-P\s*`),
	newClient("login ", `(?:docker|podman|registry|oras|crane|skopeo|buildah) login`, `-p\s+`),
	newClient("curl", `curl`, `(?:-u\s*|-U\s*|--(?:proxy-)?user[\s=]+)`+login),
	newClient("etcdctl", `etcdctl`, `--user[\s=]+`+login),
	newClient("cypher-shell", `cypher-shell`, `-p\s*`),
	newClient("rabbitmqadmin", `rabbitmqadmin`, `-p\s*`),
	newClient("htpasswd", `htpasswd`, `-[a-zA-Z]*b[a-zA-Z]*\s+\S+\s+\S+\s+`),
	newClient("mc alias", `mc alias set`, `\S+\s+\S+\s+\S+\s+`),
}

func newClient(word, names, option string) client {
	return client{word, regexp.MustCompile(`(?:^|[^\w.-])` + names + words + option + literal)}
}

// continued matches the end of a line of a command that goes on in the next one.
var continued = regexp.MustCompile(`\\\r?\n\s*`)

// commandSecrets returns the passwords in command lines whose options are not named like credentials, as in mysql -pX.
func commandSecrets(text string) (out []string) {
	text = continued.ReplaceAllString(text, " ")
	for _, c := range clients {
		if !strings.Contains(text, c.word) {
			continue
		}
		for _, m := range c.password.FindAllStringSubmatch(text, -1) {
			v := strings.Join(m[2:], "")
			if strings.Contains("$`{%<(", v[:1]) || lowerCase.MatchString(v) && !startsWithOption(m[1]) {
				continue // a variable, or a word of a sentence
			}
			out = append(out, v)
		}
	}
	return out
}

// startsWithOption reports whether the words after a program are an option, or there are none: a sentence goes on with other words.
func startsWithOption(words string) bool {
	words = strings.TrimSpace(words)
	return words == "" || strings.HasPrefix(words, "-")
}

// hasCommand reports whether a document may contain a command with a password.
func hasCommand(doc string) bool {
	return slices.ContainsFunc(clients, func(c client) bool { return strings.Contains(doc, c.word) })
}

// commandOf returns the command line of a list of arguments.
func commandOf(list []any) string {
	var line []string
	for _, e := range list {
		if s, isText := e.(string); isText {
			line = append(line, s)
		}
	}
	return strings.Join(line, " ")
}

// containerCommand returns the command line of a container that has its program and its arguments in two lists, "" of anything else.
func containerCommand(container map[string]any) string {
	program, args := listIn(container, "command"), listIn(container, "args")
	if len(program) == 0 || len(args) == 0 {
		return ""
	}
	return commandOf(slices.Concat(program, args))
}

func listIn(m map[string]any, field string) []any {
	list, _ := m[field].([]any)
	return list
}
