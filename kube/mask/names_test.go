package mask

import (
	"encoding/base64"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// keycloakRelease has secret values that are names: a chart's, a subchart's, a Secret's, and a line of a file in it.
func keycloakRelease() *release.Release {
	sub := &chart.Chart{Metadata: &chart.Metadata{Name: "postgresql", Version: "2.0.0"}, Templates: []*common.File{
		{Name: "templates/_helpers.tpl", Data: []byte(`{{- define "keycloak.postgresql.fullname" -}}x{{- end -}}`)},
	}}
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "keycloak", Version: "1.0.0"}, Values: map[string]any{
		"postgresql": map[string]any{"password": "postgresql"}, "adminPassword": "keycloak",
	}}
	c.AddDependency(sub)
	return &release.Release{Name: "my-rocketchat", Namespace: "production", Chart: c, Manifest: `---
# Source: keycloak/templates/secret.yaml
apiVersion: v1
kind: Secret
metadata: {name: credentials}
stringData:
  user: rocketchat
  other: kubernetes-admin
  config: |
    webapp:
      listen: 0.0.0.0:8080
      secret: tr0ub4dor
    [section-one]
`}
}

// TestNamesStayReadable covers rule S14 the other way round: a secret value that is a name stays readable as one, and is
// hidden in the output of workloads.
func TestNamesStayReadable(t *testing.T) {
	var m Mask
	m.AddRelease(keycloakRelease())
	m.AddNames("Deployment/my-rocketchat-web", "shop/webapp:front-end")
	for _, text := range []string{
		`template: keycloak/charts/postgresql/templates/_helpers.tpl:52:59: executing "keycloak.postgresql.fullname" at <.Values.a.b>: nil pointer`,
		"chart keycloak: rendered no objects", "chart /charts/keycloak: Chart.yaml is missing", "release my-rocketchat in namespace production: not found",
		"Deployment/my-rocketchat-web: pod my-rocketchat-web-5d8f7-x2x9k is not ready", "webapp: waits for shop/webapp:front-end",
		"ConfigMap/x: the template keycloak.postgresql.fullname", "keycloak-1.0.0", "Secret/credentials has no key config", "section-one, [section-one]",
	} {
		if got := m.Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"my password is keycloak":                             "my password is (hidden)",
		"password=postgresql user=rocketchat":                 "password=(hidden) user=(hidden)",
		"pod my-rocketchat-web-1 on keycloak-0":               "pod my-rocketchat-web-1 on keycloak-0",
		"connecting as kubernetes-admin":                      "connecting as (hidden)",
		"secret: tr0ub4dor":                                   "(hidden)",
		base64.StdEncoding.EncodeToString([]byte("keycloak")): "(hidden)",
		"xkeycloaks": "x(hidden)s",
	} {
		if got := m.Output(text); got != want {
			t.Errorf("the log line %q becomes %q, want %q", text, got, want)
		}
	}
	if got := m.Text("user rocketchat, xkeycloaks, admin=kubernetes-admin"); got != "user (hidden), x(hidden)s, admin=(hidden)" {
		t.Errorf("values that are no names: %q", got)
	}
}

