package mask

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestShapesOfCredentials (S14): a credential is hidden in whatever shape its name and its value are written.
func TestShapesOfCredentials(t *testing.T) {
	const value = "Zq8canary71x"
	for _, text := range []string{
		"passwords: [%s, other]", "tokens:\n- %s", "apiKeys: [%s]", "auth: [%s]", "password: {value: %s, length: 12}", "credentials: {user: a, value: %s}",
		"secret: {data: {x: %s}}", "secrets: {db: %s}", "passwords: {admin: %s}", "passwords: {admin: {value: %s}}", "tokens: [{name: ci, value: %s}]",
		"parameters: [{key: adminPassword, value: %s}]", "parameters: [{name: password, values: [%s]}]", "parameters: [{Name: clientSecret, Value: %s}]",
		"parameters: [{name: secret, stringValue: %s}]", "parameters: [{key: adminPassword, val: %s}]", "headers: {Authorization: Basic %s}",
		"headers: {Proxy-Authorization: Basic %s}", "headers: {authorization: %s}", "httpHeaders: [{name: Authorization, value: Bearer %s}]", "args: [--from-literal=password=%s]",
		"script: kubectl create secret generic x --from-literal=password=%s", "authKey: %s", "sharedKey: %s", "storageKey: %s", "sshKey: %s", "passwordHash: %s",
		`config: '{"auth": {"tokens": ["%s"]}}'`, `config: "tokens = [\"%s\"]\n"`, "url: jdbc:oracle:thin:scott/%s@//h:1521/x", "config: |\n  passwords:\n  - %s\n",
		"headers: {Cookie: session=%s}", "cookie: lang=en; sid=%s", "headers: [{name: Set-Cookie, value: sid=%s; Path=/; HttpOnly}]", "headers: {set-cookie: a=Qx7other42y; b=%s}",
		"file: |\n  -----BEGIN PRIVATE KEY-----\n  %s\n  -----END PRIVATE KEY-----\n",
	} {
		object := parse(t, fmt.Sprintf("kind: Thing\nspec:\n  "+strings.ReplaceAll(text, "\n", "\n  "), value))
		var m Mask
		m.AddObject(object)
		if got := m.Text("got " + value); got != "got "+Hidden {
			t.Errorf("%s: a message shows it: %s", text, got)
		}
		if Object(object, nil); strings.Contains(fmt.Sprint(object), value) {
			t.Errorf("%s: a diff shows it: %v", text, object)
		}
	}
	if got := new(Mask).Argument("set", "headers.Authorization=Basic "+value); got != "headers.Authorization=…" {
		t.Errorf("--set of a header: %s", got)
	}
	for path, secret := range map[string]bool{
		"credentials.x": true, "credentials.value": true, "db.password.value": true, "passwords.admin": true, "secrets[0].data.x": true, "credentials.secretName": false, "password.length": false,
	} {
		if got := new(Mask).Argument("set", path+"="+value) == path+"=…"; got != secret {
			t.Errorf("--set %s: secret is %v", path, got)
		}
	}
}

