package mask

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/status"
)

const canary = `s3cr3t "p/w"+ä`

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestPasswordsInFilesOfSecrets hides the passwords in files of Secrets that are neither YAML nor lines of key=value.
func TestPasswordsInFilesOfSecrets(t *testing.T) {
	for name, file := range map[string]string{
		"users":       "admin:%s\nother:x",
		"second user": "other:x\nadmin:%s:role",
		"pgpass":      "host:5432:db:user:%s",
		"redis":       "port 6379\nrequirepass %s\nmaxclients 10",
		"netrc":       "machine host login user password %s",
		"Azure":       "DefaultEndpointsProtocol=https;AccountKey=%s==;EndpointSuffix=core.windows.net",
		"section":     "[mysql]\npwd: %s",
		"XML":         "<user><password>%s</password></user>",
		"plain names": `{"db": {"main": "%s", "host": "host", "port": 5432, "engine": "postgres16", "address": "db1.example:5432"}}`,
	} {
		const password = "kQ7vX2mt"
		var m Mask
		m.AddObject(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "stringData": map[string]any{"file": fmt.Sprintf(file, password)}})
		if got := m.Output("connecting with " + password + " to the server"); strings.Contains(got, password) {
			t.Errorf("%s: %q", name, got)
		}
		if got, want := m.Output("host: user logs in as admin to postgres16 on db1.example:5432"), "host: user logs in as admin to postgres16 on db1.example:5432"; got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestSecretsAreHiddenInEveryForm hides values that are raw, encoded, quoted, or in a file.
func TestSecretsAreHiddenInEveryForm(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for name, manifest := range map[string]string{
		"stringData":            fmt.Sprintf("apiVersion: v1\nkind: Secret\nstringData: {a: %q}", canary),
		"data":                  "apiVersion: v1\nkind: Secret\ndata: {a: " + encoded + "}",
		"a list":                fmt.Sprintf("apiVersion: v1\nkind: Secret\nstringData: [%q]", canary),
		"not a map":             fmt.Sprintf("apiVersion: v1\nkind: Secret\nstringData: %q", canary),
		"immutable":             fmt.Sprintf("apiVersion: v1\nkind: Secret\nimmutable: %q", canary),
		"nested":                fmt.Sprintf("apiVersion: v1\nkind: Secret\nstringData: {a: {b: [%q]}}", canary),
		"in a List":             fmt.Sprintf("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, stringData: {a: %q}}]", canary),
		"in a SecretList":       fmt.Sprintf("apiVersion: v1\nkind: SecretList\nitems: [{metadata: {name: x}, stringData: {a: %q}}]", canary),
		"in a list of lists":    fmt.Sprintf("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: SecretList, items: [{data: {a: %s}}]}]", encoded),
		"lines":                 fmt.Sprintf("apiVersion: v1\nkind: Secret\nstringData: {a: %q}", "first line\n"+canary+"\nlast line"),
		"JSON file":             fmt.Sprintf("apiVersion: v1\nkind: Secret\nstringData: {a: %q}", fmt.Sprintf(`{"db":{"password":%q}}`, canary)),
		"environment":           fmt.Sprintf("apiVersion: v1\nkind: Pod\nspec: {containers: [{env: [{name: DB_PASSWORD, value: %q}]}]}", canary),
		"argument":              fmt.Sprintf("apiVersion: v1\nkind: Pod\nspec: {containers: [{args: [%q]}]}", "--token="+canary),
		"argument that follows": fmt.Sprintf("apiVersion: v1\nkind: Pod\nspec: {containers: [{args: [--api-key, %q]}]}", canary),
	} {
		var m Mask
		m.AddManifest(manifest)
		for _, input := range []string{canary, "x" + canary + "y", encoded, fmt.Sprintf("%q", canary), fmt.Sprintf("%#v", []byte(canary)),
			strings.TrimRight(encoded, "="), base64.StdEncoding.EncodeToString([]byte(canary + "\n")), "p=s3cr3t+%22p%2Fw%22%2B%C3%A4"} {
			if got := m.Text(input); got == input || strings.Contains(got, "s3cr3t") || strings.Contains(got, encoded) {
				t.Errorf("%s: %q becomes %q", name, input, got)
			}
		}
	}
	var m Mask
	m.AddManifest("apiVersion: v1\nkind: Secret\nstringData: {url: 'postgres://me:hunter22@db/x', env: \"A=b\\nAPI_KEY='k3yk3y'\\n\", n: 123456789}")
	if got := m.Text("me hunter22 k3yk3y 123456789"); got != "me (hidden) (hidden) (hidden)" {
		t.Errorf("values inside other values: %q", got)
	}
}

// TestPartsAreHidden (S14): what a secret value encodes or contains is secret, too, whatever it is called; so are fields that
// are named like credentials in files and variables of other kinds.
func TestPartsAreHidden(t *testing.T) {
	const password = "pa55-Word-x1"
	base := base64.StdEncoding.EncodeToString
	auth := base([]byte("bob:" + password))
	secret := func(value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\ndata: {a: %s}", base([]byte(value)))
	}
	for name, manifest := range map[string]string{
		"base64 of base64":    secret(base([]byte(password))),
		"user and password":   secret("bob:" + password),
		"registry":            secret(fmt.Sprintf(`{"auths":{"r.io":{"auth":%q}}}`, auth)),
		"field of JSON":       secret(fmt.Sprintf(`{"a":{"b":[%q]}}`, password)),
		"field of YAML":       secret("a:\n  b: " + password + "\n"),
		"properties":          fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\ndata: {f: %q}", "x=1\nspring.datasource.password = "+password+"\n"),
		"YAML in a ConfigMap": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\ndata: {f: %q}", "db:\n  password: "+password+"\n"),
		"JSON in a variable":  fmt.Sprintf("apiVersion: v1\nkind: Pod\nspec: {containers: [{env: [{name: CFG, value: %q}]}]}", `{"password":"`+password+`"}`),
	} {
		var m Mask
		m.AddManifest(manifest)
		if got := m.Text("login " + password + " failed"); got != "login (hidden) failed" {
			t.Errorf("%s: %q", name, got)
		}
	}
	var m Mask
	m.AddManifest(secret("db:\n  host: db-1.example.com:5432\n  pool: 20\n  mode: verify-full\n  dir: /var/lib/db1\n"))
	const text = "db-1.example.com:5432 refused verify-full for 20 in /var/lib/db1"
	if got := m.Text(text); got != text {
		t.Errorf("hides settings: %q", got)
	}
}

// TestWordsStayReadable: short values and names are not hidden, because other messages contain them.
func TestWordsStayReadable(t *testing.T) {
	var m Mask
	m.AddManifest("apiVersion: v1\nkind: Secret\nstringData: {a: 'true', port: '8080', db: postgres, host: example, what: password, none: null}\ntype: Opaque")
	m.AddNames("shop/db:postgres-main")
	const text = "StatefulSet/postgres-main: true on 8080, Opaque Secret of example.com has a password"
	if got := m.Text(text); got != text {
		t.Errorf("hides common words: %q", got)
	}
	if got := (*Mask)(nil).Text(text); got != text {
		t.Errorf("a nil mask: %q", got)
	}
}

// TestAPIServerQuotesAreRemoved: the API server quotes parts of requests in errors.
func TestAPIServerQuotesAreRemoved(t *testing.T) {
	var m Mask
	for in, want := range map[string]string{
		`illegal base64 data at input byte 4, error found in #10 byte of ...|":"s3cr3tval"}},"ki|..., bigger context ...|{"data":{"a":"s3cr3tval"|...`: "illegal base64 data at input byte 4, error found in #10 byte of the request",
		`.stringData: expected map, got &value.valueUnstructured{Value:map[string]interface {}{"a":map[string]interface {}{"b":"s3cr3tval"}}}`:         ".stringData: expected map, got another type",
		`.stringData.a: expected string, got &value.valueUnstructured{Value:s3cr3tval}`:                                                                ".stringData.a: expected string, got another type; quote numbers and booleans",
		`.stringData: expected map, got &{s3cr3tval}`: ".stringData: expected map, got another type",
	} {
		if got := m.Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestEventsKeepTheirNames(t *testing.T) {
	var m Mask
	m.AddManifest("apiVersion: v1\nkind: Secret\nstringData: {a: s3cr3tval}")
	in := event.Event{Group: "s3cr3tval", Object: &plan.Object{Name: "s3cr3tval"}, Message: "x s3cr3tval", Lines: []string{"s3cr3tval"},
		Cause: "y s3cr3tval", Evidence: []string{"z s3cr3tval"}}
	out := m.Event(in)
	if want := (event.Event{Group: in.Group, Object: in.Object, Message: "x (hidden)", Lines: []string{"(hidden)"},
		Cause: "y (hidden)", Evidence: []string{"z (hidden)"}}); !reflect.DeepEqual(out, want) {
		t.Errorf("event %+v, want %+v", out, want)
	}
	if in.Lines[0] != "s3cr3tval" {
		t.Error("the original event was changed")
	}
	details := func(text string) *event.Details {
		return &event.Details{Log: []string{text}, Conditions: []string{text}, Notes: []string{text},
			Pods: []event.FailingPod{{Name: "s3cr3tval", Why: text}}, Events: []event.ClusterEvent{{Object: "s3cr3tval", Reason: text, Message: text}}}
	}
	found := details("s3cr3tval")
	if out := m.Event(event.Event{Details: found}); !reflect.DeepEqual(out.Details, details("(hidden)")) || !reflect.DeepEqual(found, details("s3cr3tval")) {
		t.Errorf("details %+v, and before %+v", out.Details, found)
	}
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	var m Mask
	m.AddValues(map[string]any{"db": map[string]any{"password": "s3cr3tval", "host": "example"}})
	err := m.Error(fmt.Errorf("s3cr3tval of example: %w", fs.ErrNotExist))
	if err.Error() != "(hidden) of example: file does not exist" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %q, fs.ErrNotExist: %v", err, errors.Is(err, fs.ErrNotExist))
	}
	if m.Error(nil) != nil || m.Error(fs.ErrExist) != fs.ErrExist {
		t.Error("an error without secrets was changed")
	}
}

// TestObjectHidesFields: the result shows which values differ, but no value.
func TestObjectHidesFields(t *testing.T) {
	for _, c := range []struct{ name, before, after, wantBefore, wantAfter string }{
		{"Secret", "{apiVersion: v1, kind: Secret, type: x, data: {a: MQ==, b: Mg==, gone: Mw==}, immutable: true}",
			"{apiVersion: v1, kind: Secret, type: x, data: {a: MQ==, b: NQ==, new: Ng==}, immutable: true}",
			"{apiVersion: v1, kind: Secret, type: x, data: {a: (hidden), b: (hidden), gone: (hidden)}, immutable: true}",
			`{apiVersion: v1, kind: Secret, type: x, data: {a: (hidden), b: "(hidden, changed)", new: (hidden)}, immutable: true}`},
		{"texts", "{kind: ConfigMap, data: {a: 'user=x;password=hunter2aa', b: 'host=db password=hunter2bb', d: 'password=true'}, args: ['Server=h;Pwd=hunter2aa;x=y']}",
			"{kind: ConfigMap, data: {a: 'user=x;password=hunter2cc', b: 'host=db password=hunter2bb', c: \"user: x\\npassword: hunter2aa\\n\", d: 'password=true'}, args: ['Server=h;Pwd=hunter2cc;x=y']}",
			"{kind: ConfigMap, data: {a: 'user=x;password=(hidden)', b: 'host=db password=(hidden)', d: 'password=true'}, args: ['Server=h;Pwd=(hidden);x=y']}",
			"{kind: ConfigMap, data: {a: 'user=x;password=(hidden, changed)', b: 'host=db password=(hidden)', c: \"user: x\\npassword: (hidden)\\n\", d: 'password=true'}, args: ['Server=h;Pwd=(hidden, changed);x=y']}"},
		{"a list", "{}", "{apiVersion: v1, kind: SecretList, items: [{data: {a: MQ==}}, {apiVersion: v1, kind: Secret, stringData: {b: x}}]}", "{}",
			"{apiVersion: v1, kind: SecretList, items: [{apiVersion: v1, kind: Secret, data: {a: (hidden)}}, {apiVersion: v1, kind: Secret, stringData: {b: (hidden)}}]}"},
		{"wrong types", "{}", "{apiVersion: v1, kind: Secret, stringData: [x], data: y, immutable: z}", "{}",
			"{apiVersion: v1, kind: Secret, stringData: (hidden), data: (hidden), immutable: (hidden)}"},
		{"environment", "{kind: Pod, env: [{name: A, value: x}, {name: DB_PASSWORD, value: one}]}",
			"{kind: Pod, env: [{name: DB_PASSWORD, value: two}, {name: A, value: y}, {name: TOKEN, valueFrom: {secretKeyRef: {name: n, key: k}}}]}",
			"{kind: Pod, env: [{name: A, value: x}, {name: DB_PASSWORD, value: (hidden)}]}",
			`{kind: Pod, env: [{name: DB_PASSWORD, value: "(hidden, changed)"}, {name: A, value: y}, {name: TOKEN, valueFrom: {secretKeyRef: {name: n, key: k}}}]}`},
		{"arguments", "{kind: Pod, args: [--password=one, --x=1]}", "{kind: Pod, args: [--password=two, --x=1, --token, t, --secret-name, nn, PGPASSWORD=p]}",
			"{kind: Pod, args: [--password=(hidden), --x=1]}",
			`{kind: Pod, args: ["--password=(hidden, changed)", --x=1, --token, "(hidden, changed)", --secret-name, nn, "PGPASSWORD=(hidden, changed)"]}`},
		{"a text in which more changes", `{kind: ConfigMap, data: {a: "db.password=hunter2aa\nx=1\ny.password=hunter2bb", b: "x=1 password=hunter2aa"}}`,
			`{kind: ConfigMap, data: {a: "db.password=hunter2cc\nx=2\ny.password=hunter2bb\nz.password=hunter2dd", b: "x=2 password=hunter2cc"}}`,
			`{kind: ConfigMap, data: {a: "db.password=(hidden)\nx=1\ny.password=(hidden)", b: "x=1 password=(hidden)"}}`,
			`{kind: ConfigMap, data: {a: "db.password=(hidden, changed)\nx=2\ny.password=(hidden)\nz.password=(hidden)", b: "x=2 password=(hidden, changed)"}}`},
		{"the arguments of a program in a list of its own", "{kind: Pod, command: [mysqladmin], args: [ping, -phunter2aa]}",
			"{kind: Pod, command: [mysqladmin], args: [ping, -uroot, -phunter2bb]}", "{kind: Pod, command: [mysqladmin], args: [ping, -p(hidden)]}",
			`{kind: Pod, command: [mysqladmin], args: [ping, -uroot, "-p(hidden, changed)"]}`},
		{"fields", "{kind: DB, spec: {adminPassword: one, gone: {token: t}}}", "{kind: DB, spec: {adminPassword: one, secretName: n, existingSecret: n, tokenFile: f, tls: {secret: {name: x}}}}",
			"{kind: DB, spec: {adminPassword: (hidden), gone: {token: (hidden)}}}", "{kind: DB, spec: {adminPassword: (hidden), secretName: n, existingSecret: n, tokenFile: f, tls: {secret: {name: x}}}}"},
		{"replaced by references", "{kind: Pod, env: [{name: DB_PASSWORD, value: one}], password: one, data: {token: t}}",
			"{kind: Pod, env: [{name: DB_PASSWORD, valueFrom: {secretKeyRef: {name: n, key: k}}}], password: {secretRef: n}, data: x}",
			"{kind: Pod, env: [{name: DB_PASSWORD, value: (hidden)}], password: (hidden), data: {token: (hidden)}}",
			"{kind: Pod, env: [{name: DB_PASSWORD, valueFrom: {secretKeyRef: {name: n, key: k}}}], password: {secretRef: n}, data: x}"},
		{"emptied Secret", "{apiVersion: v1, kind: Secret, data: {a: MQ==, b: Mg==}, stringData: {c: d}}", "{apiVersion: v1, kind: Secret, data: {a: null}, stringData: null}",
			"{apiVersion: v1, kind: Secret, data: {a: (hidden), b: (hidden)}, stringData: {c: (hidden)}}", "{apiVersion: v1, kind: Secret, data: {a: null}, stringData: null}"},
		{"kubectl's copy", "{}", "{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}}", "{}",
			"{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: (hidden)}}}"},
	} {
		before, after := parse(t, c.before), parse(t, c.after)
		Object(after, before)
		if want := parse(t, c.wantAfter); !reflect.DeepEqual(after, want) {
			t.Errorf("%s: %v, want %v", c.name, after, want)
		}
		if want := parse(t, c.wantBefore); !reflect.DeepEqual(before, want) {
			t.Errorf("%s: before %v, want %v", c.name, before, want)
		}
	}
	single := parse(t, "{kind: Pod, args: [--password=one]}")
	if Object(single, nil); !reflect.DeepEqual(single, parse(t, "{kind: Pod, args: [--password=(hidden)]}")) {
		t.Errorf("without a previous state: %v", single)
	}
}

// TestDiffSaysWhatChanges: a changed value that is hidden on both sides of a diff does not leave two equal lines.
func TestDiffSaysWhatChanges(t *testing.T) {
	m := &Mask{}
	m.AddSecrets("11112222", "33334444")
	const diff = " data:\n-  pin: 11112222\n-  old: 11112222\n+  pin: 33334444\n+  new: 33334444\n other: 11112222\n+  old: 33334444"
	const want = " data:\n-  pin: (hidden)\n-  old: (hidden)\n+  pin: (hidden, changed)\n+  new: (hidden)\n other: (hidden)\n+  old: (hidden)"
	if got := m.Diff(diff); got != want {
		t.Errorf("%s", got)
	}
	m.AddSecrets("one\ntwo three")
	if got := m.Diff("-a: one\ntwo three\n+a: 11112222"); strings.Contains(got, "two") {
		t.Errorf("%s", got)
	}
}

// TestReasonsAreMasked hides secrets in the reasons why groups wait, in a copy of the plan.
func TestReasonsAreMasked(t *testing.T) {
	var m Mask
	m.AddManifest("apiVersion: v1\nkind: Secret\nstringData: {host: hunter22}")
	g := &plan.Group{ID: "shop:web", Why: map[string]string{"shop:db": "web waits for db: it names hunter22"}}
	e := m.Event(event.Event{Phases: []event.Phase{{Groups: []*plan.Group{g}}}})
	if got := e.Phases[0].Groups[0].Why["shop:db"]; got != "web waits for db: it names (hidden)" {
		t.Errorf("reason %q", got)
	}
	if !strings.Contains(g.Why["shop:db"], "hunter22") {
		t.Error("the plan itself was changed")
	}
}

// TestSecretsAreHiddenWithinOtherTexts hides values inside longer texts: encoded together with the text
// around them, escaped twice, on one line, or truncated.
func TestSecretsAreHiddenWithinOtherTexts(t *testing.T) {
	const value, wide = "S3cret/vAlue+<1>\"x", "two  words\tand\x1b[31m  more"
	long := strings.Repeat("0123456789abcdefghij", 100)
	var m Mask
	m.AddManifest(fmt.Sprintf("apiVersion: v1\nkind: Secret\nstringData: {a: %q, b: %q, c: %q}", value, wide, long))
	inner, _ := json.Marshal(map[string]string{"x": value})
	outer, _ := json.Marshal(map[string]string{"y": string(inner)})
	texts := map[string]string{
		"JSON in JSON": string(outer), "one line": strings.Join(strings.Fields(text.Line("so "+wide+" it is")), " "),
		"a cut value": status.CleanText("before " + long + " after"),
		"a cut end":   status.CleanText("before " + long[:1500]),
	}
	for before := range 4 {
		for after := range 4 {
			raw := []byte(strings.Repeat("u", before) + value + strings.Repeat("v", after))
			texts[fmt.Sprintf("base64 %d %d", before, after)] = base64.StdEncoding.EncodeToString(raw)
			texts[fmt.Sprintf("base64 for URLs %d %d", before, after)] = base64.RawURLEncoding.EncodeToString(raw)
		}
	}
	for name, input := range texts {
		got := m.Text(input)
		for _, part := range []string{"S3cret", "c2VjcmV0", "vAlue", "words", "efghij", "56789a"} {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q becomes %q", name, input, got)
				break
			}
		}
		if strings.HasPrefix(name, "base64") && len(got) > 4+len(Hidden)+8 {
			t.Errorf("%s: too much of %q is left: %q", name, input, got)
		}
		if got == input {
			t.Errorf("%s: nothing is hidden in %q", name, input)
		}
	}
}

// TestPasswordsInURLsAreHidden hides passwords in URLs from any source.
func TestPasswordsInURLsAreHidden(t *testing.T) {
	var m Mask
	for in, want := range map[string]string{
		`Get "http://u:pw@h/x": refused`:                                                      `Get "http://u:(hidden)@h/x": refused`,
		"oci://u:p%40w@h:1/x, redis://:x@h":                                                   "oci://u:(hidden)@h:1/x, redis://:(hidden)@h",
		"http://h:80/a@b and mail me@x":                                                       "http://h:80/a@b and mail me@x",
		"https://u:p@ss@h/x and https://u:p/w#@h, 'amqp://u:1/w@h'":                           "https://u:(hidden)@h/x and https://u:(hidden)@h, 'amqp://u:1/w@h'",
		"oci://localhost:5000/repo@sha256:abc":                                                "oci://localhost:5000/repo@sha256:abc",
		"https://h/v.yaml?x=1&api_key=k3y: refused, https://h/c.tgz?X-Amz-Signature=0f3a&y=2": "https://h/v.yaml?x=1&api_key=(hidden): refused, https://h/c.tgz?X-Amz-Signature=(hidden)&y=2",
	} {
		if got := m.Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	m.AddManifest("apiVersion: v1\nkind: Pod\nspec: {containers: [{env: [{name: DSN, value: 'postgres://u:hunter%2322@h/db'}]}]}")
	m.AddValues(map[string]any{"db": map[string]any{"password": 73194628.0}})
	if got := m.Text("login hunter#22 hunter%2322 73194628"); got != "login (hidden) (hidden) (hidden)" {
		t.Errorf("passwords outside of their URLs: %q", got)
	}
}

// TestEnviron (S14): the credentials in an environment are secret, and nothing else in it.
func TestEnviron(t *testing.T) {
	var m Mask
	m.AddEnviron([]string{"DB_PASSWORD=Zq8secret=1", "URL=postgres://shop:Zq8inner@db-1/data", "PWD=/home/shop-user", "OLDPWD=/home/other-user", "SSH_ASKPASS=/usr/bin/ask-user", "MODE=production-like", "EMPTY"})
	const plain = "/home/shop-user /home/other-user /usr/bin/ask-user production-like EMPTY db-1"
	if got := m.Text("Zq8secret=1 Zq8inner " + plain); got != Hidden+" "+Hidden+" "+plain {
		t.Errorf("%s", got)
	}
}

// TestDeferred: a deferred mask finds its values when it first hides something, and once.
func TestDeferred(t *testing.T) {
	calls := 0
	m := Deferred(func(m *Mask) {
		calls++
		m.AddValues(map[string]any{"password": "hunter2-hunter2"})
	})
	m.AddNames("shop")
	if calls != 0 {
		t.Error("found before anything is hidden")
	}
	for range 2 {
		if got := m.Text("with hunter2-hunter2"); got != "with "+Hidden || calls != 1 {
			t.Errorf("%q after %d calls", got, calls)
		}
	}
}
