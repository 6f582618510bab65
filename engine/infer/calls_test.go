package infer

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// inferred returns the edges of manifests, without those of workloads to the Services that select
// their pods.
func inferred(t *testing.T, manifests string) []string {
	t.Helper()
	var edges []Edge
	for _, e := range From("shop", &plan.Chart{Path: "shop"}, objects(t, manifests)).Edges {
		if e.To.Kind != "Service" || e.Strength != Soft {
			edges = append(edges, e)
		}
	}
	return short(edges)
}

type table map[string]struct {
	manifests string
	want      []string
}

func (tests table) run(t *testing.T) {
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := inferred(t, tt.manifests)
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestCallsInText distinguishes calls of Services from words that only look like them (R62). The
// Services are db, shop-db and shop-db-replica (port 5432) in namespace ns, where the texts are, and
// far in namespace other.
func TestCallsInText(t *testing.T) {
	all := objects(t, object("v1", "Service", "db", "spec: {ports: [{port: 5432}]}")+object("v1", "Service", "shop-db", "spec: {ports: [{port: 5432}]}")+
		object("v1", "Service", "shop-db-replica", "spec: {ports: [{port: 5432}]}")+
		"\n---\napiVersion: v1\nkind: Service\nmetadata: {name: far, namespace: other}\nspec: {ports: [{port: 80}]}"+
		object("v1", "Service", "named", "")+object("v1", "Secret", "named", "")+
		object("v1", "Service", "peers", "spec: {clusterIP: None, selector: {app: kv}}")+pod("StatefulSet", "kv", "{}"))
	r := newReader(all)
	tests := []struct {
		text, key string
		env       bool
		want      string
	}{
		{"db", "DATABASE_HOST", true, "db"},
		{"db", "DATABASE_HOST_0", true, "db"},
		{"postgresql://db:pw@elsewhere:5432/db", "DATABASE_URL", true, ""},
		{"postgresql://elsewhere:db@db/x", "DATABASE_URL", true, "db"},
		{"mongodb://db@elsewhere,db:5432/x", "MONGO_URL", true, "db"},
		{"url: amqp://db:${PASSWORD}@elsewhere\n", "", false, ""},
		{"s3://db/x", "STORAGE_URL", true, ""},
		{"db", "databaseHost", true, "db"},
		{"db", "--db-host", false, "db"},
		{"--db-host=db", "", false, "db"},
		{"db,shop-db", "HOSTS", true, "db shop-db"},
		{"http://db/", "X", true, "db"},
		{"postgres://u:p@db/app", "X", true, "db"},
		{"u:p@tcp(db:5432)/app", "X", true, "db"},
		{"db:5432", "X", true, "db"},
		{"db:$(PORT)", "X", true, "db"},
		{"db.ns", "X", true, "db"},
		{"db.ns.svc", "X", true, "db"},
		{"db.ns.svc.cluster.local:5432", "X", true, "db"},
		{"db.$(NAMESPACE).svc", "X", true, "db"},
		{"until nc -z db 5432; do sleep 1; done", "", false, "db"},
		{"until nslookup db; do sleep 1; done", "", false, "db"},
		{"pg_isready -h db -U app", "", false, "db"},
		{"kv-0.peers:80", "X", true, "peers"},
		{"kv-0.peers.ns.svc.cluster.local", "X", true, "peers"},
		{"host=db port=5432", "DSN", true, "db"},
		{"server:\n  host: db\n  port: 5432", "", false, "db"},
		{`{"redis": {"host": "db", "port": 1}}`, "", false, "db"},
		{"shop-db", "BACKING", true, "shop-db"},
		{"far.other", "X", true, "far"},
		{"far.other.svc", "X", true, "far"},

		{"db", "ENGINE", true, ""},
		{"db", "DB_NAME", true, ""},
		{"--engine=db", "", false, ""},
		{"shop-db", "CLUSTER_NAME", true, ""},
		{"shop-db", "SECRET_NAME", true, ""},
		{"named", "X", true, ""},
		{"mydb:5432 db-2:5432 db_x:5432", "X", true, ""},
		{"shop-db-replica:5432", "X", true, "shop-db-replica"},
		{"db:9999", "X", true, ""},
		{"registry.example/db:5432.1", "X", true, ""},
		{"db.conf", "X", true, ""},
		{"db.elsewhere.svc", "X", true, ""},
		{"db.ns.example.com", "X", true, ""},
		{"far", "HOST", true, ""},
		{"far:80", "X", true, ""},
		{"# db:5432 is the default", "", false, ""},
		{"port: 1 # http://db:5432", "", false, ""},
		{"// upstream = db", "", false, ""},
		{"  ; upstream = db", "", false, ""},
		{"-- see http://db:5432", "", false, ""},
		{"/* upstream = db */", "", false, ""},
		{"<!-- http://db:5432 -->", "", false, ""},
		{"http://db:5432", "CORS_ORIGIN", true, ""},
		{"http://db:5432,http://elsewhere", "CSRF_TRUSTED_ORIGINS", true, ""},
		{"http://db:5432/done", "OAUTH_REDIRECT_URL", true, ""},
		{"http://db:5432", "APP_PUBLIC_URL", true, ""},
		{"http://db:5432", "EXTERNAL_URL", true, ""},
		{"http://db:5432", "NEXT_PUBLIC_API_URL", true, "db"},
		{"postgres://db:5432/x", "EXTERNAL_DB_URL", true, "db"},
		{"allowedOrigins: [http://db:5432]", "", false, ""},
		{"exec app --upstream=http://db:5432", "", false, "db"},
		{"the db is here", "", false, ""},
		{"db,localhost", "NO_PROXY", true, ""},
		{"db", "ALLOWED_HOSTS", true, ""},
		{"x-0.peers", "X", true, ""},
		{"", "HOST", true, ""},
		{"ns/db", "--backend-service", false, "db"},
		{"--backend-service=$(NAMESPACE)/db", "", false, "db"},
		{"hosts:\n  - other\n  - db\n", "", false, "db"},
		{"names:\n  - other\n  - db\n", "", false, ""},
		{"  {\n  \"hosts\": [\n    \"db\"\n  ]", "", false, "db"},
		{"x = {\n  \"host\": env(\"DB_HOST\", \"db\"),\n}", "", false, "db"},
		{"x = {\n  \"name\": env(\"DB_NAME\", \"db\"),\n}", "", false, ""},
		{"static_configs:\n- targets:\n  - db:5432\n", "", false, ""},
		{"db,db.ns,db.ns.svc", "--dns-names", false, ""},
		{"{\"tlsHosts\": [\n \"db\",\n \"db.ns\",\n \"db.ns.svc\"\n]", "", false, ""},
		{"[\n \"db.ns\",\n \"db.ns.svc\"\n]", "", false, ""},
		{"db.ns.svc:5432,db.ns:5432", "X", true, "db db"},
		{"kv-0.peers.ns.svc,kv-1.peers.ns.svc", "X", true, "peers peers"},
		{"db.ns.svc", "dnsNames", false, ""},
		{"--db=db:5432", "", false, "db"},
		{"tcp(db:5432)", "X", true, "db"},
		{"<zookeeper><host>db</host></zookeeper>", "", false, "db"},
		{"<name>db</name>", "", false, ""},
		{"db", "DB_MANAGER_SERVICE_IP", true, "db"},
		{"--store=dnssrv+_grpc._tcp.db.ns.svc.cluster.local", "", false, "db"},
		{"until nc -vz \"db\" 5432", "", false, "db"},
		{"until curl db", "", false, "db"},
		{"labels:\n  service: db\n", "", false, ""},
		{"--shop-db=shop-db:9999", "", false, "shop-db"},
		{"--store=shop-db:9999", "", false, ""},
		{"u:p@tcp(db:9999)/x", "X", true, "db"},
		{"tcp(db)/x", "X", true, "db"},
		{"<a>\n <node>\n  <host>db</host>\n  <name>db</name>\n </node>\n</a>", "", false, "db"},
		{"<host index=\"1\">db</host>", "", false, "db"},
		{"db", "DB_MANAGER_SERVICE_IP", true, "db"},
		{"dnssrv+_grpc._tcp.db.ns.svc.cluster.local", "X", true, "db"},
		{"peers:9999", "X", true, "peers"},
		{"alerts:\n- labels:\n    service: db\n  host: db", "", false, "db"},
		{"groups:\n- rules:\n  - alert: Down\n    expr: up{host=\"db\"} == 0\n    url: http://db/\n", "", false, ""},
	}
	for _, tt := range tests {
		var got []string
		for _, m := range r.mentions(tt.text, "ns", tt.key, tt.env) {
			got = append(got, m.service.name().Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s=%q calls %q, want %q", tt.key, tt.text, got, tt.want)
		}
	}
}

// TestCalls finds calls in all fields that a pod reads (R62).
func TestCalls(t *testing.T) {
	db := serviceOf("db") + pod("Deployment", "db", "{}")
	const wants = "Deployment/web > Deployment/db serving"
	secret := base64.StdEncoding.EncodeToString([]byte("http://u:p@db/"))
	table{
		"env":                         {db + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: db}]}]}"), []string{wants}},
		"args":                        {db + pod("Deployment", "web", "{containers: [{args: [--host, db]}]}"), []string{wants}},
		"command":                     {db + pod("Deployment", "web", "{initContainers: [{command: [sh, -c, 'until nc -z db 80; do sleep 1; done']}]}"), []string{wants}},
		"an entry":                    {db + pod("Deployment", "web", "{containers: [{env: [{name: HOST, valueFrom: {configMapKeyRef: {name: c, key: a}}}]}]}") + object("v1", "ConfigMap", "c", "data: {a: db, b: db2}"), []string{"Deployment/web > ConfigMap/c hard", wants}},
		"another entry":               {db + pod("Deployment", "web", "{containers: [{env: [{name: HOST, valueFrom: {configMapKeyRef: {name: c, key: b}}}]}]}") + object("v1", "ConfigMap", "c", "data: {host: db, b: x}"), []string{"Deployment/web > ConfigMap/c hard"}},
		"all entries":                 {db + pod("Deployment", "web", "{containers: [{envFrom: [{configMapRef: {name: c, optional: true}}]}]}") + object("v1", "ConfigMap", "c", "data: {HOST: db}"), []string{wants}},
		"a file":                      {db + pod("Deployment", "web", "{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, configMap: {name: c}}]}") + object("v1", "ConfigMap", "c", "data: {a.yaml: \"x: y\\nhost: db\\n\"}"), []string{"Deployment/web > ConfigMap/c hard", wants}},
		"a Secret":                    {db + pod("Deployment", "web", "{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, secret: {secretName: s}}]}") + object("v1", "Secret", "s", "data: {url: "+secret+"}"), []string{"Deployment/web > Secret/s hard", wants}},
		"a file of both":              {serviceOf("db") + pod("Deployment", "db", "{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, configMap: {name: c, optional: true}}]}") + pod("Deployment", "web", "{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, configMap: {name: c, optional: true}}]}") + object("v1", "ConfigMap", "c", "data: {a.yaml: \"x: y\\nhost: db\\n\"}"), nil},
		"a variable of others":        {db + pod("Deployment", "web", "{containers: [{env: [{name: AT, value: db}, {name: URL, value: 'http://$(AT):4318'}]}]}"), []string{wants}},
		"a variable of a ConfigMap":   {db + pod("Deployment", "web", "{containers: [{args: ['--url=http://$(AT)/'], env: [{name: AT, valueFrom: {configMapKeyRef: {name: c, key: a, optional: true}}}]}]}") + object("v1", "ConfigMap", "c", "data: {a: db}"), []string{wants}},
		"envFrom a Secret of several": {db + pod("Deployment", "web", "{containers: [{envFrom: [{secretRef: {name: s, optional: true}}]}]}") + object("v1", "Secret", "s", "stringData: {A: 'http://db/', B: x}"), []string{"Deployment/web > Deployment/db soft"}},
		"envFrom, shared ConfigMap": {serviceOf("api") + pod("Deployment", "api", "{containers: [{envFrom: [{configMapRef: {name: c, optional: true}}]}]}") + pod("Deployment", "web", "{containers: [{envFrom: [{configMapRef: {name: c, optional: true}}]}]}") +
			object("v1", "ConfigMap", "c", "data: {API_URL: 'http://api/', B: x}"), []string{"Deployment/web > Deployment/api soft"}},
		"envFrom a Secret of one": {db + pod("Deployment", "web", "{containers: [{envFrom: [{secretRef: {name: s, optional: true}}]}]}") + object("v1", "Secret", "s", "stringData: {A: 'http://db/'}"), []string{wants}},
		"a hook's ConfigMap":      {db + pod("Deployment", "web", "{containers: [{envFrom: [{configMapRef: {name: c}}]}]}") + object("v1", "ConfigMap", "c", "hook: true\ndata: {HOST: db}"), []string{wants}},
		"a file of others":        {db + pod("Deployment", "web", "{}") + object("v1", "ConfigMap", "c", "data: {HOST: db}"), nil},
		"itself":                  {serviceOf("web") + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: web}]}]}"), nil},
		"no replicas":             {db + "\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 0, template: {spec: {containers: [{env: [{name: HOST, value: db}]}]}}}", nil},
		"a Service without pods":  {serviceOf("db") + "\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db}\nspec: {replicas: 0, template: {metadata: {labels: {app: db}}, spec: {}}}" + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: db}]}]}"), nil},
		"no selector":             {object("v1", "Service", "db", "spec: {ports: [{port: 80}]}") + pod("Deployment", "db", "{}") + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: db}]}]}"), nil},
		"two workloads": {object("v1", "Service", "all", "spec: {selector: {tier: back}}") + "\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {tier: back}}, spec: {}}}" +
			"\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\nspec: {template: {metadata: {labels: {tier: back}}, spec: {}}}" + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: all}]}]}"),
			[]string{"Deployment/web > Deployment/a serving", "Deployment/web > Deployment/b serving"}},
		"only a Job":               {serviceOf("db") + pod("Job", "db", "{}") + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: db}]}]}"), nil},
		"ExternalName":             {db + object("v1", "Service", "alias", "spec: {type: ExternalName, externalName: db.ns.svc.cluster.local}") + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: alias}]}]}"), []string{wants}},
		"ExternalName of itself":   {object("v1", "Service", "alias", "spec: {type: ExternalName, externalName: alias.ns.svc}") + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: alias}]}]}"), nil},
		"publishNotReadyAddresses": {object("v1", "Service", "db", "spec: {publishNotReadyAddresses: true, selector: {app: db}}") + pod("StatefulSet", "db", "{}") + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: db}]}]}") + pod("Job", "init", "{containers: [{env: [{name: HOST, value: db}]}]}"), []string{"Deployment/web > StatefulSet/db soft"}},
		"generated name":           {db + "\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: once-, name: 'once-#2'}\nspec: {template: {spec: {containers: [{env: [{name: HOST, value: db}]}]}}}", []string{"Job/once-#2 > Deployment/db serving"}},
	}.run(t)
}

