package manifest

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// assigned are the fields of kinds that the cluster itself fills in if a manifest leaves them empty. A part "*" stands for all elements
// of a list.
var assigned = map[schema.GroupKind][][]string{
	{Kind: "PersistentVolumeClaim"}:      {{"spec", "volumeName"}},
	{Kind: "Pod"}:                        append(containerPorts("spec"), []string{"spec", "nodeName"}),
	{Kind: "Service"}:                    {{"spec", "ports", "*", "protocol"}},
	{Kind: "ReplicationController"}:      containerPorts("spec", "template", "spec"),
	{Group: "apps", Kind: "Deployment"}:  containerPorts("spec", "template", "spec"),
	{Group: "apps", Kind: "ReplicaSet"}:  containerPorts("spec", "template", "spec"),
	{Group: "apps", Kind: "StatefulSet"}: containerPorts("spec", "template", "spec"),
	{Group: "apps", Kind: "DaemonSet"}:   containerPorts("spec", "template", "spec"),
	{Group: "batch", Kind: "Job"}:        containerPorts("spec", "template", "spec"),
	{Group: "batch", Kind: "CronJob"}:    containerPorts("spec", "jobTemplate", "spec", "template", "spec"),
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   {{"webhooks", "*", "clientConfig", "caBundle"}},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: {{"webhooks", "*", "clientConfig", "caBundle"}},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               {{"spec", "conversion", "webhook", "clientConfig", "caBundle"}},
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                           {{"spec", "caBundle"}},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                       {{"rules"}}, // with an aggregationRule
}

// containerPorts returns the protocols of the ports of containers. They are keys: server-side apply takes an empty one for that of
// another port than the stored one.
func containerPorts(spec ...string) (paths [][]string) {
	for _, list := range []string{"containers", "initContainers"} {
		paths = append(paths, append(slices.Clone(spec), list, "*", "ports", "*", "protocol"))
	}
	return paths
}

// leaveAssigned removes empty fields that the cluster fills in. To send them again would empty them: the API server refuses that of an
// immutable field, or one that a controller owns, and otherwise the controller has to fill it in again.
func leaveAssigned(u *unstructured.Unstructured) {
	kind := u.GroupVersionKind().GroupKind()
	skipsTLS, _, _ := unstructured.NestedBool(u.Object, "spec", "insecureSkipTLSVerify") // must not have a caBundle
	if kind.Kind == "ClusterRole" && u.Object["aggregationRule"] == nil || kind.Kind == "APIService" && skipsTLS {
		return
	}
	for _, path := range assigned[kind] {
		removeEmpty(u.Object, path)
	}
	if spec, ok := u.Object["spec"].(map[string]any); ok && kind == (schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
		for name, value := range spec { // such as storageClassName: null, for the default class; it cannot be changed later
			if value == nil {
				delete(spec, name)
			}
		}
	}
}

func removeEmpty(in any, path []string) {
	switch in := in.(type) {
	case map[string]any:
		if value := in[path[0]]; len(path) > 1 {
			removeEmpty(value, path[1:])
		} else if value == "" || isEmpty(value) {
			delete(in, path[0])
		}
	case []any:
		for _, element := range in {
			removeEmpty(element, path[1:])
		}
	}
}
