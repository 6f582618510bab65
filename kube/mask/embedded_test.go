package mask

import (
	"fmt"
	"strings"
	"testing"
)

// TestCredentialsInTexts (S14): what is named like a credential in a text of any object is hidden, whatever the format of the text.
func TestCredentialsInTexts(t *testing.T) {
	const password = "PwCanary1-xyz2"
	for name, text := range map[string]string{
		"header":                   "curl -H \"Authorization: Bearer %s\" http://h/",
		"basic header":             "Authorization: Basic %s",
		"header in a program":      `req.Header.Set("Authorization", "Bearer %s")`,
		"header in nginx":          "proxy_set_header X-Api-Key %s;",
		"flag":                     "psql --password %s -h db",
		"flag with one hyphen":     "db -password '%s'",
		"directive":                "port 6379\nrequirepass %s\n",
		"netrc":                    "machine h login u password %s",
		"element":                  "<settings>\n<password>%s</password>\n</settings>",
		"attributes":               `<add key="token" value="%s"/>`,
		"element with a name":      `<property name="db.password">%s</property>`,
		"elements":                 "<property>\n  <name>fs.secret.key</name>\n  <value>%s</value>\n</property>\n<x>password</x>",
		"JSON with a comment":      "{\n  // of the server\n  \"token\": \"%s\",\n}",
		"JSON with a comma":        `{"a": {"apiKey": "%s",},}`,
		"pair in JSON with commas": `[{"name": "DB_PASSWORD", "value": "%s",},]`,
		"JSON in a command":        `curl -d "{\"user\":\"x\",\"password\":\"%s\"}" http://h/`,
		"Python":                   `d = {"password": "%s"}`,
		"Python with types":        `TOKEN: str = "%s"`,
		"JavaScript":               "module.exports = {\n  user: 'x', password: '%s',\n}",
		"HCL":                      "db {\n  password = \"%s\"\n}",
		"colon among equals signs": "[auth]\nclient_id = x\nadmin_password: %s\n",
		"colon and padding":        "{{ if x }}\ntoken: %s==\n{{ end }}",
		"YAML with templates":      "{{ if x }}\npassword: \"%s\"\n{{ end }}",
	} {
		text = fmt.Sprintf(text, password)
		for kind, object := range map[string]map[string]any{
			"ConfigMap": {"kind": "ConfigMap", "data": map[string]any{"f": text}},
			"script":    {"kind": "Pod", "spec": map[string]any{"containers": []any{map[string]any{"args": []any{"sh", "-c", text}}}}},
			"Secret":    {"kind": "Secret", "stringData": map[string]any{"f": text}},
		} {
			var m Mask
			m.AddObject(object)
			if got := m.Text("login " + password + " failed"); got != "login (hidden) failed" {
				t.Errorf("%s in a %s: %q", name, kind, got)
			}
			if Object(object, nil); strings.Contains(fmt.Sprint(object), password) {
				t.Errorf("%s in a %s: %v", name, kind, object)
			}
		}
	}
}

// TestTextsStayReadable: sentences, references, variables and names in texts are no credentials.
func TestTextsStayReadable(t *testing.T) {
	for _, text := range []string{
		"The token Kubernetes issues, and the Secret ServiceAccount tokens need, is base64-encoded.",
		"a password base64-encoded as in RFC6750, the token RFC6750, the token v1beta1 or OAuth2",
		"kubectl get secret db-credentials-2 -o yaml\nkubectl create token deploy-bot-1\nkubectl create secret generic app-v2-tls",
		"unset DB_PASSWORD S3_BUCKET\nfor v in API_TOKEN DB_HOST; do echo $v; done",
		"psql --password \"$DB_PASSWORD\" -h db1\npsql --password \"$pw\" --password -h\nlogin --token /var/run/token\nrun --secret app-tls.json --auth SCRAM",
		"curl -H \"Authorization: Bearer $TOKEN\" -H \"Authorization: Bearer ${TOKEN1}\" http://host1/x",
		"Authorization: enabled\nAuthorization, OAuth2.1 and authorization.k8s.io/v1beta1: Authorization Server metadata",
		`<add key="host" value="Server-1a"/><password>${env.DB_PASSWORD}</password><input name="token" value="{{ .Token }}"/>`,
		"{\n  // secret\n  \"secretName\": \"external-tls2\",\n  \"tokenFile\": \"/x/token1\",\n}",
		"secret: process.env.DB1,\nif token == \"Undefined1\" {",
		"auth_basic \"Realm 1\";\nauth required pam_unix2.so\nSecret Store\nAccess Token",
	} {
		object := map[string]any{"kind": "ConfigMap", "data": map[string]any{"f": text}}
		var m Mask
		m.AddObject(object)
		if got := m.Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
		if Object(object, nil); object["data"].(map[string]any)["f"] != text {
			t.Errorf("%q becomes %v", text, object)
		}
	}
}
