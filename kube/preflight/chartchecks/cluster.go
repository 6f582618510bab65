package chartchecks

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Live is a Cluster that sends requests.
type Live struct {
	Context   context.Context
	Clientset kubernetes.Interface
	Metadata  metadata.Interface
	Namespace string
	// Planned reports whether the run itself brings a CustomResourceDefinition.
	Planned func(crd string) bool
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Version implements Cluster.
func (l Live) Version() (string, error) {
	info, err := l.Clientset.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// Nodes implements Cluster.
func (l Live) Nodes() ([]corev1.Node, error) {
	list, err := l.Clientset.CoreV1().Nodes().List(l.Context, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// APIGroups implements Cluster.
func (l Live) APIGroups() (names []string, err error) {
	list, err := l.Clientset.Discovery().ServerGroups()
	if err != nil {
		return nil, err
	}
	for _, g := range list.Groups {
		names = append(names, g.Name)
	}
	return names, nil
}

// StorageClasses implements Cluster.
func (l Live) StorageClasses() ([]storagev1.StorageClass, error) {
	list, err := l.Clientset.StorageV1().StorageClasses().List(l.Context, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// HasCRD implements Cluster.
func (l Live) HasCRD(name string) (bool, error) {
	if l.Planned(name) {
		return true, nil
	}
	_, err := l.Metadata.Resource(crds).Get(l.Context, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// PullSecrets implements Cluster.
func (l Live) PullSecrets() ([]string, error) {
	list, err := l.Clientset.CoreV1().Secrets(l.Namespace).List(l.Context, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeDockerConfigJson)})
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, s := range list.Items {
		var config struct{ Auths map[string]json.RawMessage }
		if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &config) == nil {
			for registry := range config.Auths {
				found[registry] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
