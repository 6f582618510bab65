package preview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/throwaway/ociregistry"
)

// TestCheckImages (S19): with --check-images=error an operation is refused before the first write if a registry lacks an image
// of a container, an init container or a hook, denies it, or lacks it for the nodes; with warn it warns. Pull Secrets of the
// chart and of a service account count, guesses do not.
func TestCheckImages(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	nodes, err := r.Cluster.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	arch := nodes.Items[0].Status.NodeInfo.Architecture
	open := ociregistry.ServeImages(t, map[string][]string{"a/web:1": {"linux/" + arch}, "a/other:1": {"linux/s390x"}})
	closed := ociregistry.ServeImages(t, map[string][]string{"a/job:1": nil, "a/web:1": nil})
	closed.User = "user:password"
	pods := func(what, image, more string) string {
		kind, name, _ := strings.Cut(what, "/")
		spec := "spec: {" + more + " containers: [{name: main, image: " + image + ", args: [--sidecar=" + open.Host + "/a/none:1]}]}"
		if kind == "Pod" {
			return rig.Object("v1/Pod/"+name, nil, spec)
		}
		return rig.Object("apps/v1/Deployment/"+name, nil, "spec:", "  replicas: 0", "  selector: {matchLabels: {app: x}}", "  template:", "    metadata: {labels: {app: x}}", "    "+spec)
	}
	secret := rig.Object("v1/Secret/pull", nil, "type: kubernetes.io/dockerconfigjson", "stringData: {.dockerconfigjson: '"+closed.DockerConfig()+"'}")
	account := rig.Object("v1/ServiceAccount/puller", nil, "imagePullSecrets: [{name: pull}]")
	hook := strings.Replace(rig.Job("hook", map[string]string{"helm.sh/hook": "post-delete"}, "0s"), "example/app:1.0", open.Host+"/a/hook:1", 1)
	good := rig.ChartOf(t, pods("Deployment/web", open.Host+"/a/web:1", ""), secret, account, pods("Deployment/job", closed.Host+"/a/job:1", "serviceAccountName: puller,"))
	with := func(mode string, c *charts.Chart) func(*kube.Deploy) {
		return rig.UseChart(c, func(d *kube.Deploy) { d.CheckImages = mode })
	}
	bad := rig.ChartOf(t, pods("Deployment/web", open.Host+"/a/web:2", "initContainers: [{name: init, image: "+open.Host+"/a/other:1}],"), hook,
		pods("Deployment/other", open.Host+"/a/other:1", "nodeSelector: {kubernetes.io/arch: s390x},"), pods("Deployment/denied", closed.Host+"/a/web:1", ""))
	wants := []string{
		fmt.Sprintf("Deployment/web: image %s/a/web:2 does not exist in registry", open.Host),
		fmt.Sprintf("image %s/a/other:1 has no linux/%s, which nodes of the cluster need (it has linux/s390x)", open.Host, arch),
		fmt.Sprintf("Deployment/denied: image %s/a/web:1 is denied by registry", closed.Host),
	}
	start := time.Now()
	_, err = r.Install("plain", with(kube.ImagesMustExist, bad))
	r.MustRefuse(start, err, wants...)
	if strings.Contains(err.Error(), "a/none") {
		t.Errorf("a guess counts: %v", err)
	}
	op := r.Must(r.Install("plain", with(kube.ImagesMayLack, bad)))
	text := fmt.Sprint(op.Warnings())
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("the warnings lack %q: %s", want, text)
		}
	}
	r.MustRun(r.Install("plain", with(kube.ImagesMustExist, good)))
	start = time.Now()
	_, err = r.Upgrade("plain", with(kube.ImagesMustExist, bad))
	r.MustRefuse(start, err, wants...)
}
