package infer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/plan"
)

// TestCommandsThatWait: an init container that polls a Service, or a loop in any container, proves the
// order (R62). The script polls db (5432); other is only mentioned.
func TestCommandsThatWait(t *testing.T) {
	both := object("v1", "Service", "db", "spec: {selector: {app: db}, ports: [{port: 5432}]}") + pod("StatefulSet", "db", "{}") + serviceOf("other") + pod("Deployment", "other", "{}")
	tests := []struct {
		container, script string
		waits             bool
	}{
		{"init", "nslookup db", true},
		{"init", "until nslookup db.ns.svc.cluster.local; do echo waiting for other; sleep 2; done", true},
		{"init", `until nc -vz "db" 6543; do sleep 1; done`, true},
		{"init", "nc -zvw3 db 5432", true},
		{"init", "until curl -sf db:9999/health; do sleep 1; done", true},
		{"init", "while [ $(curl -s -o /dev/null -w '%{http_code}' http://db/other) != 200 ]; do sleep 1; done", true},
		{"init", "wait-for-it db:80 -- serve other:80", true},
		{"init", "./wait-for-it.sh db:5432", true},
		{"init", "until pg_isready -h db -U other -d other; do sleep 2; done;", true},
		{"init", "dockerize -wait tcp://db:80 -timeout 60s serve -api http://other:80", true},
		{"init", "(echo > /dev/tcp/db/80) >/dev/null 2>&1", true},
		{"init", "timeout 5 bash -c '</dev/tcp/db/5432'", true},
		{"init", "mysqladmin ping -h db -u other --silent", true},
		{"init", "until redis-cli -h db -a other ping; do sleep 1; done", true},
		{"init", "python -c 'import socket; socket.create_connection((\"db\", 5432))'", true},
		{"init", "until wget -qO- http://db/; do sleep 1; done", true},
		{"init", "wait4x tcp db:5432", true},
		{"init", "until nc -z ${HOST} ${PORT:-5432}; do sleep 1; done", true},
		{"init", "until bin/shell -server db get /x; do sleep 3; done", true},
		{"main", "until nc -z db 5432; do sleep 1; done; exec serve", true},
		{"main", "while ! nc -z db 5432\ndo sleep 1\ndone\nexec serve", true},
		{"main", "for i in 1 2 3; do nc -z db 5432 && break; sleep 1; done", true},
		{"main", "wait-for-it.sh db:5432 -- serve", true},

		{"main", `until psql -h db -U postgres -c "CREATE DATABASE other"; do sleep 2; done`, true},
		{"main", `for i in 1 2 3; do psql -h db -c "drop database other"; sleep 1; done`, true},
		{"init", `until psql "host=db user=other dbname=other" -c "select 1"; do sleep 1; done`, true},
		{"init", `until psql postgresql://other:x@db/other -c "select 1"; do sleep 1; done`, true},
		{"init", `until mysql -h db -e "CREATE USER 'other'@'%'"; do sleep 1; done`, true},
		{"init", "createdb -h db -U postgres other", false}, // only programs that check a host
		{"init", `cqlsh db -k other -e "CREATE KEYSPACE other"`, true},
		{"init", `clickhouse-client -h db --query "CREATE DATABASE other"`, true},
		{"init", "mongosh --host db --username x other", true},
		{"init", "nslookup -type=a db", true},
		{"init", "curl -s -o /dev/null -X GET db/health", true},
		{"init", "dig +short db", true},
		{"init", "until mc mb db/other; do sleep 1; done", false},
		{"init", "kafka-topics.sh --bootstrap-server db:9092 --create --topic other", true},
		{"init", "redis-cli -h db set other 1", true},
		{"init", "nats -s nats://db:4222 stream add other", true},
		{"init", `curl -d user=other -H "X-App: other" http://db:8200/x`, true},
		{"main", "until test -f /data/other; do sleep 1; done", false},
		{"main", "while pgrep other; do sleep 1; done", false},
		{"main", "while true; do mc mirror minio/other /x; sleep 5; done", false},

		{"init", "echo waiting for db", false},
		{"init", "psql -h elsewhere -U db -d db", false},
		{"init", "curl http://elsewhere/db/x", false},
		{"main", "curl -X POST http://db:5432/register", false},
	}
	for _, tt := range tests {
		kind := map[string]string{"init": "initContainers", "main": "containers"}[tt.container]
		spec := fmt.Sprintf("{%s: [{name: c, env: [{name: HOST, value: db}], command: [sh, -c, %q]}]}", kind, tt.script)
		o := From("shop", &plan.Chart{Path: "shop"}, objects(t, both+pod("Deployment", "web", spec)))
		var got []string
		for _, e := range o.Edges {
			if e.Reason.proof {
				got = append(got, e.To.Name+" "+string(e.Strength))
			}
		}
		want := []string{"db serving"}
		if !tt.waits {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %q: %q, want %q", tt.container, tt.script, got, want)
		}
	}
}

