package mask

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// randomPassword returns a password with the characters that encodings change.
func randomPassword(r *rand.Rand) string {
	alphabet := []rune("abcXYZ0189 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\t\nä€😀")
	n := 6 + r.IntN(20)
	var b strings.Builder
	b.WriteString("xQ7")
	for range n {
		b.WriteRune(alphabet[r.IntN(len(alphabet))])
	}
	b.WriteString("Rk2")
	return b.String()
}

// channels are the ways in which a text leaves a run.
var channels = map[string]func(*Mask, string) string{
	"text":   (*Mask).Text,
	"output": (*Mask).Output,
	"error":  func(m *Mask, s string) string { return m.Error(fmt.Errorf("%s", s)).Error() },
	"diff":   func(m *Mask, s string) string { return m.Diff("-a: x\n+a: " + s) },
	"event": func(m *Mask, s string) string {
		group := &plan.Group{ID: "a", Why: map[string]string{"b": s}}
		e := m.Event(event.Event{Message: s, Cause: s, Evidence: []string{s}, Lines: []string{s}, Drift: []event.Drift{{Field: s, Manager: s}}, Phases: []event.Phase{{Groups: []*plan.Group{group}}},
			Details: &event.Details{Log: []string{s}, Conditions: []string{s}, Notes: []string{s},
				Pods: []event.FailingPod{{Why: s}}, Events: []event.ClusterEvent{{Reason: s, Message: s}}}})
		record, _ := json.Marshal(e)
		var fields any
		_ = json.Unmarshal(record, &fields)
		return strings.Join(scalars(fields, nil), "\n")
	},
	"log": func(m *Mask, s string) string {
		return m.Event(event.Event{Kind: event.KindLog, Lines: []string{s}}).Lines[0]
	},
	"warnings": func(m *Mask, s string) string { return m.Warnings([]plan.Warning{{Message: s}})[0].Message },
	"argument": func(m *Mask, s string) string { return m.Argument("description", s) },
}

// TestEveryFormIsHiddenInEveryChannel (S14): all that programs make of a password is hidden in all that a run prints and stores.
func TestEveryFormIsHiddenInEveryChannel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	all := slices.Concat(encodings, rareEncodings, escapes)
	for _, outer := range escapes {
		for _, inner := range escapes {
			all = append(all, encoding{inner.name + " in " + outer.name, func(s string) string { return outer.encode(inner.encode(s)) }})
		}
	}
	all = append(all, encoding{"plain", func(s string) string { return s }})
	for range 60 {
		password := randomPassword(r)
		var m Mask
		m.AddObject(map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": password}})
		for _, e := range all {
			form := e.encode(password)
			for name, channel := range channels {
				got := channel(&m, "before "+form+" after")
				if strings.Contains(got, form) || strings.Contains(got, form[:5]) || strings.Contains(got, form[len(form)-5:]) {
					t.Fatalf("%s of %q in %s: %q", e.name, password, name, got)
				}
			}
		}
	}
}

// TestFormsOfPrograms: the forms are those that the programs print.
func TestFormsOfPrograms(t *testing.T) {
	const password = `it's-Zq7&Xw!9<Kd>"tR$é`
	var m Mask
	m.AddSecrets(password)
	texts := map[string]string{
		"encodeURIComponent": "it's-Zq7%26Xw!9%3CKd%3E%22tR%24%C3%A9", "in lower case": "it's-Zq7%26Xw!9%3cKd%3e%22tR%24%c3%a9",
		"encodeURI": "it's-Zq7&Xw!9%3CKd%3E%22tR$%C3%A9", "query": url.QueryEscape(password),
		"html.escape of Python": "it&#x27;s-Zq7&amp;Xw!9&lt;Kd&gt;&quot;tR$é", "htmlspecialchars": "it&#039;s-Zq7&amp;Xw!9&lt;Kd&gt;&quot;tR$é",
		"XML": "it&apos;s-Zq7&amp;Xw!9&lt;Kd&gt;&quot;tR$é", "JSON in Python": `it's-Zq7&Xw!9<Kd>\"tR$\u00e9`,
		"hexadecimal": "697427732d5a713726587721393c4b643e22745224c3a9", "repr of Python": `it\'s-Zq7&Xw!9<Kd>"tR$é`,
		"shlex": `it'"'"'s-Zq7&Xw!9<Kd>"tR$é`, "bash": `it'\''s-Zq7&Xw!9<Kd>"tR$é`,
	}
	for _, shell := range []string{"sh", "bash"} {
		for _, script := range []string{`set -x; : "$0"`, `printf '%q' "$0"`} {
			if out, err := exec.Command(shell, "-c", script, password).CombinedOutput(); err == nil && !strings.Contains(string(out), "$'") {
				texts[shell+" "+script] = string(out)
			}
		}
	}
	for name, text := range texts {
		if got := m.Text(text); !strings.Contains(got, Hidden) || strings.Contains(got, "Zq7") || strings.Contains(got, "5a71") || strings.Contains(got, "tR") {
			t.Errorf("%s: %q becomes %q", name, text, got)
		}
	}
}

