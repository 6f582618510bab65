package chartchecks

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// twoNodes is a cluster with two nodes, the class fast, one CRD and credentials for one registry.
type twoNodes struct{}

func (twoNodes) Version() (string, error) { return "v1.30.4-eks-a1", nil }
func (twoNodes) Nodes() (list []corev1.Node, err error) {
	for n, cpu := range []string{"4", "8"} {
		list = append(list, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": fmt.Sprint(n), "disk": "ssd"}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///zone/i", Taints: []corev1.Taint{{Key: "only", Value: fmt.Sprint(n), Effect: "NoSchedule"}}},
			Status: corev1.NodeStatus{
				NodeInfo: corev1.NodeSystemInfo{Architecture: "arm64", KubeletVersion: "v1.30.4-eks-a1"}, Capacity: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("8Gi")},
				Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True"}},
			},
		})
	}
	return list, nil
}
func (twoNodes) APIGroups() ([]string, error) { return []string{"apps", "config.openshift.io"}, nil }
func (twoNodes) StorageClasses() ([]storagev1.StorageClass, error) {
	return []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}}, nil
}
func (twoNodes) HasCRD(name string) (bool, error) {
	if name == "secret.example" {
		return false, errors.New("forbidden")
	}
	return name == "things.example", nil
}
func (twoNodes) PullSecrets() ([]string, error) { return []string{"registry.example"}, nil }

// TestChecks (R30c): each analyzer that only reads the cluster gives the chart's message; the others are named.
func TestChecks(t *testing.T) {
	nodes := func(when string) string {
		return "nodeResources: {outcomes: [{fail: {when: '" + when + "', message: bad}}, {pass: {}}]}"
	}
	version := func(when string) string {
		return "clusterVersion: {outcomes: [{fail: {when: '" + when + "', message: bad}}, {pass: {message: good}}]}"
	}
	distribution := func(when string) string {
		return "distribution: {outcomes: [{fail: {when: '" + when + "', message: bad}}, {pass: {message: good}}]}"
	}
	for analyzer, want := range map[string]string{
		version("< 1.29.0"):                     "",
		version("< 1.31.0"):                     "fail Kubernetes version: bad",
		version(">= 1.20.0 < 1.30.4 || 1.30.4"): "fail Kubernetes version: bad",
		version("1.x"):                          `error Kubernetes version: condition "1.x": lockstep does not know this condition`,
		"clusterVersion: {checkName: Version, strict: 'true', outcomes: [{fail: {message: bad}}]}":                     "fail strict Version: bad",
		"clusterVersion: {exclude: 'true', outcomes: [{fail: {message: bad}}]}":                                        "",
		"clusterVersion: {outcomes: [{pass: {when: '> 2.0.0'}}, {warn: {message: old}}, {fail: {message: bad}}]}":      "warn Kubernetes version: old",
		"storageClass: {storageClassName: fast, outcomes: [{fail: {message: bad}}]}":                                   "",
		"storageClass: {outcomes: [{fail: {message: no default}}]}":                                                    "fail storage class: no default",
		"customResourceDefinition: {customResourceDefinitionName: things.example, outcomes: [{fail: {message: bad}}]}": "",
		"customResourceDefinition: {customResourceDefinitionName: others.example, outcomes: [{fail: {message: bad}}]}": "fail custom resource definition: bad",
		"customResourceDefinition: {customResourceDefinitionName: secret.example, outcomes: []}":                       "error custom resource definition: read CustomResourceDefinition/secret.example: forbidden",
		"imagePullSecret: {registryName: registry.example, outcomes: [{fail: {message: bad}}]}":                        "",
		"imagePullSecret: {registryName: other.example, outcomes: [{fail: {message: bad}}]}":                           "fail image pull secret: bad",
		nodes("< 3"):                           "fail node resources: bad",
		nodes("count() < 2"):                   "",
		nodes("sum(cpuCapacity) < 12"):         "",
		nodes("sum(cpuCapacity) <= 12"):        "fail node resources: bad",
		nodes("min(memoryCapacity) < 16Gi"):    "fail node resources: bad",
		nodes("max(cpuCapacity) > 8"):          "",
		nodes("countDistinct(zone) < 3"):       "fail node resources: bad",
		nodes("nodeCondition(Ready) == False"): "",
		nodes("nodeCondition(Ready) != True"):  `error node resources: condition "nodeCondition(Ready) != True": lockstep does not know this condition`,
		nodes("avg(cpuCapacity) < 3"):          `error node resources: condition "avg(cpuCapacity) < 3": lockstep does not know this condition`,
		"nodeResources: {filters: {cpuCapacity: '6', cpuArchitecture: arm64, selector: {matchLabel: {disk: ssd}}}, outcomes: [{fail: {when: count() < 2, message: bad}}]}": "fail node resources: bad",
		"nodeResources: {filters: {taint: {key: only, value: '1'}}, outcomes: [{fail: {when: count() < 2, message: bad}}]}":                                                "fail node resources: bad",
		"nodeResources: {filters: {taint: {key: only, effect: NoSchedule}}, outcomes: [{fail: {when: count() < 2, message: bad}}]}":                                        "",
		"nodeResources: {filters: {taint: {key: other}}, outcomes: [{fail: {when: count() < 1, message: none}}]}":                                                          "fail node resources: none",
		distribution("== gke"):       "",
		distribution("!= eks"):       "",
		distribution("eks"):          "fail distribution: bad",
		distribution("= open-shift"): "fail distribution: bad",
		distribution("== tkgi"):      `error distribution: condition "== tkgi": lockstep does not know the distribution tkgi`,
		distribution("< gke"):        `error distribution: condition "< gke": lockstep does not know this condition`,
		"textAnalyze: {fileName: x, outcomes: [{fail: {message: bad}}]}": "not run analyzer textAnalyze, collector run",
		"clusterVersion: 5": "error Kubernetes version: its fields are invalid",
	} {
		collectors := "[{clusterInfo: {}}]"
		if slices.Contains([]string{"textAnalyze: {fileName: x, outcomes: [{fail: {message: bad}}]}"}, analyzer) {
			collectors = "[{run: {image: x}}]"
		}
		object := map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"labels": map[string]any{Label: Value}},
			"data": map[string]any{Key: "apiVersion: troubleshoot.sh/v1beta2\nkind: Preflight\nspec: {collectors: " + collectors + ", analyzers: [{" + analyzer + "}]}"}}
		got := ""
		for _, r := range Run(object, twoNodes{}) {
			switch {
			case r.Err != nil:
				got += "error " + r.Name + ": " + r.Err.Error()
			case r.NotRun != nil:
				got += "not run " + fmt.Sprint(r.NotRun[0])
				for _, more := range r.NotRun[1:] {
					got += ", " + more
				}
			case r.Fail && r.Strict:
				got += "fail strict " + r.Name + ": " + r.Message
			case r.Fail:
				got += "fail " + r.Name + ": " + r.Message
			default:
				got += "warn " + r.Name + ": " + r.Message
			}
		}
		if got != want {
			t.Errorf("%s\ngot  %q\nwant %q", analyzer, got, want)
		}
	}
}

