package bench

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/cli"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"lockstep/kube"
	"lockstep/kube/charts"
)

// secret measures the size of the records of larger and larger releases.
func (s *scaling) secret() error {
	settings := cli.New()
	settings.KubeConfig = s.cluster.Kubeconfig
	client, err := kube.Connect(settings, nil, nil)
	if err != nil {
		return err
	}
	t := table{name: "secret", columns: []string{"objects", "ConfigMaps with one value", "bytes per object", "Deployments of 30 lines", "bytes per object"}}
	for _, n := range []int{100, 1000, 5000, 10_000} {
		line := []string{strconv.Itoa(n)}
		for kind, template := range []string{flat(n), detailed(n)} {
			size, refused, err := s.stored(client, fmt.Sprintf("stored%d-%d", kind, n), template)
			if err != nil {
				return err
			}
			if refused != "" {
				line = append(line, refused, "")
				continue
			}
			line = append(line, fmt.Sprintf("%.0f KiB", float64(size)/1024), strconv.Itoa(size/n))
		}
		t.lines = append(t.lines, line)
	}
	s.tables = append(s.tables, t)
	return nil
}

// detailed returns a template with n Deployments that differ as much as those of a real chart, in names, images and
// checksums.
func detailed(n int) string {
	return fmt.Sprintf(`{{- range $i := until %d }}
{{- $sum := sha256sum (printf "%%d" $i) }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: service-{{ trunc 8 $sum }}
  labels: {app.kubernetes.io/name: service-{{ trunc 8 $sum }}, app.kubernetes.io/instance: {{ $.Release.Name }}}
spec:
  replicas: {{ add 1 (mod $i 5) }}
  selector:
    matchLabels: {app.kubernetes.io/name: service-{{ trunc 8 $sum }}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: service-{{ trunc 8 $sum }}}
      annotations: {checksum/config: {{ $sum }}}
    spec:
      serviceAccountName: service-{{ trunc 8 $sum }}
      containers:
        - name: main
          image: example/service-{{ mod $i 40 }}:1.{{ mod $i 17 }}.{{ mod $i 7 }}
          ports: [{name: http, containerPort: 8080}]
          env:
            - {name: LOG_LEVEL, value: info}
            - {name: DATABASE, value: "postgres://db-{{ mod $i 40 }}.example:5432/{{ trunc 8 $sum }}"}
          readinessProbe:
            httpGet: {path: /healthz, port: http}
          resources:
            requests: {cpu: {{ mul 10 (add 1 (mod $i 9)) }}m, memory: {{ mul 16 (add 1 (mod $i 9)) }}Mi}
{{- end }}
`, n)
}

// stored stores the record of a release and returns its size in the Secret in bytes, or why it was refused.
func (s *scaling) stored(client *kube.Client, name, template string) (size int, refused string, err error) {
	dir, err := s.chart(name, template)
	if err != nil {
		return 0, "", err
	}
	chart, err := charts.LoadPath(dir)
	if err != nil {
		return 0, "", err
	}
	op, err := client.PrepareInstall(s.ctx, kube.Deploy{
		Common: kube.Common{Release: name, Namespace: "default", PlanOnly: true, SkipPreflight: true}, ChartOptions: kube.ChartOptions{Chart: chart, Values: map[string]any{}}})
	if err != nil {
		_, why, found := strings.Cut(err.Error(), "its record takes ")
		if !found {
			return 0, "", err
		}
		takes, _, _ := strings.Cut(why, ",")
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 0, takes + ": refused", nil
	}
	helm, err := client.Helm("default")
	if err != nil {
		return 0, "", err
	}
	rel := op.Preview()
	if err := helm.Config.Releases.Create(rel); err != nil {
		return 0, "", err
	}
	secret, err := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default").
		Get(s.ctx, fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, rel.Version), metav1.GetOptions{})
	if err != nil {
		return 0, "", err
	}
	data, _, err := unstructured.NestedString(secret.Object, "data", "release")
	return len(data) / 4 * 3, "", err // the API encodes bytes in base64
}

// flowClients are the clients that the table flows lists.
var flowClients = []struct{ name, user, group string }{
	{"an administrator (system:masters)", "", ""},
	{"a user", "alice", "system:authenticated"},
	{"a service account", "system:serviceaccount:default:fleet", "system:serviceaccounts"},
}

