package infer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

var job = plan.GroupKind{Group: "batch", Kind: "Job"}

// migrationEdges makes workloads wait for the Jobs that prepare their database, except databases and
// proxies in front of them.
func (r *reader) migrationEdges() {
	jobs := map[hostRef][]*node{}
	for _, n := range r.nodes {
		if n.kind == job && !n.idle() && prepares(n) {
			for db := range r.databases(n) {
				jobs[db] = append(jobs[db], n)
			}
		}
	}
	for _, n := range r.nodes {
		if !n.isWorkload || n.kind.Group == "batch" || len(jobs) == 0 || r.isDatabaseOrProxy(n) {
			continue
		}
		for db, field := range r.databases(n) {
			for _, j := range jobs[db] {
				why := Reason{Path: field, Value: db.host}
				name := "database " + db.host
				switch {
				case db.service.Name != "":
					why.Value, why.By = db.service.String(), []plan.Object{db.service}
					name = "database " + why.Value
				case db.secret.Name != "":
					why.Value = db.secret.Name
					name = fmt.Sprintf("the database that key %s of %s names", db.key, db.secret)
				}
				why.Text = fmt.Sprintf("both use %s, which the Job prepares", name)
				r.add(n, j, Soft, why)
			}
		}
	}
}

// namedPreparationEdges makes a workload wait for the Job that prepares it by its name, such as bookie-init for bookie, if
// both call a workload or use a database that they have in common, and the Job does not call the workload itself.
func (r *reader) namedPreparationEdges() {
	for _, n := range r.nodes {
		if !n.serves() {
			continue
		}
		for _, j := range r.nodes {
			rest, named := strings.CutPrefix(j.name().Name, n.name().Name+"-")
			if !named || j.kind != job || j.idle() || j.name().Namespace != n.name().Namespace || !prepareWords.MatchString(rest) || otherWords.MatchString(rest) {
				continue
			}
			if _, calls := r.found[arc{j.at, n.at}]; calls {
				continue
			}
			if common := r.commonTarget(n, j); common != "" {
				r.add(n, j, Soft, Reason{In: j.name(), Path: "metadata.name", Value: j.name().Name, Text: fmt.Sprintf("its name says that it prepares %s, and both use %s", n.name().Name, common)})
			}
		}
	}
}

// commonTarget returns a workload that two others wait for, or a database that both use, or "".
func (r *reader) commonTarget(a, b *node) string {
	for _, e := range r.edges() {
		if to := r.nodes[e.at.to]; e.at.from == a.at && to.isWorkload {
			if _, both := r.found[arc{b.at, e.at.to}]; both {
				return to.name().String()
			}
		}
	}
	others := r.databases(b)
	for db := range r.databases(a) {
		if _, both := others[db]; both {
			return "the same database"
		}
	}
	return ""
}

// prepareWords matches Jobs that may prepare a database for others, migrationWords those that
// certainly do, and otherWords Jobs that more likely use a prepared one.
var (
	prepareWords = regexp.MustCompile(`(?i)migrat|schema|(?:\b|_)(?:db|database)?init|init(?:\b|_|db)|set-?up|bootstrap|boot-?load|prepare|upgrade|provision|seed(?:er|ing|\b|_)|` +
		`alembic|flyway|liquibase|(?:\b|_)db[-_: ]?(push|create|update|deploy)`)
	migrationWords = regexp.MustCompile(`(?i)migrat|schema`)
	otherWords     = regexp.MustCompile(`(?i)token|user|cert|bucket|topic|dashboard|password|secret`)
)

// prepares reports whether a Job prepares a database, by its name, image and commands.
func prepares(n *node) bool {
	text, all := n.name().Name, ""
	for _, c := range n.spec().At("containers").Each() {
		text += " " + c.At("name").Text() + " " + c.At("image").Text() + " " + actions(command(c))
		all += " " + command(c)
	}
	return prepareWords.MatchString(text) && (migrationWords.MatchString(text) || !otherWords.MatchString(text+all))
}

// In a command, flags only adjust what a program does, unless they say that it migrates. harmless matches other parts
// that prepare no database: init processes, upgrades of packages and charts, and checks of migrations.
var (
	flags    = regexp.MustCompile(`(?:^|[\s"'])--?[a-zA-Z][-\w]*`)
	harmless = regexp.MustCompile(`(?i)(?:dumb|docker|catatonit|tini)-init\b|sbin/init\b|\b(?:helm|apk|apt|apt-get|yum|dnf|pip3?)\s(?:\s*-\S+)*\s*upgrade|` +
		`[-\w]*(?:\b|[-_])(?:check|verify|wait|skip|no)[-_](?:\w+[-_])*migrat[-\w]*`)
)

// actions returns a command without the parts that say nothing about what it prepares.
func actions(command string) string {
	return flags.ReplaceAllStringFunc(harmless.ReplaceAllString(command, ""), func(flag string) string {
		if strings.Contains(flag, "migrat") {
			return flag
		}
		return " "
	})
}