// TestCustomResources: custom resources of some kinds call Services, and callers of a Service that an
// operator creates wait for the custom resource (R62).
func TestCustomResources(t *testing.T) {
	api := serviceOf("api") + pod("Deployment", "api", "{}")
	web := pod("Deployment", "web", calls("made-store:9000"))
	table{
		"a route":                              {api + object("gateway.networking.k8s.io/v1", "HTTPRoute", "x", "spec: {rules: [{backendRefs: [{name: api, port: 80, url: 'http://api'}]}]}"), []string{"HTTPRoute/x > Deployment/api serving"}},
		"settings":                             {api + object("dapr.io/v1alpha1", "Configuration", "x", "spec: {mtls: {address: 'api:80'}}"), nil},
		"rules":                                {api + object("monitoring.coreos.com/v1", "PrometheusRule", "x", "spec: {groups: [{url: 'http://api'}]}"), nil},
		"with containers":                      {api + object("x.io/v1", "Rollout", "x", "spec: {template: {spec: {containers: [{env: [{name: API, value: 'http://api'}]}]}}}"), []string{"Rollout/x > Deployment/api serving"}},
		"a Service name from serviceTemplates": {web + object("clickhouse.altinity.com/v1", "ClickHouseInstallation", "x", "spec: {templates: {serviceTemplates: [{generateName: made-store}]}}"), []string{"Deployment/web > ClickHouseInstallation/x serving"}},
		"a Service name that the operator derives": {pod("Deployment", "web", calls("pg-rw:5432")) + object("postgresql.cnpg.io/v1", "Cluster", "pg", "spec: {}"), []string{"Deployment/web > Cluster/pg serving"}},
		"a Service that the release contains": {web + serviceOf("made-store") + pod("Deployment", "made-store", "{}") + object("clickhouse.altinity.com/v1", "ClickHouseInstallation", "x", "spec: {templates: {serviceTemplates: [{generateName: made-store}]}}"),
			[]string{"Deployment/web > Deployment/made-store serving"}},
	}.run(t)
}

