package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/kube/throwaway/ociregistry"
	"lockstep/kube/throwaway/testcluster"
)

// formRig is a folder with a chart, and a namespace in which forms install it.
type formRig struct {
	t       *testing.T
	cluster *testcluster.Cluster
	ns, dir string
	env     []string
}

func newFormRig(t *testing.T, ns string) *formRig {
	t.Helper()
	r := &formRig{t: t, cluster: testcluster.Get(t), ns: ns, dir: t.TempDir()}
	r.env = []string{"KUBECONFIG=" + r.cluster.Kubeconfig, "HELM_NAMESPACE=" + ns, "EDITOR=sed -i s/second/third/", "LOCKSTEP_ASCII=1", "XDG_STATE_HOME=" + t.TempDir()}
	writeFiles(t, r.dir, map[string]string{
		"basket/Chart.yaml":           "apiVersion: v2\nname: basket\nversion: 1.0.0\ndescription: A chart of the test\n",
		"basket/values.yaml":          "word: default\nextra: false\n",
		"basket/templates/word.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: word}\ndata: {word: {{ .Values.word }}}\n",
		"basket/templates/extra.yaml": "{{ if .Values.extra }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n{{ end }}",
	})
	return r
}

// lockstep runs a command without a terminal.
func (r *formRig) lockstep(args ...string) {
	r.t.Helper()
	if out, code, _ := runProgram(r.t, r.env, args...); code != 0 {
		r.t.Fatalf("lockstep %v: exit code %d\n%s", args, code, out)
	}
}

// helm returns the output of Helm in the namespace.
func (r *formRig) helm(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), testcluster.Helm(r.t), append(args, "-n", r.ns)...)
	cmd.Env = append(os.Environ(), r.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// open starts lockstep in a terminal, in the folder.
func (r *formRig) open(args ...string) *terminal {
	r.t.Helper()
	return inTerminalAt(r.t, r.dir, 30, 100, r.env, args...)
}

// writes returns how many objects of the namespace have been written so far.
func (r *formRig) writes() int {
	r.t.Helper()
	log, err := r.cluster.Log()
	if err != nil {
		r.t.Fatal(err)
	}
	return len(log.Writes().Namespace(r.ns))
}

const (
	enter = "\r"
	tab   = "\t"
	down  = "\x1b[B"
	esc   = "\x1b"
)

// TestFormInstallsFromHome installs a chart in a new namespace from an empty home, without a flag, and returns to home.
func TestFormInstallsFromHome(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "form-install")
	c := r.open()
	c.await(0, "install")
	c.press("i", "type a name")
	c.press("cart"+enter, "A chart of the test")
	c.press(enter, "the version of the folder")
	c.await(0, "new: lockstep creates it")
	c.press(enter, "ready to start")
	if n := r.writes(); n > 0 {
		t.Errorf("%d objects were written before the start", n)
	}
	c.press(enter, "press esc to go home")
	c.press(esc, "releases")
	c.await(0, "cart")
	c.done()
	if out := r.helm("list"); !strings.Contains(out, "cart") || !strings.Contains(out, "deployed") {
		t.Errorf("helm list:\n%s", out)
	}
}

// TestFormWithAChartFromARegistry: the form lists its versions, and what is downloaded prints nothing over the screen.
func TestFormWithAChartFromARegistry(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "form-registry")
	_, ref := ociregistry.Serve(t, "basket", "1.0.0", helmPackage(t, filepath.Join(r.dir, "basket")))
	c := r.open("install", "cart", "--plain-http")
	c.await(0, "A chart of the test")
	c.press(ref+tab, "1.0.0") // in the list
	c.press(down+enter, "version 1.0.0")
	c.press("\x10", "ready to start") // ctrl+p
	if strings.Contains(c.shown(), "Pulled: ") {
		t.Errorf("the screen has messages of the registry client:\n%s", c.shown())
	}
	c.press(enter, "press q to quit")
	c.done()
	if out := r.helm("list"); !strings.Contains(out, "basket-1.0.0") {
		t.Errorf("helm list:\n%s", out)
	}
}

// TestFormUpgradesByTheLastValues edits the values of the last revision in an editor, and upgrades with them.
func TestFormUpgradesByTheLastValues(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "form-upgrade")
	r.lockstep("install", "cart", filepath.Join(r.dir, "basket"), "--create-namespace", "--set", "word=first")
	r.lockstep("upgrade", "cart", filepath.Join(r.dir, "basket"), "--set", "word=second,extra=true")
	c := r.open("upgrade", "cart")
	c.await(0, "used last")            // it is filled in
	c.press("\x05", "values saved to") // ctrl+e
	c.press("\x10", "ready to start")  // ctrl+p
	c.await(0, "third")
	c.press(enter, "press q to quit")
	c.done()
	if out := r.helm("get", "values", "cart"); !strings.Contains(out, "word: third") || !strings.Contains(out, "extra: true") {
		t.Errorf("the values are\n%s", out)
	}
	file := filepath.Join(r.dir, "values-cart.yaml")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v %v", file, info, err)
	}
}

