// Package observer looks at releases with Helm's SDK and client-go alone, after a run that succeeded. It shares no code
// with what it checks, so it finds what a run only believes. Only tests import it.
package observer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// maxCompared is the number of objects of a release that are compared with the cluster: each costs a request.
const maxCompared = 40

// Observer reads a cluster as its administrator.
type Observer struct {
	clients kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

func New(kubeconfig string) (*Observer, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent = -1, "observer"
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config))
	return &Observer{clients, dyn, restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

// Removed returns what a release left behind, although it is uninstalled: a newest revision that does not say so.
func (o *Observer) Removed(ctx context.Context, namespace, name string) (problems []string) {
	history, err := o.records(namespace).History(name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return []string{err.Error()}
	}
	newest := &rel1.Release{Info: &rel1.Info{Status: rcommon.StatusUninstalled}}
	for _, x := range history { // kept with --keep-history
		if rel, ok := x.(*rel1.Release); ok && rel.Version > newest.Version {
			newest = rel
		}
	}
	if newest.Info.Status != rcommon.StatusUninstalled {
		problems = append(problems, fmt.Sprintf("release %s: revision %d is %s", name, newest.Version, newest.Info.Status))
	}
	return problems
}

// Deployed returns what is not so about a release that should be deployed: its newest revision is not deployed or not
// the only one; an object of its manifest does not exist, belongs to somebody else or differs; or one is not ready
// although ready says that a run called it so.
func (o *Observer) Deployed(ctx context.Context, namespace, name string, ready func(kind, name string) bool) (problems []string) {
	history, err := o.records(namespace).History(name)
	if err != nil || len(history) == 0 {
		return []string{fmt.Sprintf("release %s has no record: %v", name, err)}
	}
	newest := &rel1.Release{}
	for _, x := range history {
		rel, ok := x.(*rel1.Release)
		switch {
		case !ok:
			return []string{fmt.Sprintf("a record of release %s is a %T", name, x)}
		case rel.Version > newest.Version:
			newest, rel = rel, newest
		}
		if rel.Info != nil && rel.Info.Status == rcommon.StatusDeployed {
			problems = append(problems, fmt.Sprintf("revision %d of %s is deployed, but is not the newest", rel.Version, name))
		}
	}
	if newest.Info.Status != rcommon.StatusDeployed {
		return append(problems, fmt.Sprintf("revision %d of %s is %s", newest.Version, name, newest.Info.Status))
	}
	objects, err := parse(newest.Manifest)
	if err != nil {
		return append(problems, fmt.Sprintf("the manifest of revision %d of %s: %v", newest.Version, name, err))
	}
	for _, u := range objects[:min(len(objects), maxCompared)] {
		if problem := o.compare(ctx, newest, u, ready); problem != "" {
			problems = append(problems, fmt.Sprintf("release %s: %s/%s %s", name, u.GetKind(), u.GetName(), problem))
		}
	}
	return problems
}

// Settled is Deployed for a release that may have failed or been uninstalled: it checks only one whose newest revision says
// that it is deployed. It does not check whether objects are ready.
func (o *Observer) Settled(ctx context.Context, namespace, name string) []string {
	last, err := o.records(namespace).Last(name)
	if rel, ok := last.(*rel1.Release); err != nil || !ok || rel.Info.Status != rcommon.StatusDeployed {
		return nil
	}
	return o.Deployed(ctx, namespace, name, func(string, string) bool { return false })
}

// records returns Helm's own storage of releases.
func (o *Observer) records(namespace string) *storage.Storage {
	return storage.Init(driver.NewSecrets(o.clients.CoreV1().Secrets(namespace)))
}

// parse returns the objects of a manifest that have a name.
func parse(manifest string) (objects []*unstructured.Unstructured, err error) {
	for doc := range strings.SplitSeq("\n"+manifest, "\n---") {
		u := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSON([]byte(doc))
		if err == nil {
			err = json.Unmarshal(text, &u.Object) // integers stay integers
		}
		if err != nil {
			return nil, err
		}
		switch {
		case u.IsList():
			if err := u.EachListItem(func(item runtime.Object) error {
				objects = append(objects, item.(*unstructured.Unstructured))
				return nil
			}); err != nil {
				return nil, err
			}
		case u.GetName() != "":
			objects = append(objects, u)
		}
	}
	return objects, nil
}

// compare returns how an object in the cluster differs from the manifest, "" if it does not.
func (o *Observer) compare(ctx context.Context, rel *rel1.Release, u *unstructured.Unstructured, ready func(kind, name string) bool) string {
	gvk := u.GroupVersionKind()
	mapping, err := o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		o.mapper.Reset()
		if mapping, err = o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
			return "has an unknown kind: " + err.Error()
		}
	}
	var client dynamic.ResourceInterface = o.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == "namespace" {
		if u.GetNamespace() == "" {
			u.SetNamespace(rel.Namespace)
		}
		client = o.dynamic.Resource(mapping.Resource).Namespace(u.GetNamespace())
	}
	if _, expires, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "ttlSecondsAfterFinished"); expires {
		return "" // the cluster may have deleted it meanwhile
	}
	live, err := client.Get(ctx, u.GetName(), metav1.GetOptions{})
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	if owner := live.GetAnnotations()["meta.helm.sh/release-name"]; owner != rel.Name {
		return fmt.Sprintf("belongs to release %q", owner)
	}
	if ready(u.GetKind(), u.GetName()) {
		if why := notReady(live); why != "" {
			return "is not ready: " + why
		}
	}
	return o.differs(ctx, client, live, u)
}