// TestReasons: the reason of an edge has the field and its value, but never a secret (R60).
func TestReasons(t *testing.T) {
	o := From("shop", nil, objects(t, serviceOf("db")+pod("Deployment", "db", "{}")+pod("Deployment", "web", "{containers: [{args: ['--url=http://u:hunter2@db:80/x'], env: [{name: DATABASE_HOST, value: 'http://u:hunter2@db/'}]}]}")))
	for _, e := range o.Edges {
		if e.Strength != Serving {
			continue
		}
		got := e.String() + "; " + e.Reason.Path + ": " + e.Reason.Value
		if got != "Deployment/web waits for Deployment/db: argument --url names Service/db; spec.template.spec.containers[0].args[0]: db" {
			t.Error(got)
		}
	}
}

// TestRequests: an Ingress, an API and the objects that a webhook checks wait for the workloads that
// answer the requests (R62).
func TestRequests(t *testing.T) {
	hook := serviceOf("hook") + pod("Deployment", "hook", "{}")
	configuration := func(kind, more string) string {
		return object("admissionregistration.k8s.io/v1", kind, "w", "webhooks: [{name: w.x, clientConfig: {service: {name: hook, namespace: ns}}, rules: [{operations: [CREATE], apiGroups: [q], resources: [topics]}], "+more+"}]")
	}
	const validating, mutating = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
	named := []string{validating + "/w > Deployment/hook serving", validating + "/w > Service/hook hard"}
	topic := object("q/v1", "Topic", "t", "spec: {}")
	looked := append([]string{"Topic/t > Deployment/hook serving", "Topic/t > " + validating + "/w soft"}, named...)
	table{
		"Ingress": {hook + object("networking.k8s.io/v1", "Ingress", "i", "spec: {defaultBackend: {service: {name: hook}}}"), []string{"Ingress/i > Deployment/hook serving", "Ingress/i > Service/hook hard"}},
		"API": {hook + object("apiregistration.k8s.io/v1", "APIService", "v1.q", "spec: {group: q, version: v1, service: {name: hook, namespace: ns}}") + topic,
			[]string{"APIService/v1.q > Deployment/hook serving", "APIService/v1.q > Service/hook hard", "Topic/t > APIService/v1.q serving"}},
		"webhook":               {hook + configuration(validating, "failurePolicy: Fail") + topic, looked},
		"webhook by default":    {hook + configuration(validating, "sideEffects: None") + topic, looked},
		"webhook that may fail": {hook + configuration(validating, "failurePolicy: Ignore") + topic, []string{validating + "/w > Deployment/hook soft", validating + "/w > Service/hook hard"}},
		"webhook that may fail and changes": {hook + configuration(mutating, "failurePolicy: Ignore") + topic,
			[]string{mutating + "/w > Deployment/hook soft", mutating + "/w > Service/hook hard", "Topic/t > Deployment/hook soft", "Topic/t > " + mutating + "/w soft"}},
		"webhook of other namespaces": {hook + configuration(validating, "namespaceSelector: {matchLabels: {hooked: 'yes'}}") + topic, named},
		"webhook of this namespace":   {hook + configuration(validating, "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}") + topic, looked},
		"webhook of other objects":    {hook + configuration(validating, "objectSelector: {matchLabels: {hooked: 'yes'}}") + topic, named},
		"webhook of its own pods": {hook + object("admissionregistration.k8s.io/v1", validating, "w", "webhooks: [{clientConfig: {service: {name: hook, namespace: ns}}, rules: [{operations: ['*'], apiGroups: [''], resources: [pods, configmaps]}]}]") +
			pod("Deployment", "web", "{}"), append([]string{"Deployment/web > Deployment/hook serving"}, named...)},
		"webhook for all objects": {hook + object("admissionregistration.k8s.io/v1", validating, "w", "webhooks: [{clientConfig: {service: {name: hook, namespace: ns}}, rules: [{operations: ['*'], apiGroups: ['*'], resources: ['*']}]}]") + pod("Deployment", "web", "{}"), named},
		"webhook that its own server configures": {serviceOf("hook") + pod("Deployment", "hook", "{serviceAccountName: sa}") + configuration(validating, "failurePolicy: Fail") +
			object("rbac.authorization.k8s.io/v1", "ClusterRole", "r", "rules: [{apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [patch]}]") +
			object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "b", "roleRef: {kind: ClusterRole, name: r}\nsubjects: [{kind: ServiceAccount, name: sa, namespace: ns}]"),
			[]string{"ClusterRoleBinding/b > ClusterRole/r hard", "Deployment/hook > ClusterRoleBinding/b hard", validating + "/w > Service/hook hard"}},
		"conversion": {hook + object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "topics.q", "spec: {group: q, names: {kind: Topic, plural: topics}, conversion: {webhook: {clientConfig: {service: {name: hook, namespace: ns}}}}}") + topic,
			[]string{"Topic/t > CustomResourceDefinition/topics.q hard", "Topic/t > Deployment/hook serving"}},
	}.run(t)
}