// TestFormUpgradesByOldValues chooses the values of an older revision: the command names it, and no file has its values.
func TestFormUpgradesByOldValues(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "form-old-values")
	r.lockstep("install", "cart", filepath.Join(r.dir, "basket"), "--create-namespace", "--set", "word=first")
	for _, word := range []string{"second", "third"} {
		r.lockstep("upgrade", "cart", filepath.Join(r.dir, "basket"), "--set", "word="+word)
	}
	c := r.open("upgrade", "cart")
	c.await(0, "used last")
	c.press(tab, "the version of the folder")
	c.press(tab, "revision 2")
	c.press("\x1b[B", "unlike revision 3") // down
	c.press(enter, "--values-from-revision 2")
	c.press("\x10", "ready to start") // ctrl+p
	c.await(0, "second")
	c.press(enter, "press q to quit")
	c.done()
	if out := r.helm("get", "values", "cart"); !strings.Contains(out, "word: second") {
		t.Errorf("the values are\n%s", out)
	}
	if files, err := filepath.Glob(filepath.Join(r.dir, "*.yaml")); err != nil || len(files) > 0 {
		t.Errorf("the form has written %v %v", files, err)
	}
}

// TestFormRollsBackByDiff chooses a revision by what a rollback to it changes.
func TestFormRollsBackByDiff(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "form-rollback")
	chart := filepath.Join(r.dir, "basket")
	r.lockstep("install", "cart", chart, "--create-namespace", "--set", "word=first")
	for _, values := range []string{"word=second", "word=second,extra=true", "word=last"} {
		r.lockstep("upgrade", "cart", chart, "--set", values)
	}
	c := r.open("rollback")
	c.await(0, "revision 4")
	c.press(enter, "+ extra: true") // to revision 3
	c.press(down, "2")
	c.press(down, "first")      // to revision 1
	c.press("\x1b[A", "second") // up, to revision 2
	if !strings.Contains(c.shown(), "+ word: second") {
		t.Error("the form does not show the values of revision 2")
	}
	c.press(enter, "ready to start")
	if n := r.writes(); n == 0 {
		t.Error("the audit log has no writes: the test counts nothing")
	}
	before := r.writes()
	c.press("p", "paused") // before the first write
	if n := r.writes() - before; n > 0 {
		t.Errorf("%d objects were written, although the run started paused", n)
	}
	c.press("c", "press q to quit")
	c.done()
	if out := r.helm("get", "values", "cart"); !strings.Contains(out, "word: second") || strings.Contains(out, "extra") {
		t.Errorf("the values are\n%s", out)
	}
}

// TestCancelledFormWritesNothing: an uninstall needs the name of the release, and a cancelled form writes nothing.
func TestCancelledFormWritesNothing(t *testing.T) {
	t.Parallel()
	r := newFormRig(t, "form-cancel")
	r.lockstep("install", "cart", filepath.Join(r.dir, "basket"), "--create-namespace")
	before := r.writes()
	for _, args := range [][]string{{"uninstall"}, {"test"}, {"upgrade"}, {"install"}, {"rollback"}} {
		c := r.open(args...)
		c.await(0, "needed")
		switch args[0] {
		case "uninstall":
			c.await(0, "revision 1")
			c.press(enter, "Deletes 1 object")
			c.press(enter, "Type cart to start")
			c.press("basket"+enter, "type cart to confirm")
			c.press(esc, "start")
			c.press(esc, "You see")
		case "upgrade":
			c.await(0, "revision 1")
			c.press(enter, "used last")
			c.press(tab, "the version of the folder")
			c.press(enter, "ready to start")
			c.keys("\x03")
		}
		if args[0] != "upgrade" {
			c.keys(esc)
		}
		if code := c.ends(); code != 3 {
			t.Errorf("%s: exit code %d, want 3", args[0], code)
		}
		c.restored()
		c.await(0, "cancelled; nothing was written")
	}
	if n := r.writes() - before; n > 0 {
		t.Errorf("%d objects were written", n)
	}
}

// TestNoFormInScripts: without a terminal, and with --no-tui or -o, a missing argument is an error as before.
func TestNoFormInScripts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"upgrade", "--no-tui"}, {"install", "cart", "-o", "json"}, {"uninstall", "--dry-run"}, {"install", "--generate-name"}} {
		c := inTerminal(t, 30, 100, []string{"KUBECONFIG=" + filepath.Join(t.TempDir(), "none")}, args...)
		if code := c.ends(); code != 2 {
			t.Errorf("%v: exit code %d, want 2", args, code)
		}
		if shown := c.shown(); !strings.Contains(shown, " needs ") || strings.Contains(c.raw(), "\x1b[?1049h") {
			t.Errorf("%v shows\n%s", args, shown)
		}
	}
}
