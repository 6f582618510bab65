package permissions

import (
	"os"
	"strings"
	"testing"

	"lockstep/engine/plan"
	"lockstep/kube/e2e/rig"
)

// TestShell opens a shell in a pod, which needs permission to create pods/exec.
func TestShell(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	all := []string{"get", "list", "watch", "create", "patch", "update", "delete"}
	viewer := r.WithClient(r.ConnectAs("viewer", append(namespaceRules(all...), rig.Rule("", "pods", "get", "list"), rig.Rule("apps", "replicasets", "get", "list"))...))
	out := viewer.MustRun(viewer.Install("plain", rig.UseChart(rig.ChartOf(t, rig.Deployment("web", nil, "0s")), nil)))
	o := out.State.Phases[0].Groups[0].Objects[0].Object
	if _, err := viewer.Client.Diagnoser().Shell(t.Context(), o, "", ""); err == nil || err.Error() != "a shell needs permission to create pods/exec in namespace "+r.Namespace {
		t.Errorf("without permission: %v", err)
	}
	shells := r.Client.Diagnoser()
	if _, err := shells.Shell(t.Context(), o, "", "other"); err == nil || !strings.Contains(err.Error(), "container other is not running") {
		t.Errorf("a shell in a container that does not exist: %v", err)
	}
	for o, want := range map[plan.Object]string{
		{Kind: "ConfigMap", Namespace: r.Namespace, Name: "route"}: "cannot open a shell: ConfigMap/route does not exist",
		{Kind: "Namespace", Name: r.Namespace}:                     "cannot open a shell: Namespace/" + r.Namespace + " has no containers",
	} {
		if _, err := shells.Shell(t.Context(), o, "", ""); err == nil || err.Error() != want {
			t.Errorf("a shell in %s: %v", o, err)
		}
	}
	shell, err := shells.Shell(t.Context(), o, "", "")
	if err != nil {
		t.Fatal(err)
	}
	in, keyboard, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer keyboard.Close()
	typed := func(text string) {
		if _, err := keyboard.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	typed("hello\rexit\r")
	var screen strings.Builder
	if err := shell.Run(t.Context(), in, &screen); err != nil {
		t.Fatal(err)
	}
	if got := screen.String(); !strings.HasPrefix(got, "shell in pod "+shell.Pod+", container ") || !strings.HasSuffix(got, "$ hello\r\nhello\r\n$ exit\r\n") {
		t.Errorf("the shell says %q", got)
	}
	typed("after\n") // the shell has ended, so it must not read this
	rest := make([]byte, 16)
	if n, err := in.Read(rest); err != nil || string(rest[:n]) != "after\n" {
		t.Errorf("after the shell stdin has %q, %v", rest[:n], err)
	}
}