// TestOperators: a workload that may write the status of custom resources is their operator (R62).
// Their CRDs come before it (R63).
func TestOperators(t *testing.T) {
	permissions := func(kind, rules string) string {
		return pod("Deployment", "op", "{serviceAccountName: sa}") + object("rbac.authorization.k8s.io/v1", "Cluster"+"Role", "r", "rules: "+rules) +
			object("rbac.authorization.k8s.io/v1", kind, "b", "roleRef: {kind: ClusterRole, name: r}\nsubjects: [{kind: ServiceAccount, name: sa, namespace: ns}]")
	}
	with := func(kind string, more ...string) []string {
		return append([]string{}, append(more, kind+"/b > ClusterRole/r hard", "Deployment/op > "+kind+"/b hard")...)
	}
	topic := object("q.x/v1", "Topic", "t", "spec: {}")
	table{
		"status":                   {permissions("ClusterRoleBinding", "[{apiGroups: [q.x], resources: [topics, topics/status], verbs: [get, update]}]") + topic, with("ClusterRoleBinding", "Topic/t > Deployment/op serving")},
		"all resources of a group": {permissions("ClusterRoleBinding", "[{apiGroups: [q.x], resources: ['*'], verbs: ['*']}]") + topic, with("ClusterRoleBinding", "Topic/t > Deployment/op serving")},
		"another group":            {permissions("ClusterRoleBinding", "[{apiGroups: [p.x], resources: ['*'], verbs: ['*']}]") + topic, with("ClusterRoleBinding")},
		"an administrator":         {permissions("ClusterRoleBinding", "[{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]") + topic, with("ClusterRoleBinding")},
		"a reader":                 {permissions("ClusterRoleBinding", "[{apiGroups: [q.x], resources: [topics/status], verbs: [get, list]}]") + topic, with("ClusterRoleBinding")},
		"of a namespace":           {permissions("RoleBinding", "[{apiGroups: [q.x], resources: [topics/status], verbs: [patch]}]") + topic, with("RoleBinding", "Topic/t > Deployment/op serving")},
		"of another namespace":     {permissions("RoleBinding", "[{apiGroups: [q.x], resources: [topics/status], verbs: [patch]}]") + "\n---\napiVersion: q.x/v1\nkind: Topic\nmetadata: {name: t, namespace: other}", with("RoleBinding")},
		"its configuration":        {strings.Replace(permissions("ClusterRoleBinding", "[{apiGroups: [q.x], resources: ['*'], verbs: ['*']}]"), "serviceAccountName", "containers: [{env: [{name: TOPIC, value: t}]}], serviceAccountName", 1) + topic, with("ClusterRoleBinding", "Deployment/op > Topic/t hard")},
		"definitions": {permissions("ClusterRoleBinding", "[{apiGroups: [q.x], resources: [topics], verbs: [get]}]") + object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "topics.q.x", "spec: {group: q.x, names: {kind: Topic, plural: topics}}"),
			with("ClusterRoleBinding", "Deployment/op > CustomResourceDefinition/topics.q.x soft")},
		"an aggregating role": {permissions("ClusterRoleBinding", "[]\naggregationRule: {clusterRoleSelectors: [{matchLabels: {for: op}}]}") + topic +
			object("rbac.authorization.k8s.io/v1", "ClusterRole", "part, labels: {for: op}", "rules: [{apiGroups: [q.x], resources: ['*'], verbs: ['*']}]"), with("ClusterRoleBinding", "Topic/t > Deployment/op serving")},
		"roles that it does not select": {permissions("ClusterRoleBinding", "[]\naggregationRule: {clusterRoleSelectors: [{matchLabels: {for: op}}]}") + topic +
			object("rbac.authorization.k8s.io/v1", "ClusterRole", "part, labels: {for: others}", "rules: [{apiGroups: [q.x], resources: ['*'], verbs: ['*']}]"), with("ClusterRoleBinding")},
	}.run(t)
}