// FuzzRun checks that no text makes the checks panic.
func FuzzRun(f *testing.F) {
	f.Add("kind: Preflight\nspec: {analyzers: [{nodeResources: {outcomes: [{fail: {when: 'sum(x) < 1'}}]}}]}")
	f.Add("kind: Preflight\nspec: {analyzers: [{clusterVersion: {outcomes: [{}, {warn: {when: '|| <'}}]}}]}")
	f.Fuzz(func(t *testing.T, text string) {
		Run(map[string]any{"kind": "Secret", "metadata": map[string]any{"labels": map[string]any{Label: Value}}, "stringData": map[string]any{Key: text}}, twoNodes{})
	})
}

// TestVersions (R30c): the suffix of a provider is no version before the release; alpha, beta and rc are.
func TestVersions(t *testing.T) {
	for _, test := range []struct {
		version, ranges string
		want            bool
	}{
		{"v1.30.4-gke.100", ">= 1.30.4", true}, {"v1.30.4-gke.100", "< 1.30.4", false}, {"v1.30.4-gke.100", "= 1.30.4", true},
		{"v1.30.4-eks-a1b2", ">= 1.30.4", true}, {"v1.30.4+k3s1", "1.30.4", true}, {"v1.30.4-rc.1", ">= 1.30.4", false},
		{"v1.30.4-alpha.2", "< 1.30.4", true}, {"v1.30.4-gke.100", "> 1.30.4-gke.99", true}, {"v1.30.4-aliyun.1", "> 1.30.4", false},
	} {
		if got, err := versionMatches(test.version, test.ranges); err != nil || got != test.want {
			t.Errorf("%s in %q: %t, %v", test.version, test.ranges, got, err)
		}
	}
}
