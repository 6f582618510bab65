package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/kube/incluster"
	"lockstep/kube/throwaway/testcluster"
)

// TestHomeReturnsToRuns closes the terminal of a run. Home shows the run on top and attaches to it, and esc leads back. A second
// install of the same release offers to attach, too.
func TestHomeReturnsToRuns(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "home-runs")
	r.env = append(r.env, "XDG_STATE_HOME="+t.TempDir())
	chart := filepath.Join(r.dir, "basket")
	first := r.open("install", "cart", chart, "--create-namespace", "--break-on", "basket:(unsequenced)")
	first.await(0, "breakpoint")
	if err := first.tty.Close(); err != nil {
		t.Fatal(err)
	}
	home := r.open()
	home.await(0, "install basket-1.0.0")
	home.press(enter, "attached")
	home.press(esc, "runs")
	second := r.open("install", "cart", chart)
	second.await(0, "attach to it?")
	second.press(enter, "attached")
	second.done()
	if !strings.Contains(second.shown(), "locked by another run") {
		t.Errorf("the reason is not shown:\n%s", second.shown())
	}
	refused := r.open("install", "cart", chart)
	refused.await(0, "attach to it?")
	refused.keys("n" + enter)
	if code := refused.ends(); code != 2 {
		t.Errorf("without attaching, the exit code is %d, want 2", code)
	}
	r.env = append(r.env, "XDG_STATE_HOME="+t.TempDir())
	elsewhere := r.open("install", "cart", chart)
	elsewhere.await(0, "locked by another run")
	if code := elsewhere.ends(); code != 2 || strings.Contains(elsewhere.shown(), "attach to it?") {
		t.Errorf("exit code %d, want 2; a run of another state folder cannot be attached to:\n%s", code, elsewhere.shown())
	}
	home.done()
	other := r.open()
	other.await(0, "not controlled from here")
	other.press(enter, "its own state folder (XDG_STATE_HOME)")
	other.done()
}

// TestHomeKeepsRuns: d and esc in a run that home has started lead back to home. The run continues on top of home, which attaches
// to it, and continues without home.
func TestHomeKeepsRuns(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "home-keeps")
	home := r.open()
	home.await(0, "install")
	home.press("i", "type a name")
	home.press("cart"+enter, "A chart of the test")
	home.press(enter, "the version of the folder")
	home.press(enter, "ready to start")
	home.press("p", "paused")
	home.press("q", "leave it running and go back to home")
	home.press("d", "aborted in")
	home.press(enter, "attached")
	home.press("c", "press esc to go home")
	home.press(esc, "deployed")
	home.press("u", "used last")
	home.press(tab, "the version of the folder")
	home.press("\x10", "ready to start") // ctrl+p
	home.press("p", "paused")
	home.press(esc, "aborted in")
	home.done()
	r.lockstep("ctl", "cart", "resume")
	for end := time.Now().Add(time.Minute); !strings.Contains(r.helm("status", "cart"), "STATUS: deployed\nREVISION: 2"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the upgrade has not continued without home:\n%s", r.helm("status", "cart"))
		}
	}
}

// TestHomeAttachesToTheCluster: a run that another machine has started in the cluster stands on top of home, with who started it;
// enter attaches to it. After its end it is among the past runs, while its Job is kept.
func TestHomeAttachesToTheCluster(t *testing.T) {
	limitedParallel(t)
	const ns = "home-cluster"
	client := inNamespace(t, ns)
	other := newMachine(t)
	other.run(1, "install", "s", filepath.Join(data, "charts", "fanout"), "-n", ns, "--no-tui", "--in-cluster", "--service-account=runner", "--step", "--timeout=20s")
	home := newFormRig(t, ns).open()
	home.await(0, "in the cluster")
	home.await(0, "before the first group")
	home.press(enter, "attached")
	home.press(esc, "runs")
	other.run(0, "ctl", "s", "abort", "-n", ns)
	ended := func() bool {
		jobs, err := client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{LabelSelector: incluster.Selector})
		return err == nil && len(jobs.Items) == 1 && slices.ContainsFunc(jobs.Items[0].Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailed })
	}
	for deadline := time.Now().Add(time.Minute); !ended(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the Job has not ended")
		}
	}
	home.press("P", "failed - in the cluster")
	home.press(enter, "aborted")
	home.press(esc, "failed - in the cluster")
	home.press(esc, "i install")
	home.done()
}

// TestHomeShowsDrift: from home, the diff of a release shows what somebody has changed in the cluster, and the manifest what its
// record has.
func TestHomeShowsDrift(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "home-drift")
	r.lockstep("install", "cart", filepath.Join(r.dir, "basket"), "--create-namespace", "--set", "word=recorded")
	changed := testcluster.Parse(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: word, namespace: home-drift}\ndata: {word: changed}\n")
	r.cluster.Apply(t, changed...)
	home := r.open()
	home.await(0, "deployed")
	home.press(enter, "watch cart")
	home.press("d", "not as recorded")
	home.await(0, "data.word (test")
	home.await(0, "+ changed")
	home.press("y", "word: recorded")
	home.press(esc, "1 object")
	home.press(esc, "deployed")
	home.press("h", "Install complete")
	home.press(enter, "esc history")
	home.press(esc, "Install complete")
	home.press("u", "used last")
	home.press(esc, "history of cart")
	home.press(esc, "releases")
	home.done()
}

// TestHomeElsewhere: without a terminal, lockstep without a command prints the help, and home is an error.
func TestHomeElsewhere(t *testing.T) {
	t.Parallel()
	out, code, _ := runProgram(t, nil)
	if code != 0 || !strings.Contains(out, "install") || !strings.Contains(out, "home") {
		t.Errorf("lockstep: exit code %d\n%s", code, out)
	}
	if out, code, _ := runProgram(t, nil, "home"); code != 2 || !strings.Contains(out, "the screen needs a terminal") {
		t.Errorf("lockstep home: exit code %d\n%s", code, out)
	}
}
