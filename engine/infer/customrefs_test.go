package infer

import "testing"

// TestCustomReferences: custom resources wait for those that they name, by a reference or by a label of their API (R63).
func TestCustomReferences(t *testing.T) {
	cr := func(api, kind, name, rest string) string { return object(api, kind, name, rest) }
	const kafka = "kafka.strimzi.io/v1beta2"
	table{
		"a Certificate and its Issuer": {cr("cert-manager.io/v1", "Certificate", "c", "spec: {secretName: s, issuerRef: {name: ca, kind: Issuer, group: cert-manager.io}}") + cr("cert-manager.io/v1", "Issuer", "ca", "") +
			cr("cert-manager.io/v1", "ClusterIssuer", "ca", ""), []string{"Certificate/c > Issuer/ca soft"}},
		"a ClusterIssuer": {cr("cert-manager.io/v1", "Certificate", "c", "spec: {issuerRef: {name: ca, kind: ClusterIssuer}}") + cr("cert-manager.io/v1", "ClusterIssuer", "ca", ""), []string{"Certificate/c > ClusterIssuer/ca soft"}},
		"without a kind":  {cr("cert-manager.io/v1", "Certificate", "c", "spec: {issuerRef: {name: ca}}") + cr("cert-manager.io/v1", "Issuer", "ca", "") + cr("cert-manager.io/v1", "ClusterIssuer", "ca", ""), []string{"Certificate/c > Issuer/ca soft"}},
		"an Issuer and the Certificate of its CA": {cr("cert-manager.io/v1", "Certificate", "root", "spec: {secretName: ca, issuerRef: {name: self}}") + cr("cert-manager.io/v1", "Issuer", "self", "") + cr("cert-manager.io/v1", "Issuer", "ca", "spec: {ca: {secretName: ca}}"),
			[]string{"Certificate/root > Issuer/self soft", "Issuer/ca > Certificate/root soft"}},
		"a KafkaConnector and its KafkaConnect": {cr(kafka, "KafkaConnector", "c", "metadata: {name: c, labels: {strimzi.io/cluster: my}}") + cr(kafka, "KafkaConnect", "my", "") + cr(kafka, "Kafka", "my", "") +
			cr(kafka, "KafkaTopic", "t", "metadata: {name: t, labels: {strimzi.io/cluster: my}}"), []string{"KafkaConnector/c > KafkaConnect/my soft", "KafkaTopic/t > Kafka/my soft"}},
		"a pool, without which its cluster is not ready": {cr(kafka, "KafkaNodePool", "p", "metadata: {name: p, labels: {strimzi.io/cluster: my}}") + cr(kafka, "Kafka", "my", ""), nil},
		"a label of another API":                         {cr(kafka, "KafkaTopic", "t", "metadata: {name: t, labels: {app.kubernetes.io/cluster: my}}") + cr(kafka, "Kafka", "my", ""), nil},
		"by the field cluster": {cr("postgresql.cnpg.io/v1", "ScheduledBackup", "b", "spec: {cluster: {name: db}}") + cr("postgresql.cnpg.io/v1", "Cluster", "db", "") + cr("x.io/v1", "Cluster", "db", ""),
			[]string{"ScheduledBackup/b > Cluster/db soft"}},
		"a list":                 {cr("gateway.networking.k8s.io/v1", "HTTPRoute", "r", "spec: {parentRefs: [{name: g, kind: Gateway}]}") + cr("gateway.networking.k8s.io/v1", "Gateway", "g", ""), []string{"HTTPRoute/r > Gateway/g soft"}},
		"a long name":            {cr("rabbitmq.com/v1beta1", "Queue", "q", "spec: {rabbitmqClusterReference: {name: mq}}") + cr("rabbitmq.com/v1beta1", "RabbitmqCluster", "mq", ""), []string{"Queue/q > RabbitmqCluster/mq soft"}},
		"a workload":             {cr("keda.sh/v1alpha1", "ScaledObject", "s", "spec: {scaleTargetRef: {name: web, kind: Deployment}}") + pod("Deployment", "web", "{}"), []string{"ScaledObject/s > Deployment/web soft"}},
		"a store":                {cr("external-secrets.io/v1", "ExternalSecret", "e", "spec: {secretStoreRef: {name: s, kind: SecretStore}}") + cr("external-secrets.io/v1", "SecretStore", "s", ""), []string{"ExternalSecret/e > SecretStore/s soft"}},
		"an owner":               {cr("x.io/v1", "Part", "p", "spec: {ownerRef: {name: w, kind: Whole}}") + cr("x.io/v1", "Whole", "w", ""), nil},
		"the Cluster API":        {cr("cluster.x-k8s.io/v1beta1", "Cluster", "c", "spec: {infrastructureRef: {name: c, kind: AWSCluster}}") + cr("infrastructure.cluster.x-k8s.io/v1beta1", "AWSCluster", "c", ""), nil},
		"in another namespace":   {cr("x.io/v1", "Part", "p", "spec: {wholeRef: {name: w, namespace: other}}") + cr("x.io/v1", "Whole", "w", ""), nil},
		"each other, so neither": {cr("x.io/v1", "Left", "l", "spec: {rightRef: {name: r}}") + cr("x.io/v1", "Right", "r", "spec: {leftRef: {name: l}}"), nil},
	}.run(t)
}