// limitFleet puts the requests of user fleet into a priority level with very few slots, which refuses all others.
const limitFleet = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fleet}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: fleet}]
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: fleet}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 1, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: fleet}
spec:
  matchingPrecedence: 10
  priorityLevelConfiguration: {name: fleet}
  rules:
    - subjects: [{kind: User, user: {name: fleet}}]
      resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}]
      nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
`

// flows lists the share of the API server's capacity that each client gets.
func (s *scaling) flows() error {
	t := table{name: "flows", columns: []string{"client", "flow schema", "priority level", "shares", "of all", "concurrent requests"}}
	for _, a := range flowClients {
		line, err := s.flow(a.user, a.group)
		if err != nil {
			return err
		}
		t.lines = append(t.lines, append([]string{a.name}, line...))
	}
	s.tables = append(s.tables, t)
	return nil
}

// refused measures a fleet when the API server refuses many of its requests.
func (s *scaling) refused() error {
	if err := s.createAll(limitFleet); err != nil {
		return err
	}
	t := table{name: "refused", columns: []string{"20 releases at once", "requests", "refused with 429", "done", "time, s"}}
	for _, who := range []string{"", "fleet"} {
		for _, do := range []string{"install", "uninstall"} {
			found, err := s.run("refused"+who, do, "-releases", "20", "-as", who)
			if err != nil {
				return err
			}
			name := do + ", exempt"
			if who != "" {
				name = do + ", at a level with few slots"
			}
			t.lines = append(t.lines, []string{name, number(found.Requests), number(found.Refused), fmt.Sprintf("%d of %d", found.Ready, found.Releases), number(found.Seconds)})
		}
	}
	s.tables = append(s.tables, t)
	return nil
}

// createAll creates the objects of a manifest.
func (s *scaling) createAll(text string) error {
	for doc := range strings.SplitSeq(text, "---") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return err
		}
		gvr := u.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(u.GetKind()) + "s")
		if _, err := s.client.Resource(gvr).Create(s.ctx, u, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// flow returns the flow schema for the requests of a user, its priority level, and the
// shares of that level.
func (s *scaling) flow(user, group string) ([]string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{group, "system:authenticated"}}
	}
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.cluster.Server+"/api/v1/namespaces/default/configmaps", nil)
	if err != nil {
		return nil, err
	}
	resp, err := plain.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	schemaName, _, err := s.flowObject("flowschemas", resp.Header.Get("X-Kubernetes-Pf-Flowschema-Uid"))
	if err != nil {
		return nil, err
	}
	level, shares, err := s.flowObject("prioritylevelconfigurations", resp.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid"))
	if err != nil {
		return nil, err
	}
	if shares == 0 {
		return []string{schemaName, level, "", "", "no limit"}, nil
	}
	_, total, err := s.flowObject("prioritylevelconfigurations", "")
	if err != nil {
		return nil, err
	}
	limit, err := s.concurrencyLimit(level)
	return []string{schemaName, level, strconv.Itoa(shares), strconv.Itoa(total), limit}, err
}

// concurrencyLimit returns how many concurrent requests a priority level may have, from the metrics
// of the API server.
func (s *scaling) concurrencyLimit(level string) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster.Kubeconfig)
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.ctx)
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(string(text), fmt.Sprintf("apiserver_flowcontrol_nominal_limit_seats{priority_level=%q} ", level))
	if !found {
		return "", errors.New("the metrics do not contain the number of concurrent requests of level " + level)
	}
	limit, _, _ := strings.Cut(rest, "\n")
	return limit, nil
}

// flowObject returns the name and the concurrency shares of the object with a UID. If uid is "", it returns the sum of
// all shares.
func (s *scaling) flowObject(resource, uid string) (name string, shares int, err error) {
	list, err := s.client.Resource(schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: resource}).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		return "", 0, err
	}
	for _, u := range list.Items {
		n, _, _ := unstructured.NestedInt64(u.Object, "spec", "limited", "nominalConcurrencyShares")
		if string(u.GetUID()) == uid {
			return u.GetName(), int(n), nil
		}
		shares += int(n)
	}
	if uid == "" {
		return "", shares, nil
	}
	return "", 0, errors.New("no " + resource + " has the UID " + uid)
}