// TestSoftEdges finds soft edges, and the edges of commands that wait (R63, R62).
func TestSoftEdges(t *testing.T) {
	table{
		"wait for a Job":      {pod("Deployment", "web", "{initContainers: [{name: w, command: [kubectl, wait, --for=condition=complete, job/migrate]}]}") + pod("Job", "migrate", "{}"), []string{"Deployment/web > Job/migrate serving"}},
		"wait-for image":      {pod("Deployment", "web", "{initContainers: [{name: w, image: example/k8s-wait-for, args: [job-wr, migrate]}]}") + pod("Job", "migrate", "{}"), []string{"Deployment/web > Job/migrate serving"}},
		"rollout":             {pod("Job", "j", "{containers: [{args: [rollout status deployment/web]}]}") + pod("Deployment", "web", "{}"), []string{"Job/j > Deployment/web serving"}},
		"a word of a command": {pod("Deployment", "web", "{initContainers: [{command: [echo, job, migrate]}]}") + pod("Job", "migrate", "{}"), nil},
		"migration": {serviceOf("db") + pod("StatefulSet", "db", "{}") + pod("Job", "migrate", "{containers: [{env: [{name: DB_HOST, value: db}]}]}") + pod("Deployment", "web", "{containers: [{env: [{name: DATABASE_HOST, value: db}]}]}"),
			[]string{"Deployment/web > Job/migrate soft", "Deployment/web > StatefulSet/db serving", "Job/migrate > StatefulSet/db serving"}},
		"migration of an external database": {pod("Job", "migrate", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}") + pod("Deployment", "web", "{containers: [{env: [{name: DATABASE_HOST, value: db.example.com}]}]}") +
			pod("Deployment", "other", "{containers: [{env: [{name: DATABASE_HOST, value: db2.example.com}]}]}"), []string{"Deployment/web > Job/migrate soft"}},
		"a host that is no database": {serviceOf("api") + pod("Deployment", "api", "{}") + pod("Job", "j", "{containers: [{env: [{name: HOST, value: api}]}]}") + pod("Deployment", "web", "{containers: [{env: [{name: HOST, value: api}]}]}"),
			[]string{"Deployment/web > Deployment/api serving"}},
		"the user of a URL": {serviceOf("web") + pod("Deployment", "web", "{containers: [{env: [{name: DATABASE_URL, value: 'postgresql://web:pw@db/web'}]}]}") + pod("Job", "migrate", "{containers: [{env: [{name: DATABASE_URL, value: 'postgresql://web:pw@db/web'}]}]}"),
			[]string{"Deployment/web > Job/migrate soft"}},
		"a Job that calls the workload": {serviceOf("db") + pod("StatefulSet", "db", "{}") + serviceOf("web") + pod("Job", "j", "{containers: [{env: [{name: DB_HOST, value: db}, {name: WEB_HOST, value: web}]}]}") + pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db}]}]}"),
			[]string{"Deployment/web > StatefulSet/db serving", "Job/j > StatefulSet/db serving"}},
		"the Secret of a database": {serviceOf("db") + pod("StatefulSet", "db", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}") + pod("Job", "j", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}") + object("v1", "Secret", "s", ""),
			[]string{"Job/j > Secret/s hard", "Job/j > StatefulSet/db soft", "StatefulSet/db > Secret/s hard"}},
		"the Secret of a database that waits": {serviceOf("db") + pod("StatefulSet", "db", "{initContainers: [{name: wait-for-bootstrap}], containers: [{envFrom: [{secretRef: {name: s}}]}]}") + pod("Job", "j", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}") + object("v1", "Secret", "s", ""),
			[]string{"Job/j > Secret/s hard", "StatefulSet/db > Secret/s hard"}},
		"a Secret of both": {serviceOf("app") + pod("StatefulSet", "app", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}") + pod("Job", "j", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}") + object("v1", "Secret", "s", ""),
			[]string{"Job/j > Secret/s hard", "StatefulSet/app > Secret/s hard"}}, // what both use orders neither
		"a certificate": {object("cert-manager.io/v1", "Certificate", "c", "spec: {secretName: tls}") + pod("Deployment", "web", "{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, secret: {secretName: tls}}]}"), []string{"Deployment/web > Certificate/c serving"}},
		"a certificate on a cycle of calls": {object("cert-manager.io/v1", "Certificate", "c", "spec: {secretName: tls}") + serviceOf("web") +
			pod("Deployment", "web", "{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, secret: {secretName: tls}}]}") +
			pod("Deployment", "op", "{serviceAccountName: sa, containers: [{env: [{name: API_URL, value: 'http://web'}]}]}") +
			object(rbac+"/v1", "Role", "r", "rules: [{apiGroups: [cert-manager.io], resources: ['*'], verbs: ['*']}]") +
			object(rbac+"/v1", "RoleBinding", "b", "roleRef: {kind: Role, name: r}\nsubjects: [{kind: ServiceAccount, name: sa, namespace: ns}]"),
			[]string{"Deployment/op > RoleBinding/b hard", "Deployment/web > Certificate/c serving", "RoleBinding/b > Role/r hard"}},
		"a policy": {object("networking.k8s.io/v1", "NetworkPolicy", "p", "spec: {podSelector: {matchLabels: {app: web}}}") + pod("Deployment", "web", "{}"), []string{"Deployment/web > NetworkPolicy/p soft"}},
	}.run(t)
}