// TestConnectionStrings (S14): the password in a connection string in an object of any kind is secret; other fields are not.
func TestConnectionStrings(t *testing.T) {
	for _, config := range []string{
		"Server=db-1;User Id=shop-user;Password=hunter2Pw;Encrypt=true", "Server=db-1; Pwd = hunter2Pw ;Encrypt=true", "user=shop-user;password=hunter2Pw",
		"host=db-1 user=shop-user password=hunter2Pw dbname=shopdata", "host=db-1 password='hunter2Pw' dbname=shopdata", "db-1:6379,password=hunter2Pw,ssl=True",
		"jdbc:postgresql://db-1/shopdata?user=shop-user&password=hunter2Pw", "shop-user:hunter2Pw@tcp(db-1:3306)/shopdata",
		`conn = "Server=db-1;Password=hunter2Pw";`, "{\"dsn\": \"Server=db-1;Password=hunter2Pw\"}", "AccountName=shop-user;AccountKey=hunter2Pw;EndpointSuffix=x",
		"# %not YAML\n\tpassword: hunter2Pw\n",
	} {
		for _, field := range []string{"data", "spec"} {
			var m Mask
			m.AddObject(map[string]any{"kind": "ConfigMap", field: map[string]any{"conf": config}})
			const text = "shop-user to db-1 with %s: shopdata of Encrypt=true"
			if got := m.Text(fmt.Sprintf(text, "hunter2Pw")); got != fmt.Sprintf(text, Hidden) {
				t.Errorf("%s: %s", config, got)
			}
		}
	}
	script := `#!/bin/sh
for token in first second; do echo "$token"; done; curl --user=admin1 --header "mode=$MODE" token=$TOKEN auth=kerberos
PGPASSWORD=$(cat /run/pw) psql "host=db-1 password=${PASSWORD} dbname=shopdata"; secret=$1; key=reachable
`
	var m Mask
	m.AddObject(map[string]any{"kind": "ConfigMap", "data": map[string]any{"run.sh": script}})
	const plain = "first second admin1 $MODE $TOKEN kerberos ${PASSWORD} shopdata $1 reachable db-1"
	if got := m.Text(plain); got != plain {
		t.Errorf("a script hides %q", got)
	}
}

// TestPasswordsInFiles (S14): whatever the format of a file in a Secret, the passwords in it are secret.
func TestPasswordsInFiles(t *testing.T) {
	for name, file := range map[string]string{
		"users": "admin:%s\nother:Zq8secret", "users with comments": "# users\n\nadmin:%s\n", ".pgpass": "host:5432:db:user:%s", "redis": "port 6379\nrequirepass %s\n",
		"ODBC": "Server=x;Uid=y;Password=%s;", "properties": "spring.datasource.password=%s\n", "environment": "export DB_PASS='%s'", "JSON": `{"clients":[{"secret":"%s"}]}`,
		"TOML": "[a]\npassword = \"%s\"\n", ".netrc": "machine h login u password %s", ".netrc in lines": "machine h\n  login u\n  password %s\n",
		"connection string": "DefaultEndpointsProtocol=https;AccountKey=%s==;", "INI": "[mysql]\npwd: %s\n", "XML": "<a><password>%s</password></a>", "XML attributes": "<a>\n <db-password type=\"x\">%s</db-password></a>",
		"YAML": "db:\n  list: [{user: a, secret: %s}]", "JDBC": "jdbc:mysql://u:%s@h/x", "a plain value": "%s",
	} {
		for _, password := range []string{"CanaryValue7", "hunter2Pw", "Tr0ub4dor-and-3"} {
			var m Mask
			m.AddObject(map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"file": fmt.Sprintf(file, password)}})
			if got := m.Output("the password is " + password); strings.Contains(got, password) {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	var m Mask
	m.AddObject(map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"notes": "the token expires soon, and a password protected file\nis at https://host:8443/path"}})
	const plain = "expires soon; protected file at host:8443/path"
	if got := m.Text(plain); got != plain {
		t.Errorf("a sentence hides words: %s", got)
	}
}

// BenchmarkMask adds the Secrets of a large release and masks a log line.
func BenchmarkMask(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var secrets []string
	for range 200 {
		secrets = append(secrets, randomPassword(r))
	}
	certificate := strings.Repeat("MIIEowIBAAKCAQEA7bq+/Zx0PqGm3l1vTq8Yk2nC5uHs9oLwRfJdXeVgAbCdEfG\n", 1)
	for i := range 1500 {
		certificate += fmt.Sprintf("%d+/Zx0PqGm3l1vTq8Yk2nC5uHs9oLwRfJdXeVgAbCdEfGhIjKlMnOpQrStUvWxYz0=\n", i)
	}
	config := strings.Repeat("server.host = db-1\nauth.mode = plain; x.token.ttl = 300, some other text\n", 10000)
	for b.Loop() {
		var m Mask
		m.AddSecrets(secrets, certificate)
		m.AddObject(map[string]any{"kind": "ConfigMap", "data": map[string]any{"a": config}})
		m.Text("a line of a log that has nothing in it")
	}
}