// TestWaitingContainers finds what containers wait for in their names, images and arguments.
func TestWaitingContainers(t *testing.T) {
	web := func(container string) string { return pod("Deployment", "web", "{initContainers: [{"+container+"}]}") }
	db := serviceOf("db") + pod("StatefulSet", "db", "{}")
	jobs := pod("Job", "shop-db-migrations", "{}")
	waits := []string{"Deployment/web > StatefulSet/db serving"}
	migrated := []string{"Deployment/web > Job/shop-db-migrations serving"}
	table{
		"by its name":       {jobs + web("name: wait-for-db-migrations"), migrated},
		"of two":            {jobs + pod("Job", "other-db-migrations", "{}") + web("name: wait-for-db-migrations"), nil},
		"another name":      {jobs + web("name: run-db-migrations"), nil},
		"by its image":      {db + web("image: example/wait-for-it, args: ['db:80']"), waits},
		"by its image, env": {db + web("image: example/wait, env: [{name: TARGETS, value: 'db:80'}]"), waits},
		"by a variable":     {db + pod("Deployment", "web", "{containers: [{env: [{name: WAITFOR, value: 'db:80'}]}]}"), waits},
		"a list":            {db + web("command: [nslookup, db]"), waits},
		"of a Job":          {jobs + web("name: w, image: groundnuty/k8s-wait-for, args: [job-wr, shop-db-migrations]"), migrated},
		"by labels":         {db + web("name: w, command: [kubectl, wait, --for=condition=ready, pod, -l, app=db]"), waits},
		"rollout":           {db + web("name: w, command: [kubectl, rollout, status, statefulset/db]"), waits},
		"in a namespace":    {db + web("name: w, command: [sh, -c, 'set -e; until kubectl -n ns wait statefulset/db --for=jsonpath={.status.readyReplicas}=1; do sleep 1; done']"), waits},
		"scales it":         {db + web("name: w, command: [sh, -c, 'kubectl scale statefulset db --replicas=0; echo done waiting']"), nil},
		"until it is gone":  {db + web("name: w, command: [sh, -c, 'kubectl wait --for=delete statefulset/db --timeout=60s']"), nil},
		"until pods are":    {db + web("name: w, command: [sh, -c, 'while kubectl get pods -l app=db | grep -q Running; do echo waiting; sleep 2; done']"), nil},
		"another Job":       {db + web("name: w, command: [sh, -c, 'kubectl wait --for=condition=complete job/other; kubectl rollout restart statefulset db']"), nil},
		"an echo":           {db + web("name: w, command: [sh, -c, 'echo wait before statefulset db can start']"), nil},

		"entrypoint, Services":         {db + web("image: x/kubernetes-entrypoint:1, env: [{name: DEPENDENCY_SERVICE, value: 'other:db,ns:db'}]"), waits},
		"entrypoint, other namespaces": {jobs + web("image: x/kubernetes-entrypoint:1, env: [{name: DEPENDENCY_JOBS, value: 'other:shop-db-migrations'}]"), nil},
		"entrypoint, Jobs":             {jobs + web("command: [/kubernetes-entrypoint], env: [{name: DEPENDENCY_JOBS, value: 'image-sync, shop-db-migrations'}]"), migrated},
		"entrypoint, Jobs as JSON":     {jobs + web(`command: [kubernetes-entrypoint], env: [{name: DEPENDENCY_JOBS_JSON, value: '[{"name": "shop-db-migrations"}]'}]`), migrated},
		"entrypoint, labels of Jobs":   {jobs + web(`command: [kubernetes-entrypoint], env: [{name: DEPENDENCY_JOBS_JSON, value: '[{"labels": {"app": "shop-db-migrations"}}]'}]`), migrated},
		"entrypoint, pods":             {db + web(`command: [kubernetes-entrypoint], env: [{name: DEPENDENCY_POD_JSON, value: '[{"namespace": "ns", "labels": {"app": "db"}}]'}]`), waits},
		"entrypoint, DaemonSets":       {pod("DaemonSet", "node", "{}") + web("command: [kubernetes-entrypoint], env: [{name: DEPENDENCY_DAEMONSET, value: node}]"), []string{"Deployment/web > DaemonSet/node serving"}},
		"another program":              {jobs + web("name: w, env: [{name: DEPENDENCY_JOBS, value: shop-db-migrations}]"), nil},
	}.run(t)
}