// TestWaitLoops finds commands that wait in several notations. They prove the order (R62): the edge
// remains even if the other workload calls back.
func TestWaitLoops(t *testing.T) {
	back := serviceOf("web") + serviceOf("x") + pod("Deployment", "x", "{containers: [{env: [{name: WEB_HOST, value: web}]}]}")
	for _, c := range []string{
		`initContainers: [{name: i, command: [sh, -c, 'until nslookup x; do sleep 1; done']}]`,
		`initContainers: [{name: i, command: [sh, -c, 'until nc -vz "x" 80; do sleep 1; done']}]`,
		`initContainers: [{name: i, command: [sh, -c, 'until curl -sf x; do sleep 1; done']}]`,
		`initContainers: [{name: i, command: [sh, -c, "while ! wget -q -O- http://x/ready; do sleep 1; done"]}]`,
		`initContainers: [{name: i, command: [wait-for-it, "x:80", --, "true"]}]`,
		`initContainers: [{name: i, command: [dockerize, -wait, "tcp://x:80"]}]`,
		`initContainers: [{name: i, command: [pg_isready, -h, x]}]`,
		`initContainers: [{name: i, command: [mysqladmin, ping, --host=x]}]`,
		`initContainers: [{name: i, command: [bash, -c, 'while ! </dev/tcp/x/80; do sleep 1; done']}]`,
		`initContainers: [{name: i, command: [sh, -c, 'until nc -z $HOST 80; do sleep 1; done'], env: [{name: HOST, value: x}]}]`,
		`initContainers: [{name: i, command: [sh, -c, 'until getent hosts x.ns.svc.cluster.local; do sleep 1; done']}]`,
		`containers: [{name: i, command: [sh, -c, 'until redis-cli -h x ping; do sleep 1; done; exec web']}]`,
		`initContainers: [{name: wait-for-x}]`,
	} {
		// The last container is named after the workload, so no Service may have that name.
		of := back
		if strings.Contains(c, "wait-for-x}") {
			of = strings.ReplaceAll(back, "name: x}", "name: the-x}")
		}
		for _, kind := range []string{"Deployment", "Job"} {
			got := From("shop", nil, objects(t, of+pod(kind, "web", "{"+c+"}"))).Edges
			if !slices.ContainsFunc(got, func(e Edge) bool {
				return e.From.Name == "web" && strings.HasSuffix(e.To.Name, "x") && e.To.Kind == "Deployment" && e.Strength == Serving
			}) {
				t.Errorf("%s %s: %q", kind, c, short(got))
			}
			if slices.ContainsFunc(got, func(e Edge) bool {
				return strings.HasSuffix(e.From.Name, "x") && e.To.Name == "web" && e.To.Kind == kind
			}) {
				t.Errorf("%s %s: x waits as well: %q", kind, c, short(got))
			}
		}
	}
}

