package chaos

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// observer reads the cluster directly, without a proxy.
type observer struct{ dynamic.Interface }

func newObserver(kubeconfig string) (*observer, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	return &observer{client}, err
}

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	// objects are the resources of the objects in the chart of this package.
	objects = []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"}, {Version: "v1", Resource: "persistentvolumeclaims"},
	}
)

// snapshot is the comparable state of a namespace.
type snapshot struct {
	objects map[string]string // the comparable text, by kind and name
	history []string          // the revisions: "1 superseded"
	leases  []string
}

func (o *observer) snapshot(ctx context.Context, namespace string) (snapshot, error) {
	s := snapshot{objects: map[string]string{}}
	for _, resource := range objects {
		list, err := o.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return s, err
		}
		for _, item := range list.Items {
			if item.GetName() != "kube-root-ca.crt" && !ofJob(item) {
				s.objects[item.GetKind()+"/"+item.GetName()] = comparableText(item, namespace)
			}
		}
	}
	list, err := o.Resource(secrets).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return s, err
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	for _, item := range list.Items {
		s.history = append(s.history, revision(item))
	}
	if list, err = o.Resource(leases).Namespace(namespace).List(ctx, metav1.ListOptions{}); err != nil {
		return s, err
	}
	for _, item := range list.Items {
		if !ofJob(item) {
			s.leases = append(s.leases, item.GetName())
		}
	}
	return s, nil
}

// ofJob reports whether an object belongs to the Job of a run in the cluster.
func ofJob(item unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(&item)
	return owner != nil && owner.Kind == "Job"
}

// comparableText returns an object without the fields that differ between runs.
func comparableText(item unstructured.Unstructured, namespace string) string {
	annotations := item.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "helm.sh/") }) // Helm and lockstep apply different ones
	out := map[string]any{"labels": item.GetLabels(), "annotations": annotations, "data": item.Object["data"]}
	if item.GetDeletionTimestamp() != nil {
		out["deleted"] = true
	}
	if owners := item.GetOwnerReferences(); len(owners) > 0 {
		for i := range owners {
			owners[i].UID = ""
		}
		out["owners"] = owners
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), namespace, "NAMESPACE")
}

// revision describes a release record: "1 superseded", or what is wrong with it.
func revision(item unstructured.Unstructured) string {
	label := item.GetLabels()["status"]
	text, _, _ := unstructured.NestedString(item.Object, "data", "release")
	rel, err := record(text)
	switch {
	case err != nil:
		return fmt.Sprintf("%s unreadable: %v", item.GetName(), err)
	case rel.Info.Status != label:
		return fmt.Sprintf("%d %s, but labelled %s", rel.Version, rel.Info.Status, label)
	}
	return fmt.Sprintf("%d %s", rel.Version, label)
}

type releaseRecord struct {
	Version int
	Info    struct {
		Status           string
		RollbackRevision int `json:"rollback_revision"`
	}
	Manifest string
	Method   string `json:"apply_method"`
}

// record decodes a release record of Helm's storage from a Secret's base64.
func record(text string) (rel releaseRecord, err error) {
	for range 2 {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return rel, err
		}
		text = string(raw)
	}
	unzip, err := gzip.NewReader(bytes.NewReader([]byte(text)))
	if err != nil {
		return rel, err
	}
	raw, err := io.ReadAll(unzip)
	if err != nil {
		return rel, err
	}
	return rel, json.Unmarshal(raw, &rel)
}

// diff returns the differences from another snapshot, including those of the history if history is set.
func (s snapshot) diff(want snapshot, history bool) (what []string) {
	var missing, other, left []string
	for _, name := range slices.Sorted(maps.Keys(want.objects)) {
		if got, ok := s.objects[name]; !ok {
			missing = append(missing, name)
		} else if got != want.objects[name] {
			other = append(other, name+" "+firstDifference(got, want.objects[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if _, ok := want.objects[name]; !ok {
			left = append(left, name)
		}
	}
	for _, part := range []struct {
		says  string
		names []string
	}{{"missing", missing}, {"different", other}, {"left over", left}} {
		if len(part.names) > 0 {
			what = append(what, part.says+": "+strings.Join(part.names, ", "))
		}
	}
	if history && !slices.Equal(s.history, want.history) {
		what = append(what, fmt.Sprintf("the history is %q, want %q", s.history, want.history))
	}
	if len(s.leases) > 0 {
		what = append(what, fmt.Sprintf("Leases were not deleted: %q", s.leases))
	}
	return what
}

// firstDifference shows where two texts start to differ.
func firstDifference(got, want string) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(0, at-8)
	return fmt.Sprintf("(…%.30s…, want …%.30s…)", got[from:], want[from:])
}

// count returns the number of revisions with a status.
func (s snapshot) count(status string) (n int) {
	for _, h := range s.history {
		if _, got, _ := strings.Cut(h, " "); got == status {
			n++
		}
	}
	return n
}

// wrongRevisions says which revisions are not as in the target: another number is deployed, or some are unfinished.
func (s snapshot) wrongRevisions(target snapshot) (wrong []string) {
	if n := s.count("deployed"); n != target.count("deployed") {
		wrong = append(wrong, fmt.Sprintf("%d revisions are deployed", n))
	}
	if u := s.unfinished(); len(u) > 0 {
		wrong = append(wrong, fmt.Sprintf("unfinished: %q", u))
	}
	return wrong
}

// unfinished returns the revisions that are not in a final state, are unreadable, or whose label and content differ.
func (s snapshot) unfinished() (out []string) {
	for _, h := range s.history {
		switch _, status, _ := strings.Cut(h, " "); status {
		case "deployed", "superseded", "failed", "uninstalled":
		default:
			out = append(out, h)
		}
	}
	return out
}