// TestCommandsThatMayWait: if an init container waits in a way that lockstep does not read, nothing that it names waits for it because of
// a guess, not through others either (R66). A store is not suspected.
func TestCommandsThatMayWait(t *testing.T) {
	const calls = "{containers: [{env: [{name: BETA_URL, value: 'http://beta'}]}]}"
	alpha := serviceOf("alpha") + pod("Deployment", "alpha", calls) + serviceOf("beta")
	waits := func(container string) string { return pod("Deployment", "beta", "{initContainers: [{"+container+"}]}") }
	script := func(text string) string { return fmt.Sprintf("name: init, command: [sh, -c, %q]", text) }
	ordered := []string{"Deployment/alpha > Deployment/beta serving"}
	tests := map[string]struct {
		manifests string
		want      []string
	}{
		"a list":               {alpha + waits(script("for h in alpha gamma; do until nc -z $h 80; do sleep 1; done; done")), nil},
		"a list in a variable": {alpha + waits(script("for d in $DEPS; do until nc -z $d 80; do sleep 1; done; done")+", env: [{name: DEPS, value: alpha gamma}]"), nil},
		"a quoted option":      {alpha + waits(script(`while ! mysqladmin ping -h"alpha" --silent; do sleep 1; done`)), nil},
		"an option":            {alpha + waits(script(`while ! mysqladmin ping -halpha; do sleep 1; done`)), nil},
		"after a statement":    {alpha + waits(script(`until cqlsh -e "show version" alpha; do sleep 1; done`)), nil},
		"Kubernetes variables": {alpha + waits(script("until nc -z $ALPHA_SERVICE_HOST $ALPHA_SERVICE_PORT; do sleep 1; done")), nil},
		"k8s-wait-for":         {alpha + waits("name: w, image: groundnuty/k8s-wait-for:v2, args: [service, alpha]"), nil},
		"labels":               {alpha + waits(script("until kubectl get pods -l app=alpha -o name | grep pod; do sleep 1; done")), nil},
		"kubectl get":          {alpha + waits(script("until kubectl get endpoints alpha; do sleep 1; done")), nil},
		"another language":     {alpha + waits(script(`node -e 'require("net").connect(8080,"alpha")'`)), nil},
		"a node name":          {alpha + waits(script("until rabbitmq-diagnostics -n rabbit@alpha ping; do sleep 1; done")), nil},
		"another program":      {alpha + waits("name: r, command: [/app/ready.py], args: [--service-name, alpha]"), nil},
		"through others": {serviceOf("alpha") + pod("Deployment", "alpha", "{containers: [{env: [{name: MID_URL, value: 'http://mid'}]}]}") + serviceOf("mid") + pod("Deployment", "mid", calls) +
			serviceOf("beta") + waits(script("until kubectl get endpoints alpha; do sleep 1; done")), nil},

		"a main container": {alpha + pod("Deployment", "beta", "{containers: [{"+script("until kubectl get endpoints alpha; do sleep 1; done")+"}]}"), ordered},
		"another name":     {alpha + waits(script("until kubectl get endpoints alpha-2; do sleep 1; done")), ordered},
		"a path":           {alpha + waits(script("until cp -r /srv/alpha /data; do sleep 1; done")), ordered},
		"a user":           {alpha + waits(script("until psql -U alpha -h elsewhere; do sleep 1; done")), ordered},
		"a copy":           {alpha + waits(script("cp alpha /data")), ordered},
		"a store":          {alpha + pod("StatefulSet", "beta", "{containers: [{image: 'postgres:16'}], initContainers: [{"+script("until createdb alpha; do sleep 1; done")+"}]}"), []string{"Deployment/alpha > StatefulSet/beta serving"}},
		"a certain order":  {serviceOf("alpha") + pod("Deployment", "alpha", "{initContainers: [{command: [nc, -z, beta, '80']}]}") + serviceOf("beta") + waits(script("until echo alpha; do sleep 1; done")), ordered},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := From("shop", nil, objects(t, tt.manifests))
			edges := slices.DeleteFunc(short(o.Edges), func(s string) bool { return strings.Contains(s, "> Service/") })
			if !slices.Equal(edges, tt.want) || (len(tt.want) == 0) != (len(o.Dropped) > 0) {
				t.Errorf("got %q, dropped %v, want %q", edges, o.Dropped, tt.want)
			}
		})
	}
	const says = "they may wait for each other, because an init container of Deployment/beta names Deployment/alpha: Deployment/alpha"
	if w := From("shop", nil, objects(t, tests["a list"].manifests)).Warnings(); len(w) != 1 || !strings.HasPrefix(w[0].Message, says) {
		t.Errorf("%v, want %s", w, says)
	}
}