// differs returns the fields that would change if the manifest were applied once more, as the API server says: it knows
// defaults, quantities and lists with keys.
func (o *Observer) differs(ctx context.Context, client dynamic.ResourceInterface, live, u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	annotations := u.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, "helm.sh/depends") // an order is not sent to the cluster
	})
	u.SetAnnotations(annotations)
	dropFilledIn(u)
	applied, err := client.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "observer", Force: true, DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsNotFound(err):
		return "does not exist"
	case err != nil:
		return "cannot be applied as recorded: " + err.Error()
	}
	if applied.GetUID() != live.GetUID() {
		return "was replaced meanwhile"
	}
	var fields []string
	for _, key := range slices.Sorted(maps.Keys(applied.Object)) {
		a, b := applied.Object[key], live.Object[key]
		if key == "metadata" {
			a, b = meta(applied), meta(live)
		}
		if key != "status" && !equality.Semantic.DeepEqual(a, b) {
			fields = append(fields, fmt.Sprintf("%s: %v, recorded %v", key, b, a))
		}
	}
	if len(fields) > 0 {
		return "differs from the record in " + strings.Join(fields, "; ")
	}
	return ""
}

// filledIn are fields that the cluster fills in after an apply, by kinds. "*" stands for all elements of a list.
var filledIn = map[string]string{
	"PersistentVolumeClaim":          "spec.volumeName spec.storageClassName",
	"Pod":                            "spec.nodeName spec.containers.*.ports.*.protocol",
	"Deployment":                     "spec.template.spec.containers.*.ports.*.protocol",
	"Service":                        "spec.ports.*.protocol",
	"CustomResourceDefinition":       "spec.conversion.webhook.clientConfig.caBundle",
	"APIService":                     "spec.caBundle",
	"ClusterRole":                    "rules",
	"MutatingWebhookConfiguration":   "webhooks.*.clientConfig.caBundle",
	"ValidatingWebhookConfiguration": "webhooks.*.clientConfig.caBundle",
}

// dropFilledIn removes such fields if the manifest has them empty: to apply them would empty them again.
func dropFilledIn(u *unstructured.Unstructured) {
	if u.GetKind() == "ClusterRole" && u.Object["aggregationRule"] == nil {
		return
	}
	for path := range strings.FieldsSeq(filledIn[u.GetKind()]) {
		dropEmpty(u.Object, path)
	}
}

func dropEmpty(in any, path string) {
	part, rest, more := strings.Cut(path, ".")
	if list, ok := in.([]any); ok && part == "*" {
		for _, element := range list {
			dropEmpty(element, rest)
		}
		return
	}
	fields, ok := in.(map[string]any)
	if value := fields[part]; more {
		dropEmpty(value, rest)
	} else if list, isList := value.([]any); ok && (value == nil || value == "" || isList && len(list) == 0) {
		delete(fields, part)
	}
}

// meta returns the metadata that a manifest can set.
func meta(u *unstructured.Unstructured) map[string]any {
	return map[string]any{"labels": u.GetLabels(), "annotations": u.GetAnnotations(), "finalizers": u.GetFinalizers()}
}
