package mask

import "testing"

// TestNamesOfCredentials (S14): whatever reads a name, of a variable, a field, an argument or a line of a text, knows the same names of
// credentials, and leaves their public neighbours readable.
func TestNamesOfCredentials(t *testing.T) {
	const value = "Zq8canary71x"
	readers := map[string]func(m *Mask, name string) (hidden bool){
		"variable": func(m *Mask, name string) bool {
			m.AddObject(map[string]any{"kind": "Deployment", "env": []any{map[string]any{"name": name, "value": value}}})
			return m.Text(value) == Hidden
		},
		"field": func(m *Mask, name string) bool {
			m.AddObject(map[string]any{"kind": "ConfigMap", "data": map[string]any{name: value}})
			return m.Text(value) == Hidden
		},
		"text": func(m *Mask, name string) bool {
			m.AddObject(map[string]any{"kind": "ConfigMap", "data": map[string]any{"file": "mode=x\n" + name + "=" + value + "\n"}})
			return m.Text(value) == Hidden
		},
		"environment": func(m *Mask, name string) bool {
			m.AddEnviron([]string{name + "=" + value})
			return m.Text(value) == Hidden
		},
		"argument": func(m *Mask, name string) bool { return m.Argument("set", name+"="+value) == name+"=…" },
	}
	for secret, names := range map[bool][]string{
		true: {
			"SECRET_KEY_BASE", "RAILS_MASTER_KEY", "APP_KEY", "appKey", "FERNET_KEY", "MEILI_MASTER_KEY", "JWT_KEY", "JWT_SIGNING_KEY", "HMAC_KEY", "LICENSE_KEY",
			"ERLANG_COOKIE", "rabbitmq_erlang_cookie", "DB_PW", "rootPw", "PW", "PASSWORD_SALT", "authSalt", "DB_PASSWORD_OLD", "SESSION_SECRET_V2", "token2", "PASSWORDS",
			"TOKENS", "API_KEYS", "SLACK_WEBHOOK_URL", "DJANGO_SECRET_KEY", "DB_PASS", "SMTP_PASSWORD", "AWS_SECRET_ACCESS_KEY", "GPG_PRIVATE_KEY", "passphrase", "Pwd",
		},
		false: {
			"secretName", "tokenFile", "keyName", "passwordKey", "existingSecret", "maxTokens", "MAX_OUTPUT_TOKENS", "publicKey", "oauth2", "sessionCookie", "cookieName",
			"PASSWORD_FILE", "partitionKey", "sortKey", "webhookUrl", "saltstack", "basalt", "secrets", "appName", "sparepw1x",
		},
	} {
		for _, name := range names {
			for reader, hides := range readers {
				if hides(&Mask{}, name) != secret {
					t.Errorf("%s as the name of a %s: secret is %v, want %v", name, reader, !secret, secret)
				}
			}
		}
	}
	for _, weak := range []string{"password1", "secret123", "mysecret"} { // is a value that is hidden, although it could be a name
		var m Mask
		m.AddObject(map[string]any{"kind": "ConfigMap", "data": map[string]any{"password": weak}})
		if got := m.Text("it is " + weak); got != "it is "+Hidden {
			t.Errorf("%s: %s", weak, got)
		}
	}
}