// TestDoubtfulWarning: the warning names the dropped edge with its reason, and why it has no effect (R63).
func TestDoubtfulWarning(t *testing.T) {
	o := From("shop", nil, objects(t, serviceOf("web")+pod("Deployment", "web", "{}")+pod("Job", "init", "{containers: [{env: [{name: WEB_URL, value: 'http://web'}]}]}")))
	const want = "ignored: Job/init waits for Deployment/web (env WEB_URL names Service/web), because nothing proves that the workload must be ready before the Job starts"
	if w := o.Warnings(); len(w) != 1 || w[0].Message != want {
		t.Errorf("%v, want %s", w, want)
	}
}

// TestJobsAndWorkloads: only a hard edge or a command that waits proves the order of a Job and a
// workload (R63).
func TestJobsAndWorkloads(t *testing.T) {
	broker := serviceOf("broker")
	register := "{containers: [{args: [init, --url, 'http://broker:80'], env: [{name: ZK_HOST, value: zk}]}]}"
	tests := map[string]struct {
		manifests       string
		edges, doubtful []string
	}{
		"a Job that registers at a workload": {broker + pod("Deployment", "broker", "{}") + pod("Job", "init", register), nil, []string{"Job/init > Deployment/broker serving"}},
		"a workload that waits for the Job": {broker + pod("Deployment", "broker", "{initContainers: [{name: wait-for-init}]}") + pod("Job", "init", register),
			[]string{"Deployment/broker > Job/init serving"}, []string{"Job/init > Deployment/broker serving"}},
		"a Job that waits": {broker + pod("Deployment", "broker", "{}") + pod("Job", "init", "{initContainers: [{command: [nc, -z, broker, '80']}]}"), []string{"Job/init > Deployment/broker serving"}, nil},
		"a contradiction": {serviceOf("web") + pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}") +
			pod("Job", "migrate", "{containers: [{env: [{name: WEB_URL, value: 'http://web'}, {name: DB_HOST, value: db.example.com}]}]}"), nil, []string{"Deployment/web > Job/migrate soft", "Job/migrate > Deployment/web serving"}},
		"its database": {serviceOf("shop-db") + pod("StatefulSet", "shop-db", "{}") + pod("Job", "migrate", "{containers: [{env: [{name: DB_HOST, value: shop-db}]}]}"), []string{"Job/migrate > StatefulSet/shop-db serving"}, nil},
		"a pooler": {serviceOf("pgbouncer") + pod("Deployment", "pgbouncer", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}") +
			pod("Job", "migrate", "{initContainers: [{command: [sh, -c, 'until nc -vz pgbouncer 6543; do sleep 1; done']}], containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}"), []string{"Job/migrate > Deployment/pgbouncer serving"}, nil},
		"a pooler that only its name shows": {pod("Deployment", "pgbouncer", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}") + pod("Job", "migrate", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}"), nil, nil},
		"an external database, by its URL": {pod("Deployment", "web", "{containers: [{args: ['--dsn=postgres://u:p@db.example.com:5432/x']}]}") + pod("Job", "migrate", "{containers: [{env: [{name: U, value: 'postgresql://u:q@db.example.com/x'}]}]}"),
			[]string{"Deployment/web > Job/migrate soft"}, nil},
		"an external database, by a Secret": {pod("Deployment", "web", "{containers: [{env: [{name: DATABASE_URL, valueFrom: {secretKeyRef: {name: s, key: url}}}]}]}") + pod("Job", "migrate", "{containers: [{env: [{name: DB_URL, valueFrom: {secretKeyRef: {name: s, key: url}}}]}]}"),
			[]string{"Deployment/web > Job/migrate soft"}, nil},
		"a Job that waits for a migration": {pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}") + pod("Job", "report", "{initContainers: [{name: migration-wait}], containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}"), nil, nil},
		"a Job that reads all settings": {serviceOf("web") + pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}") + object("v1", "ConfigMap", "c", "data: {WEB_URL: 'http://web', DB_HOST: db.example.com}") +
			pod("Job", "migrate", "{containers: [{envFrom: [{configMapRef: {name: c, optional: true}}]}]}"), []string{"Deployment/web > Job/migrate soft"}, []string{"Job/migrate > Deployment/web serving"}},
		"a Job with the settings of the workload": {serviceOf("web") + pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}, {name: APP_URL, value: 'http://web'}]}]}") + pod("Job", "migrate", "{containers: [{env: [{name: DB_HOST, value: db.example.com}, {name: APP_URL, value: 'http://web'}]}]}"),
			[]string{"Deployment/web > Job/migrate soft"}, []string{"Job/migrate > Deployment/web serving"}},
		"a Job with the settings of the workload that also calls it": {serviceOf("web") + pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}, {name: APP_URL, value: 'http://web'}]}]}") + pod("Job", "migrate", "{containers: [{env: [{name: DB_HOST, value: db.example.com}, {name: APP_URL, value: 'http://web'}, {name: WEB_HOST, value: web}]}]}"),
			nil, []string{"Deployment/web > Job/migrate soft", "Job/migrate > Deployment/web serving"}},
		"a Job that prepares nothing": {pod("Deployment", "web", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}") + pod("Job", "report", "{containers: [{env: [{name: DB_HOST, value: db.example.com}]}]}"), nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := From("shop", &plan.Chart{Path: "shop"}, objects(t, tt.manifests))
			edges := slices.DeleteFunc(short(o.Edges), func(s string) bool { return strings.Contains(s, "> Service/") })
			var doubtful []string
			for _, d := range o.Dropped {
				doubtful = append(doubtful, short([]Edge{d.Edge})...)
			}
			if !slices.Equal(edges, tt.edges) || !slices.Equal(doubtful, tt.doubtful) {
				t.Errorf("got %q and doubtful %q, want %q and %q", edges, doubtful, tt.edges, tt.doubtful)
			}
		})
	}
}
