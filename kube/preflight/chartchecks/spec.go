// Package chartchecks runs the checks that a chart brings: the analyzers of Replicated's Preflight (troubleshoot.sh) that only read
// the cluster. It runs no program and creates no pod; Results names the checks that would (Result.NotRun).
package chartchecks

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/kube/documents"
)

// Label marks Secrets and ConfigMaps with checks, which are under the key Key.
const (
	Label = "troubleshoot.sh/kind"
	Value = "preflight"
	Key   = "preflight.yaml"
)

// spec is a Preflight.
type spec struct {
	Kind string
	Spec struct {
		Collectors       []map[string]json.RawMessage
		RemoteCollectors []map[string]json.RawMessage
		Analyzers        []map[string]json.RawMessage
	}
}

// analyzer has the fields of the analyzers that lockstep runs.
type analyzer struct {
	CheckName                    string
	Exclude, Strict              flag
	Outcomes                     []outcome
	StorageClassName             string
	CustomResourceDefinitionName string
	RegistryName                 string
	Filters                      filters
}

// filters select nodes.
type filters struct {
	minima
	CPUArchitecture string
	ResourceName    string
	Selector        struct {
		MatchLabel       map[string]string
		MatchExpressions []metav1.LabelSelectorRequirement
	}
	Taint taint
}

// taint selects nodes with a taint; a value and an effect that are not given can be any.
type taint struct{ Key, Value, Effect string }

func (t taint) on(n corev1.Node) bool {
	return t.Key == "" || slices.ContainsFunc(n.Spec.Taints, func(has corev1.Taint) bool {
		return has.Key == t.Key && (t.Value == "" || has.Value == t.Value) && (t.Effect == "" || string(has.Effect) == t.Effect)
	})
}

// minima are what a node must have at least.
type minima struct {
	CPUCapacity, CPUAllocatable, MemoryCapacity, MemoryAllocatable, PodCapacity, PodAllocatable  string
	EphemeralStorageCapacity, EphemeralStorageAllocatable, ResourceCapacity, ResourceAllocatable string
}

// outcome is what a check says if its condition holds; one of the fields is set.
type outcome struct{ Fail, Warn, Pass *single }

type single struct{ When, Message string }

// flag is a boolean that may be written as a string.
type flag bool

// UnmarshalJSON reads true, "true" and their opposites.
func (f *flag) UnmarshalJSON(data []byte) error {
	*f = strings.Trim(string(data), `"`) == "true"
	return nil
}

// Read returns the checks in the data of an object, nil if it has none.
func read(object map[string]any) (specs []spec, err error) {
	labels, _, _ := unstructured.NestedStringMap(object, "metadata", "labels")
	if labels[Label] != Value {
		return nil, nil
	}
	text, _, _ := unstructured.NestedString(object, "stringData", Key)
	if text == "" {
		text, _, _ = unstructured.NestedString(object, "data", Key)
		if kind, _, _ := unstructured.NestedString(object, "kind"); kind == "Secret" {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("%s is not base64", Key)
			}
			text = string(data)
		}
	}
	for _, doc := range documents.Split(text) {
		var s spec
		if err := yaml.Unmarshal([]byte(doc), &s); err != nil {
			return nil, fmt.Errorf("%s is not a Preflight", Key) // the error may quote a value
		}
		if s.Kind == "Preflight" {
			specs = append(specs, s)
		}
	}
	return specs, nil
}

// notRun names the collectors and analyzers of a spec that lockstep does not run, sorted.
func (s spec) notRun() (names []string) {
	for _, list := range [][]map[string]json.RawMessage{s.Spec.Collectors, s.Spec.RemoteCollectors} {
		for _, c := range list {
			for name := range c {
				if name != "clusterInfo" && name != "clusterResources" { // the analyzers below read the cluster themselves
					names = append(names, "collector "+name)
				}
			}
		}
	}
	for _, a := range s.Spec.Analyzers {
		for _, name := range slices.Sorted(maps.Keys(a)) {
			if _, runs := titles[name]; !runs {
				names = append(names, "analyzer "+name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// titles are the analyzers that lockstep runs, with their names for checks without one.
var titles = map[string]string{
	"clusterVersion": "Kubernetes version", "storageClass": "storage class", "nodeResources": "node resources",
	"customResourceDefinition": "custom resource definition", "imagePullSecret": "image pull secret",
	"distribution": "distribution",
}
