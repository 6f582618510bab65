package infer

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/plan"
	"lockstep/engine/refs"
)

// callingKinds lists the kinds of custom resources, by API group, whose controllers call the Services
// that the resources name. In other kinds, names of Services are only settings.
var callingKinds = map[string][]string{
	"gateway.networking.k8s.io":    {"HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute"},
	"networking.istio.io":          {"VirtualService"},
	"traefik.io":                   {"IngressRoute", "IngressRouteTCP", "IngressRouteUDP"},
	"traefik.containo.us":          {"IngressRoute", "IngressRouteTCP", "IngressRouteUDP"},
	"kafka.strimzi.io":             {"KafkaConnect", "KafkaConnector", "KafkaMirrorMaker", "KafkaMirrorMaker2", "KafkaBridge"},
	"keda.sh":                      {"ScaledObject"},
	"grafana.integreatly.org":      {"GrafanaDatasource"},
	"integreatly.org":              {"GrafanaDataSource"},
	"external-secrets.io":          {"SecretStore", "ClusterSecretStore"},
	"secrets.hashicorp.com":        {"VaultConnection"},
	"opentelemetry.io":             {"OpenTelemetryCollector"},
	"monitoring.coreos.com":        {"Prometheus", "ThanosRuler"},
	"flink.apache.org":             {"FlinkDeployment", "FlinkSessionJob"},
	"sparkoperator.k8s.io":         {"SparkApplication"},
	"clickhouse.altinity.com":      {"ClickHouseInstallation"},
	"kibana.k8s.elastic.co":        {"Kibana"},
	"dapr.io":                      {"Component"},
	"projectcontour.io":            {"HTTPProxy"},
	"apisix.apache.org":            {"ApisixRoute"},
	"getambassador.io":             {"Mapping"},
	"jaegertracing.io":             {"Jaeger"},
	"druid.apache.org":             {"Druid"},
	"ray.io":                       {"RayCluster", "RayJob", "RayService"},
	"solr.apache.org":              {"SolrCloud"},
	"k8s.keycloak.org":             {"Keycloak"},
	"temporal.io":                  {"TemporalCluster"},
	"milvus.io":                    {"Milvus"},
	"k8s.mariadb.com":              {"Connection", "MaxScale"},
	"postgresql.cnpg.io":           {"Pooler"},
	"operator.victoriametrics.com": {"VMAgent", "VMAlert"},
}

// callsServices reports whether the controller of a kind calls the Services that its resources name.
func callsServices(kind plan.GroupKind) bool {
	return slices.Contains(callingKinds[kind.Group], kind.Kind)
}

// operatorServices lists the names of the Services that operators create for custom resources. NAME
// stands for the custom resource's name.
var operatorServices = map[plan.GroupKind][]string{
	{Group: "postgresql.cnpg.io", Kind: "Cluster"}:                        {"NAME-rw", "NAME-ro", "NAME-r"},
	{Group: "postgresql.cnpg.io", Kind: "Pooler"}:                         {"NAME"},
	{Group: "acid.zalan.do", Kind: "postgresql"}:                          {"NAME", "NAME-repl", "NAME-pooler"},
	{Group: "postgres-operator.crunchydata.com", Kind: "PostgresCluster"}: {"NAME-primary", "NAME-replicas", "NAME-pgbouncer", "NAME-ha"},
	{Group: "stackgres.io", Kind: "SGCluster"}:                            {"NAME", "NAME-primary", "NAME-replicas"},
	{Group: "kafka.strimzi.io", Kind: "Kafka"}:                            {"NAME-kafka-bootstrap", "NAME-kafka-brokers", "NAME-zookeeper-client"},
	{Group: "rabbitmq.com", Kind: "RabbitmqCluster"}:                      {"NAME", "NAME-nodes"},
	{Group: "elasticsearch.k8s.elastic.co", Kind: "Elasticsearch"}:        {"NAME-es-http"},
	{Group: "kibana.k8s.elastic.co", Kind: "Kibana"}:                      {"NAME-kb-http"},
	{Group: "clickhouse.altinity.com", Kind: "ClickHouseInstallation"}:    {"clickhouse-NAME"},
	{Group: "mysql.oracle.com", Kind: "InnoDBCluster"}:                    {"NAME", "NAME-instances"},
	{Group: "pxc.percona.com", Kind: "PerconaXtraDBCluster"}:              {"NAME-haproxy", "NAME-proxysql", "NAME-pxc"},
	{Group: "k8s.mariadb.com", Kind: "MariaDB"}:                           {"NAME", "NAME-primary", "NAME-secondary"},
	{Group: "mongodbcommunity.mongodb.com", Kind: "MongoDBCommunity"}:     {"NAME-svc"},
	{Group: "databases.spotahome.com", Kind: "RedisFailover"}:             {"rfs-NAME", "rfrm-NAME", "rfr-NAME"},
	{Group: "redis.redis.opstreelabs.in", Kind: "Redis"}:                  {"NAME"},
	{Group: "dragonflydb.io", Kind: "Dragonfly"}:                          {"NAME"},
	{Group: "minio.min.io", Kind: "Tenant"}:                               {"minio", "NAME-hl", "NAME-console"},
	{Group: "opentelemetry.io", Kind: "OpenTelemetryCollector"}:           {"NAME-collector", "NAME-collector-headless"},
	{Group: "monitoring.coreos.com", Kind: "Prometheus"}:                  {"prometheus-operated"},
	{Group: "monitoring.coreos.com", Kind: "Alertmanager"}:                {"alertmanager-operated"},
	{Group: "operator.victoriametrics.com", Kind: "VMSingle"}:             {"vmsingle-NAME"},
	{Group: "operator.victoriametrics.com", Kind: "VMAgent"}:              {"vmagent-NAME"},
}

// addCreatedServices records the Services that an operator will create for a custom resource, unless
// the release contains them. Their callers wait for the custom resource.
func (r *reader) addCreatedServices(n *node) {
	if builtinGroup(n.name().Group) {
		return
	}
	var names []string
	for _, pattern := range operatorServices[n.kind] {
		names = append(names, strings.ReplaceAll(pattern, "NAME", n.name().Name))
	}
	for _, t := range n.root.At("spec", "templates", "serviceTemplates").Each() {
		name := t.At("generateName").Text()
		for _, macro := range []string{"{chi}", "{chk}"} {
			name = strings.ReplaceAll(name, macro, n.name().Name)
		}
		if !strings.ContainsAny(name, "{}") {
			names = append(names, name)
		}
	}
	for _, name := range names {
		o := plan.Object{Kind: "Service", Namespace: n.name().Namespace, Name: name}
		if name == "" || r.byObject[o] != nil || r.createdServices[o] != nil {
			continue
		}
		s := &node{Object: &Object{Resource: plan.Resource{Object: o, Chart: n.Chart}}, at: -1, kind: service, root: refs.Field{Value: map[string]any{}}}
		r.createdServices[o], r.serversCache[s] = s, []*node{n}
		r.servicesNamed[name] = append(r.servicesNamed[name], s)
	}
}

// explainCreated adds to a reason that an operator creates the Service for a custom resource.
func (r *reader) explainCreated(s *node, why Reason) Reason {
	if r.createdServices[s.name()] == s {
		why.Text += fmt.Sprintf(", which %s creates", r.serversCache[s][0].name())
	}
	return why
}