// TestPreparation: Jobs that prepare a database of another release of the namespace, or a workload that they name (R63).
func TestPreparation(t *testing.T) {
	env := func(name, value string) string {
		return "{containers: [{env: [{name: " + name + ", value: '" + value + "'}]}]}"
	}
	zk := serviceOf("zk") + pod("StatefulSet", "zk", "{}")
	bookie := pod("StatefulSet", "bookie", "{containers: [{env: [{name: ZK_HOST, value: zk}]}]}") + serviceOf("bookie")
	table{
		"a host of one label":        {pod("Job", "migrate", env("DB_HOST", "x-postgres")) + pod("Deployment", "web", env("DATABASE_HOST", "x-postgres")), []string{"Deployment/web > Job/migrate soft"}},
		"spelled in two ways":        {pod("Job", "migrate", env("DB_HOST", "x-postgres.ns.svc.cluster.local:5432")) + pod("Deployment", "web", env("DATABASE_HOST", "x-postgres")), []string{"Deployment/web > Job/migrate soft"}},
		"in a URL":                   {pod("Job", "seed-data", env("URL", "postgres://u:p@x-postgres/app")) + pod("Deployment", "web", env("URL", "postgres://u:p@x-postgres:5432/app")), []string{"Deployment/web > Job/seed-data soft"}},
		"another host":               {pod("Job", "migrate", env("DB_HOST", "x-postgres")) + pod("Deployment", "web", env("DATABASE_HOST", "y-postgres")), nil},
		"this pod":                   {pod("Job", "migrate", env("DB_HOST", "localhost")) + pod("Deployment", "web", env("DATABASE_HOST", "localhost")), nil},
		"no host":                    {pod("Job", "migrate", env("DB_HOST", "5432")) + pod("Deployment", "web", env("DATABASE_HOST", "5432")), nil},
		"seeds are no preparation":   {pod("Job", "report", "{containers: [{args: [--seeds], env: [{name: DB_HOST, value: pg}]}]}") + pod("Deployment", "web", env("DB_HOST", "pg")), nil},
		"a Job named after workload": {zk + bookie + pod("Job", "bookie-init", env("ZK_HOST", "zk")), []string{"Job/bookie-init > StatefulSet/zk serving", "StatefulSet/bookie > Job/bookie-init soft", "StatefulSet/bookie > StatefulSet/zk serving"}},
		"that calls the workload": {zk + bookie + pod("Job", "bookie-init", "{containers: [{env: [{name: ZK_HOST, value: zk}, {name: HOST, value: 'bookie:1'}]}]}"),
			[]string{"Job/bookie-init > StatefulSet/zk serving", "StatefulSet/bookie > StatefulSet/zk serving"}},
		"with nothing in common": {bookie + pod("Job", "bookie-init", "{}"), nil},
	}.run(t)
}