// TestSettingsOfCredentialsStayReadable (S14): what only describes credentials, or says where they are, stays readable.
func TestSettingsOfCredentialsStayReadable(t *testing.T) {
	for _, text := range []string{
		"passwordHash: bcrypt", "passwordHash: argon2id", "passwordHash: pbkdf2-sha256", "tokens: 500000", "maxTokens: 500000", "secrets: [regcred]", "imagePullSecrets: [regcred-v2]",
		"secrets: [{name: default-token-7x8k2}]", "credentials: {secretName: shop-db-7x8k2}", "credentials: {name: shop-db-7x8k2, key: password1x}",
		"password: {secretKeyRef: {name: shop-db-7x8k2, key: admin1pass}}", "password: {valueFrom: {secretKeyRef: {name: shop-db-7x8k2, key: admin1pass}}}",
		"password: {length: 12, charset: a1b2c3}", "volumes: [{name: token, secret: {secretName: db-7x8k2, items: [{key: password, path: pw1x2y}]}}]",
		"serviceAccountToken: {path: token7x8, expirationSeconds: 3600}", "privateKey: {algorithm: RSA, encoding: PKCS8X1, size: 40960}",
		"auth: {enabled: true, type: basic, username: shop1user2, database: shop4db5x}", "auth: [basic, oidc]", "authorization: enabled", "authorization: {mode: Rbac1x2}",
		"secretKeys: {adminPasswordKey: postgres-password}", "tokens: {ttl: 10m30s, algorithm: HS256, issuer: shop1x2y}",
		"properties: {tokens: {type: array, description: Tokens1x of 2y, format: int64x}}", "sshKeys: [ssh-ed25519 AAAAC3NzaC1 me]",
		"matchExpressions: [{key: token, operator: In, values: [a1b2c3]}]", "headers: [{name: Authorization, value: Bearer $TOKEN}]", "headers: {Authorization: Bearer token}",
		"headers: {Authorization: Basic Authentication}", "bearerTokenSecret: {name: shop-7x8k2, key: token1x2}", "secret: {name: shop-7x8k2}", "configs: [{name: auth, data: {level: info1x2y}}]",
		"args: [--from-file=password=/run/pw1x2y.txt]", "script: kubectl create secret generic x --from-file=tm.password=$FOLDER/pw1x2y.txt",
		"cookie: enabled", "cookie: {name: session1x2y, path: /a1b2}", "cookieName: session1x2y", "cookieSecure: true", "cookie: session1x2y", "cookie: session; Path=/v1a2b3; Max-Age=36000",
		"headers: {Cookie: session=$SESSION, Set-Cookie: lang=en; Domain=a1b2c3}", "headers: [{name: Cookie, value: lang=de-de}]", "pat: docs/v1a2b3", "pin: 12", "otp: 26.2.5", "otp: enabled",
	} {
		document := "kind: Thing\nspec:\n  " + text
		object := parse(t, document)
		var m Mask
		m.add(credentials(object)) // without names, which stay readable anyway
		if got := m.Text(document); got != document {
			t.Errorf("a message hides a part: %s", got)
		}
		if Object(object, nil); !reflect.DeepEqual(object, parse(t, document)) {
			t.Errorf("%s: a diff hides a part: %v", text, object)
		}
	}
}

// TestObjectsAndMessagesHideTheSame (S14): what the diff of an object hides is hidden in messages, and the other way round, for any
// nesting of fields, lists and pairs.
func TestObjectsAndMessagesHideTheSame(t *testing.T) {
	fields := []string{"password", "passwords", "tokens", "credentials", "secret", "secrets", "auth", "Authorization", "apiKeys", "passwordHash", "sshKey", "value", "Value",
		"values", "data", "name", "key", "secretKeyRef", "valueFrom", "user", "path", "type", "operator", "spec", "config"}
	hidden := 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		var leaves []string
		var value func(depth int) any
		value = func(depth int) any {
			switch choice := random.IntN(6); {
			case depth > 0 && choice < 3:
				m := map[string]any{}
				for range 1 + random.IntN(3) {
					m[fields[random.IntN(len(fields))]] = value(depth - 1)
				}
				return m
			case depth > 0 && choice == 3:
				return []any{value(depth - 1), value(depth - 1)}
			case choice == 4:
				return fields[random.IntN(len(fields))] // perhaps the name of a pair
			}
			leaves = append(leaves, fmt.Sprintf("Zq%dcanary%dx", seed, len(leaves)))
			return leaves[len(leaves)-1]
		}
		object := map[string]any{"kind": "Thing", "spec": value(5)}
		var m Mask
		m.add(credentials(object))
		before := fmt.Sprint(object)
		Object(object, nil)
		for _, leaf := range leaves {
			if !strings.Contains(before, leaf) { // a field that was set twice
				continue
			}
			inMessage, inDiff := m.Text(leaf) != leaf, !strings.Contains(fmt.Sprint(object), leaf)
			if inMessage {
				hidden++
			}
			if inMessage != inDiff {
				t.Fatalf("seed %d: %s is hidden in messages: %v, in diffs: %v\n%s\n%v", seed, leaf, inMessage, inDiff, before, object)
			}
		}
	}
	if hidden < 3000 {
		t.Errorf("only %d values were hidden", hidden)
	}
}
