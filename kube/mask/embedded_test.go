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
		"MySQL":                    "mysql -h db -uroot -p%s shop < /x.sql",
		"MySQL with a statement":   `mysqldump -e "select 1;" -p'%s' shop`,
		"MySQL in JSON":            `{"cmd": "mysqladmin ping -p\"%s\""}`,
		"MariaDB":                  "mariadb-admin -uroot -p%s ping",
		"Redis":                    "exec redis-cli -h cache -a %s ping | grep PONG",
		"MongoDB":                  "mongosh -u root -p %s --eval 1",
		"curl":                     "if ! curl -sf -u admin:%s http://h/; then exit 1; fi",
		"curl with quotes":         `curl http://h/?a=b --user "admin:%s"`,
		"etcd":                     "etcdctl --endpoints x --user root:%s get a",
		"Neo4j":                    "cypher-shell -u neo4j -p %s 'MATCH (n) RETURN n'",
		"RabbitMQ":                 "rabbitmqadmin -u admin -p %s list queues",
		"htpasswd":                 "htpasswd -bc /etc/users admin %s",
		"MinIO":                    "mc alias set store http://minio:9000 admin %s",
		"lines of a command":       "mysqldump --single-transaction \\\n  -h db \\\n  -u root -p%s \\\n  shop",
		"login":                    "helm registry login -u x -p %s host",
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
		"mysql -uroot -p -e 1\nmysql -uroot -p\"$PW\" -p${PW1} -p`cat /x/y1z2` -p{{ .Pw1 }}\nimage: mysql:8.0 -p3306\nrun my-mysql -p3306a",
		"redis-cli and its -a argument override it\nredis-cli -a \"$PW1\" ping; tool -a x1y2z3\nredis-cli -p 6379 -n db1",
		"curl -u \"$USER:$PASS\" -u admin:$pw -u ${U}:${P1} -o file1:x2y3z4 http://host1:8080/x\ncurl -T file1 | ssh -u x:y1z2a3",
		"docker run -p 8080:80 mongo1 -p 27017\nmongo is a database; mongod -p x1y2z3",
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
