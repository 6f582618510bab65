package infer

import (
	"slices"
	"testing"
)

// preparing returns a Job that runs a command, and a workload that uses the same database.
func preparing(image, command string) string {
	const env = ", env: [{name: DB_HOST, value: pg.example.com}]}]}"
	return pod("Job", "once", "{containers: [{image: '"+image+"', command: [sh, -c, '"+command+"']"+env) + pod("Deployment", "web", "{containers: [{image: x"+env)
}

// TestPreparingCommands: the words of a command decide whether a Job prepares a database, not the letters in other words,
// in flags and in the names of init processes (R63).
func TestPreparingCommands(t *testing.T) {
	prepares := func(image, command string) bool {
		return slices.Contains(inferred(t, preparing(image, command)), "Deployment/web > Job/once soft")
	}
	commands := map[string]bool{
		"app migrate": true, "app --migrate": true, "./init.sh": true, "initdb": true, "/db-init": true, "init_db.py": true, "dbinit": true, "app db:setup": true,
		"superset db upgrade": true, "prisma db push": true, "rails db create": true, "flyway -url=x": true, "app seed": true, "psql -f schema.sql": true, "sh prepare": true,
		"run-tests": false, "load-test": false, "report --type definitions": false, "check-migrations-are-done": false, "wait_for_migrations": false, "app --skip-migrations": false,
		"helm upgrade x": false, "pip install --upgrade x": false, "apt-get -y upgrade": false, "pg_dump --schema-only": false, "kafka-topics.sh --bootstrap-server kafka:9092 --list": false,
	}
	for command, want := range commands {
		for before, after := range map[string]string{"": "", "/usr/bin/dumb-init -- ": "", "/sbin/docker-init -- ": "", "apk add --initdb curl && ": "; sleep infinity", "cd /x; ": " --init-delay 5 --definitions /x"} {
			if got := prepares("x:1", before+command+after); got != want {
				t.Errorf("%s: %v", before+command+after, got)
			}
		}
	}
	if !prepares("example/db-init:1", "run") || !prepares("example/migrations", "run") || prepares("example/definitions:1", "run") {
		t.Error("the image")
	}
}

// TestStoresAndProxies: an application is no store or proxy because of a part of its name or image: it waits for its
// migration (R63).
func TestStoresAndProxies(t *testing.T) {
	for _, names := range []struct {
		want         bool // the workload waits for the Job
		kind, images []string
	}{
		{true, []string{"web", "litellm-proxy", "kong-proxy", "metrics-exporter-ui", "shop-redis-admin"}, []string{"x", "acme/redis-shop:7", "acme/mongoose-api", "acme/percona-billing", "acme/mysql-app", "berriai/litellm"}},
		{false, []string{"pgbouncer", "shop-haproxy", "cloud-sql-proxy", "postgres-exporter", "shop-redis-master", "shop-elasticsearch-es-hot-0", "prod-mongodb-arbiter", "shop-db"}, []string{"x"}},
		{false, []string{"store"}, []string{"postgres:17", "crunchy-postgres", "postgres17-alpine", "bitnami/postgresql-repmgr", "redis-stack-server", "percona-server-mongodb", "percona-xtradb-cluster", "cp-kafka", "postgresql-12-centos7",
			"nats", "elasticsearch-oss", "mariadb-galera", "timescaledb-ha", "spilo-15", "couchdb", "clickhouse-server", "cockroachdb/cockroach"}},
	} {
		const env = ", env: [{name: DB_HOST, value: pg.example.com}]}]}"
		for _, name := range names.kind {
			for _, image := range names.images {
				got := inferred(t, pod("Job", "migrate", "{containers: [{image: x"+env)+pod("Deployment", name, "{containers: [{image: '"+image+"'"+env))
				if len(got) > 0 != names.want {
					t.Errorf("%s %s: %q", name, image, got)
				}
			}
		}
	}
}