// TestDatabaseNames: workloads wait for the Job that prepares their database, whatever database it is and whichever
// variable names its hosts (R63).
func TestDatabaseNames(t *testing.T) {
	for _, name := range append([]string{"db", "cqlsh"}, databaseNames...) {
		key := strings.ToUpper(name)
		for _, variable := range []string{key + "_HOST: a.example.com", key + "_SERVERS: a.example.com", key + "_CONTACT_POINTS: 'b.example.com:1, a.example.com'", "URL: '" + name + "://u:p@a.example.com:1/x'"} {
			if strings.HasPrefix(variable, "URL") && !slices.Contains(databaseNames, name) {
				continue
			}
			key, value, _ := strings.Cut(variable, ": ")
			spec := "{containers: [{env: [{name: " + key + ", value: " + value + "}]}]}"
			other := "{containers: [{env: [{name: DATABASE_HOST, value: a.example.com}]}]}"
			if got := short(From("shop", nil, objects(t, pod("Job", "migrate", other)+pod("Deployment", "web", spec))).Edges); !slices.Equal(got, []string{"Deployment/web > Job/migrate soft"}) {
				t.Errorf("%s: %q", variable, got)
			}
		}
	}
}

// TestDoubt: reasons that do not prove the order of a Job and a workload, or that contradict each
// other, have no effect (R63, R66).
func TestDoubt(t *testing.T) {
	table{
		"a Job registers what waits for it": {serviceOf("broker") + pod("StatefulSet", "broker", "{initContainers: [{command: [sh, -c, 'until cluster-is-there; do sleep 1; done']}]}") + pod("Job", "init", "{containers: [{args: [--web-service-url, 'http://broker:80/']}]}"), nil},
		"a pooler of what the Job uses": {serviceOf("db") + pod("StatefulSet", "db", "{}") + serviceOf("pgbouncer") + pod("Deployment", "pgbouncer", "{containers: [{env: [{name: DB_HOST, value: db}]}]}") +
			pod("Job", "migrate", "{initContainers: [{command: [sh, -c, 'until nc -vz \"pgbouncer\" 80; do sleep 1; done']}], containers: [{env: [{name: DB_HOST, value: db}]}]}"),
			[]string{"Deployment/pgbouncer > StatefulSet/db serving", "Job/migrate > Deployment/pgbouncer serving", "Job/migrate > StatefulSet/db serving"}},
		"both call each other":                  {serviceOf("a") + serviceOf("b") + pod("Deployment", "a", "{containers: [{env: [{name: B_URL, value: 'http://b'}]}]}") + pod("Deployment", "b", "{containers: [{env: [{name: A_URL, value: 'http://a'}]}]}"), nil},
		"a resource that calls nobody":          {serviceOf("sentry") + pod("Deployment", "sentry", "{}") + object("dapr.io/v1alpha1", "Configuration", "c", "spec: {sentryAddress: 'sentry:80'}"), nil},
		"a cycle that a custom resource breaks": {serviceOf("redis") + pod("Deployment", "redis", "{}") + object("dapr.io/v1alpha1", "Component", "c", "spec: {metadata: [{name: redisHost, value: 'redis:80'}]}"), []string{"Component/c > Deployment/redis serving"}},
		"a label of an alert": {serviceOf("gateway") + pod("Deployment", "gateway", "{}") + object("v1", "ConfigMap", "c", "data: {rules.yml: \"groups:\\n- rules:\\n  - alert: down\\n    labels:\\n      service: gateway\\n\", plain.yml: \"global:\\n  external_labels:\\n    service: gateway\\n\"}") +
			pod("Deployment", "prometheus", "{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, configMap: {name: c}}]}"), []string{"Deployment/prometheus > ConfigMap/c hard"}},
		"all entries of a Secret": {serviceOf("redis") + pod("Deployment", "redis", "{}") + object("v1", "Secret", "s", "stringData: {REDIS_URL: 'redis://redis:80', other: x}") + pod("Deployment", "web", "{containers: [{envFrom: [{secretRef: {name: s}}]}]}"),
			[]string{"Deployment/web > Deployment/redis soft", "Deployment/web > Secret/s hard"}},
		"an external host": {object("v1", "ConfigMap", "c", "data: {DATABASE_HOST: db.example.com}") + pod("Job", "migrate", "{containers: [{envFrom: [{configMapRef: {name: c}}]}]}") + pod("Deployment", "web", "{containers: [{env: [{name: DATABASE_HOST, valueFrom: {configMapKeyRef: {name: c, key: DATABASE_HOST}}}]}]}"),
			[]string{"Deployment/web > ConfigMap/c hard", "Deployment/web > Job/migrate soft", "Job/migrate > ConfigMap/c hard"}},
		"a migration by its name": {pod("Job", "shop-db-migrations", "{}") + pod("Deployment", "web", "{initContainers: [{name: wait-for-db-migrations}]}"), []string{"Deployment/web > Job/shop-db-migrations serving"}},
		"another variable":        {serviceOf("collector") + pod("Deployment", "collector", "{}") + pod("Deployment", "web", "{containers: [{env: [{name: COLLECTOR, value: collector}, {name: ENDPOINT, value: 'http://$(COLLECTOR):80'}]}]}"), []string{"Deployment/web > Deployment/collector serving"}},
	}.run(t)
}