// TestNamesDoNotUncoverValues: a value that has a name in it, or that starts inside a name, is hidden.
func TestNamesDoNotUncoverValues(t *testing.T) {
	var m Mask
	m.AddNames("keycloak", "shop/webapp:main", "pass")
	m.AddSecrets("keycloak-s3cret", "webapp: hunter22", "ss-w0rd-99")
	for text, want := range map[string]string{
		"x keycloak-s3cret y": "x (hidden) y", "webapp: hunter22": "(hidden)", "pass-w0rd-99": "pa(hidden)", "keycloak": "keycloak",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestShortSecretsAreHidden: a short value is hidden as a word, unless it is a quantity, a version or a numbered word.
func TestShortSecretsAreHidden(t *testing.T) {
	var m Mask
	m.AddSecrets("k7xQ", "p4ss", "512Mi", "v1.2", "web-1", "8080", "10.5", "4x", "true", "/data", "db-9")
	const plain = "512Mi of v1.2 on web-1:8080, 10.5 4x true /data db-9 xk7xQ p4sss"
	if got := m.Text(plain); got != plain {
		t.Errorf("%q becomes %q", plain, got)
	}
	if got := m.Text(`as k7xQ:p4ss, azd4UQ==, 'azd4UQo=' or "a\np4ss\tk7xQ"`); strings.Count(got, Hidden) != 6 {
		t.Errorf("short values: %q", got)
	}
}

// TestRevisionsAreAddedOnce: adding a revision again leaves the prepared mask alone.
func TestRevisionsAreAddedOnce(t *testing.T) {
	var m Mask
	m.AddRelease(keycloakRelease())
	before := m.compile()
	m.AddRelease(keycloakRelease())
	if m.compile() != before {
		t.Error("the mask was prepared again")
	}
}

// TestSecretNamesStayReadable (S14): a value that is named like a credential may be the name of a Secret that pods need.
func TestSecretNamesStayReadable(t *testing.T) {
	for _, use := range []string{
		"volumes: [{secret: {secretName: external-tls}}]", "imagePullSecrets: [{name: external-tls}]", "volumes: [{projected: {sources: [{secret: {name: external-tls}}]}}]",
		"containers: [{env: [{name: A, valueFrom: {secretKeyRef: {name: external-tls, key: a}}}]}]", "containers: [{envFrom: [{secretRef: {name: external-tls}}]}]",
	} {
		var m Mask
		m.AddValues(map[string]any{"tls": map[string]any{"secret": "external-tls"}})
		m.AddManifest("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {" + use + "}")
		if got, want := m.Text(`secret "external-tls" not found`), `secret "external-tls" not found`; got != want {
			t.Errorf("%s: %s", use, got)
		}
	}
	var m Mask
	m.AddValues(map[string]any{"tls": map[string]any{"secret": "external-tls"}})
	if got := m.Text("got external-tls"); got != "got (hidden)" {
		t.Errorf("a value that no object names: %s", got)
	}
}

// TestNamesInPodsStayReadable (S14): messages name containers, volumes, keys and claims, whose names may be values of a Secret.
func TestNamesInPodsStayReadable(t *testing.T) {
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  serviceAccountName: deploy-bot
  initContainers: [{name: wait-for-db, image: x}]
  containers: [{name: postgres, image: "example.com/wordpress:6"}]
  volumes: [{name: data-volume, persistentVolumeClaim: {claimName: first-claim}}]
`
	const withKey = "apiVersion: v1\nkind: Pod\nmetadata: {name: api}\nspec: {containers: [{name: main, env: [{name: A, valueFrom: {secretKeyRef: {name: b, key: admin-user}}}]}]}\n"
	var m Mask
	m.AddSecrets("postgres", "wordpress", "wait-for-db", "data-volume", "first-claim", "deploy-bot", "admin-user")
	m.AddManifest(pod + "---\n" + withKey)
	const text = `container postgres cannot start; image wordpress:6 and example.com/wordpress:7; init container wait-for-db; volume data-volume of first-claim; serviceaccount "deploy-bot"; no key admin-user`
	if got := m.Text(text); got != text {
		t.Errorf("%q becomes %q", text, got)
	}
	if got := m.Output("user postgres"); got != "user "+Hidden {
		t.Errorf("the log of a workload: %q", got)
	}
}

// TestTemplatesThatAChartLacksStayReadable (S14): an error shows the template that a chart uses without its subchart, and the fields
// that it passes.
func TestTemplatesThatAChartLacksStayReadable(t *testing.T) {
	c := &chart.Chart{
		Metadata: &chart.Metadata{Name: "cloud", Version: "1.0.0"}, Values: map[string]any{"auth": map[string]any{"password": "postgres"}},
		Templates: []*common.File{{Name: "templates/a.yaml", Data: []byte("a: {{ include \"postgresql.v1.username\" .Subcharts.postgresql }} # .auth.postgres-elsewhere")}},
	}
	var m Mask
	m.AddRelease(&release.Release{Name: "r", Namespace: "n", Chart: c})
	const text = `executing "cloud/templates/a.yaml" at <include "postgresql.v1.username" .Subcharts.postgresql>: no template "postgresql.v1.username"`
	if got := m.Text(text); got != text {
		t.Errorf("got %s", got)
	}
	if got := m.Text("password: postgres"); strings.Contains(got, "postgres") {
		t.Errorf("the value is shown: %s", got)
	}
}
