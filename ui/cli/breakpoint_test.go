package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube/throwaway/testcluster"
)

// TestDiffAtBreakpoint pauses an upgrade before a group (R42). Its screen, an attached one (R47) and
// watch show the group's changes and live objects.
func TestDiffAtBreakpoint(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	chart := filepath.Join(data, "charts", "fail-image")
	m.run(0, "install", "s", chart, "-n", "seen", "--create-namespace", "--no-tui", "--set", "image=example/app:1.0")
	c := inTerminal(t, 30, 100, m.env, "upgrade", "s", chart, "-n", "seen", "--set", "image=example/app:2.0", "--break-on", "broken")
	c.await(0, "breakpoint broken")
	others := []*terminal{inTerminal(t, 20, 60, m.env, "attach", "s"), inTerminal(t, 50, 200, m.env, "watch", "s", "-n", "seen")}
	others[0].await(0, "breakpoint broken")
	others[1].await(0, "breakpoint broken")
	c.await(0, "1 field") // shown below the board without a key
	c.await(0, "- image: example/app:1.0")
	c.await(0, "+ image: example/app:2.0")
	c.press("\r", "live object") // a pending object opens on its diff
	for _, o := range others {
		o.keys("d")
		o.await(0, "- image: example/app:1.0")
		o.await(0, "+ image: example/app:2.0")
	}
	c.press("y", "as it will be applied")
	c.press("Y", "creationTimestamp")
	c.press("/app:1\r", "example/app:1.0")
	c.press("\x1b", "close") // ends the search
	c.press("c", "press q to quit")
	for _, o := range append(others[:1], c) {
		o.await(0, "press q to quit")
		o.done()
	}
}

// TestFixHeldFailure fixes the object of a held failure from outside. Once it is ready, the screen
// highlights re-check, which continues the run (R44).
func TestFixHeldFailure(t *testing.T) {
	t.Parallel()
	cluster := testcluster.Get(t)
	c := inTerminal(t, 30, 100, []string{"KUBECONFIG=" + cluster.Kubeconfig}, "install", "s", filepath.Join(data, "charts", "fail-image"), "-n", "mended", "--create-namespace", "--readiness-timeout", "15s")
	c.await(0, "re-check")
	offered := regexp.MustCompile("\x1b\\[1(;[0-9;]*)?mre-check")
	if offered.MatchString(c.raw()) {
		t.Error("re-check is highlighted before the object is fixed")
	}
	second := inCluster(t).kube
	mark := c.mark()
	patch := []byte(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example/app:1.1"}]`)
	if _, err := second.AppsV1().Deployments("mended").Patch(t.Context(), "broken", types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	c.await(mark, "Deployment/broken is ready now", "deploy/broken is ready now")
	if !offered.MatchString(c.raw()) {
		t.Errorf("re-check is not highlighted:\n%q", tailOf(c.raw(), 2000))
	}
	c.keys("A")
	c.await(mark, "done (1 failure fixed)")
	c.await(mark, "live")
	mark = c.mark()
	if err := second.AppsV1().Deployments("mended").Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await(mark, "since then: ◑")
	c.await(mark, "Deployment/before: deleted by somebody else", "Deployment/before: deleted from the cluster") // the run, or the watch after it
	c.keys("\r")                                                                                                // must not quit
	c.await(mark, "why")
	c.done()
	d, err := second.AppsV1().Deployments("mended").Get(t.Context(), "broken", metav1.GetOptions{})
	if err != nil || d.Spec.Template.Spec.Containers[0].Image != "example/app:1.1" {
		t.Errorf("the fix was overwritten: %v", err)
	}
	if list := helm(t, []string{"KUBECONFIG=" + cluster.Kubeconfig}, "list", "-n", "mended"); !strings.Contains(list, "deployed") {
		t.Errorf("the release should be deployed: %s", list)
	}
}