// proxies matches programs in front of databases. Other proxies are applications, which may have a database themselves.
var proxies = regexp.MustCompile(`pgbouncer|pgpool|pgcat|odyssey|pooler|(?:\b(?:ha|db|pg|tcp|rds)|sql|postgres|database|mariadb|mongo(?:db)?|redis)-?proxy|proxysql|maxscale|mysql-?router|mongos\b|exporter$`)

// isDatabaseOrProxy reports whether a workload is a database or a proxy in front of one. Migrations
// need it, so it cannot wait for them.
func (r *reader) isDatabaseOrProxy(n *node) bool {
	if proxies.MatchString(n.name().Name) || r.isStore(n) {
		return true
	}
	containers := n.spec().At("containers").Each()
	return len(containers) == 1 && proxies.MatchString(imageName(containers[0]))
}

// imageName returns the last part of a container's image, without tag and digest.
func imageName(c refs.Field) string {
	image := c.At("image").Text()
	return before(before(image[strings.LastIndexByte(image, '/')+1:], "@"), ":")
}

// Ports, images and names of databases and other stores. Only words for its variant, such as server or cluster, and
// versions follow the name of a store: redis-shop is an application. clients matches programs that only use a store.
var (
	databasePorts = map[string]bool{"5432": true, "3306": true, "1433": true, "1521": true, "27017": true, "9042": true, "26257": true, "5984": true, "8123": true}
	storePorts    = map[string]bool{"6379": true, "5672": true, "9092": true, "2181": true, "9200": true, "11211": true, "2379": true, "4222": true}
	storeImages   = regexp.MustCompile(`(?:postgres(?:ql)?|mysqld?|mariadb|mongod?|redis|valkey|keydb|dragonfly|rabbitmq|kafka|redpanda|zookeeper|elasticsearch|opensearch|clickhouse|minio|cassandra|scylla|` +
		`etcd|\bnats|memcached|couch|neo4j|influx|cockroach|seaweed(?:fs)?|qdrant|weaviate|timescale|\bspilo|mssql|percona|solr|pgvector|postgis)(?:db)?` +
		`(?:[-_.\d]+(?:server|cluster|ha|replica|replicas|replication|repmgr|galera|xtradb|innodb|sharded|shard|sentinel|stack|streaming|keeper|kraft|primary|secondary|arbiter|master|slave|leader|follower|` +
		`read|data|hot|warm|cold|coordinating|ingest|standalone|node|nodes|broker|brokers|pool|distributed|volume|filer|es|default|oss|enterprise|community|native|edge|gis|alpine|debian|ubuntu|linux|centos|rhel|ubi)?)*$`)
	storeNames = regexp.MustCompile(`(?:^|-)(?:db|database|zk)\d*$`)
	clients    = regexp.MustCompile(`exporter|operator|connect|dashboard|console|manager|ui$|admin|proxy|backup|client|tools|express|commander|insight|controller|webhook|migrat|init`)
)

// isStore reports whether a workload is a database, a queue or another store, which is ready while
// it is still empty.
func (r *reader) isStore(n *node) bool {
	known, ok := r.storeCache[n]
	if !ok {
		known = r.looksLikeStore(n)
		r.storeCache[n] = known
	}
	return known
}

// looksLikeStore looks at the name of a workload, its images, and the ports of its Services.
func (r *reader) looksLikeStore(n *node) bool {
	isStoreImage := func(name string) bool { return storeImages.MatchString(name) && !clients.MatchString(name) }
	if name := n.name().Name; storeNames.MatchString(name) || isStoreImage(name) {
		return true
	}
	for _, s := range r.servicesIn[n.name().Namespace] {
		if slices.Contains(r.serversOf(s), n) && hasPort(s, func(p string) bool { return databasePorts[p] || storePorts[p] }) {
			return true
		}
	}
	return slices.ContainsFunc(n.spec().At("containers").Each(), func(c refs.Field) bool { return isStoreImage(imageName(c)) })
}

// hasPort reports whether ok is true for a port of a Service.
func hasPort(s *node, ok func(string) bool) bool {
	return slices.ContainsFunc(s.root.At("spec", "ports").Each(), func(p refs.Field) bool { return ok(formatNumber(p.At("port").Value)) })
}

// databaseNames are databases, by their names in keys and URLs.
var databaseNames = []string{
	"postgres", "postgresql", "mysql", "mariadb", "mongo", "mongodb", "mssql", "sqlserver", "oracle", "cockroach", "cockroachdb", "clickhouse", "cassandra", "scylla", "couchdb",
}

// databaseURL matches the URL of a database up to its host.
var databaseURL = regexp.MustCompile(`(?i)\b(?:jdbc:[a-z]+|` + strings.Join(databaseNames, "|") + `)(?:\+\w+)?://(?:[^@/\s"']*@)?([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)(?:[:/?,\s"']|$)|@tcp\(([-a-z0-9.]+)|tcp://(?:[^@/\s"']*@)?([-a-z0-9.]+):9000\b`)

// databases returns the databases in the configuration of a workload, with the fields that name them:
// Services of the release, external hosts, and entries of Secrets outside the release.
func (r *reader) databases(n *node) map[hostRef]string {
	found := map[hostRef]string{}
	for _, host := range n.hosts {
		s := cmp.Or(r.byObject[host.service], r.createdServices[host.service])
		if s == nil || slices.Contains(r.serversOf(s), n) {
			continue
		}
		if hasDatabaseWord(host.where) || hasPort(s, func(p string) bool { return databasePorts[p] }) {
			found[hostRef{service: host.service}] = host.where
		}
	}
	for _, c := range n.containers() {
		r.containerDatabases(n, c, found)
	}
	for _, ref := range n.refs {
		if to := r.configSource(ref.To); to != nil && ref.Use == refs.Volume {
			for _, key := range entryKeys(to) {
				text, path := entryText(to, key)
				r.databaseURLs(n, text, path, found)
			}
		}
	}
	return found
}

// containerDatabases adds the databases outside the release in the variables and arguments of a container.
func (r *reader) containerDatabases(n *node, c refs.Field, found map[hostRef]string) {
	namesDatabaseHost := func(key string) bool { return callsHost(key) && hasDatabaseWord(key) }
	vars := r.variables(n, c)
	for _, key := range sortedKeys(vars) {
		v := vars[key]
		for host := range strings.SplitSeq(v.text, ",") {
			if host = before(strings.TrimSpace(host), ":"); namesDatabaseHost(key) && hostName.MatchString(host) {
				r.addDatabase(n, host, v.path, found)
			}
		}
		r.databaseURLs(n, v.text, v.path, found)
	}
	script, _ := expand(command(c), vars)
	r.databaseURLs(n, script, c.Path, found)
	for _, e := range c.At("env").Each() {
		from := e.At("valueFrom", "secretKeyRef")
		secret := plan.Object{Kind: "Secret", Namespace: n.name().Namespace, Name: from.At("name").Text()}
		if namesDatabaseHost(e.At("name").Text()) && secret.Name != "" && r.configSource(secret) == nil {
			found[hostRef{secret: secret, key: from.At("key").Text()}] = from.Path
		}
	}
}

// databaseURLs adds the hosts of database URLs that are outside the release.
func (r *reader) databaseURLs(n *node, text, path string, found map[hostRef]string) {
	if !strings.Contains(text, "://") && !strings.Contains(text, "@tcp(") {
		return
	}
	for _, m := range databaseURL.FindAllStringSubmatch(text, -1) {
		r.addDatabase(n, m[1]+m[2]+m[3], path, found)
	}
}

// hostName matches a host. It may be one label: a Service of another release in the namespace.
var hostName = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?$`)

// addDatabase adds a database outside the release. A Service of the same namespace has one name, however it is written.
func (r *reader) addDatabase(n *node, host, path string, found map[hostRef]string) {
	own, namespace := host == "localhost" || strings.HasPrefix(host, "127."), n.name().Namespace
	if host == "" || own || strings.Trim(host, "0123456789") == "" || r.resolve(host, namespace).service != nil {
		return
	}
	if name, rest, dotted := strings.Cut(host, "."); dotted && (rest == namespace || strings.HasPrefix(rest, namespace+".svc")) {
		host = name
	}
	found[hostRef{host: host}] = path
}

// hasDatabaseWord reports whether a key contains a word for a database.
func hasDatabaseWord(key string) bool {
	return slices.ContainsFunc(splitWords(key), func(w string) bool {
		return slices.Contains(databaseNames, w) || slices.Contains([]string{"db", "database", "pg", "sql", "cql", "cqlsh", "jdbc"}, w)
	})
}

// dropDoubtful drops both edges between two objects that wait for each other, and edges from a Job to
// a workload that it may prepare, unless that is a store. It keeps hard edges and those of a command
// that waits (R63, R66).
func (r *reader) dropDoubtful() {
	doubt := map[arc]Dropped{}
	for at, e := range r.found {
		from, to := r.nodes[at.from], r.nodes[at.to]
		reverse, both := r.found[arc{at.to, at.from}]
		// A pod may not need every entry of a ConfigMap or Secret that becomes its environment, nor a variable that it shares
		// with the workload that it calls.
		isReverseWeak := reverse.Reason.allEntries && reverse.Strength == Soft || to.kind == job && (reverse.Reason.allEntries || reverse.Reason.shared)
		d := Dropped{Edge: e}
		switch {
		case e.isCertain():
			continue
		case both && reverse.isCertain():
			d.Why = "the opposite order is certain"
		case both && !isReverseWeak:
			d.Why, d.Cycle = "they wait for each other", []string{e.From.String(), e.To.String()}
		case from.kind == job && to.isWorkload && to.kind.Group != "batch" && !r.isStore(to):
			d.Why = "nothing proves that the workload must be ready before the Job starts"
		default:
			continue
		}
		doubt[at] = d
	}
	for at, d := range doubt {
		r.doubtful = append(r.doubtful, d)
		delete(r.found, at)
	}
}
