package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmcli "helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lockstep/kube/throwaway/testcluster"
)

// likeHelmLines are command lines for which lockstep prints what Helm prints, with the releases of
// likeHelmReleases.
var likeHelmLines = strings.Split(strings.TrimSpace(`
list
list -o json
list -o yaml
list -q
list -q -o json
list -q -o yaml
list --no-headers
list --no-headers -o yaml
list --time-format 2006-01-02T15:04:05Z0700
list --time-format Jan -o json
list -d
list -d -r
list -r
list --deployed
list --failed
list --pending
list --superseded
list --superseded -o json
list --uninstalled
list --uninstalling
list --failed --pending -q
list -m 2
list --max 0
list --max -1
list --max 2 --offset 3 -o json
list --offset 100
list --offset 100 -o json
list --offset 100 -q -o yaml
list -f ^w
list --filter nothing
list --filter nothing -o json
list --filter nothing -q -o json
list --filter (
list -l team=shop
list -l team!=shop -q
list -l !
list -A -f ^lh-only-
list --all-namespaces -q -f ^lh-only- -o json
list --color always
list --color never
list --color blue
list -n lh-none
list -n lh-none -o json
list -n lh-none -o yaml
list -n lh-none -q
list -n lh-none -q -o json
ls -q --max 1
list -o xml
history web
history web -o json
history web -o yaml
history web --max 2
history web --max 1 -o json
history web --max 0
history web --max 0 -o json
history web --max 0 -o yaml
history web --max -3
history web --show-rollback-revision
history web --show-rollback-revision -o json
hist bare -o json
history bare
history uninstalled
history none
history Bad_Name
history web --color always
get all web
get all web --revision 1
get all web --revision 9
get all web --color always
get all web --template {{.Release.Name}}/{{.Release.Version}}/{{.Release.Info.Status}}
get all web --template {{.Release.Name}}{{.Release.Nope}}
get all web --template {{
get all bare
get all chartless
get all dry
get all none
get hooks web
get hooks web --revision 1
get hooks bare
get hooks none
get manifest web
get manifest web --revision 2
get manifest bare
get manifest none
get metadata web
get metadata web -o json
get metadata web -o yaml
get metadata web --revision 1
get metadata bare
get metadata bare -o yaml
get metadata odd
get metadata chartless
get metadata none
get notes web
get notes web --revision 1
get notes bare
get notes none
get values web
get values web -o json
get values web -o yaml
get values web --all
get values web -a -o json
get values web -a -o yaml --revision 1
get values web --revision 1
get values bare
get values bare -o json
get values bare -o yaml
get values bare -a
get values chartless
get values chartless -a
get values none
status web
status web -o json
status web -o yaml
status web --revision 1
status web --color always
status bare
status bare -o json
status dry
status failed
status none
`), "\n")

// TestLikeHelm compares the output and the success of lockstep with those of helm.
func TestLikeHelm(t *testing.T) {
	cluster := testcluster.Get(t)
	helm := testcluster.Helm(t)
	t.Setenv("KUBECONFIG", cluster.Kubeconfig)
	t.Setenv("HELM_NAMESPACE", "lh")
	likeHelmReleases(t)
	for _, line := range likeHelmLines {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			var said bytes.Buffer
			cmd := exec.CommandContext(t.Context(), helm, args...)
			cmd.Stderr = &said
			want, wantErr := cmd.Output()
			if exit := new(exec.ExitError); wantErr != nil && !errors.As(wantErr, &exit) {
				t.Fatal(wantErr)
			}
			got, _, err := runCommand(args...)
			if got, want := removeAges(got), removeAges(string(want)); got != want {
				t.Errorf("output:\n%s\nwant\n%s", got, want)
			}
			if (err == nil) != (wantErr == nil) {
				t.Errorf("error %v; that of helm: %v: %s", err, wantErr, said.String())
			}
		})
	}
}

// TestDamagedRecords: lockstep reports a record without required fields, on which Helm panics, and one that cannot be decoded,
// which Helm skips.
func TestDamagedRecords(t *testing.T) {
	cluster := testcluster.Get(t)
	t.Setenv("KUBECONFIG", cluster.Kubeconfig)
	t.Setenv("HELM_NAMESPACE", "lh-damaged")
	secrets := store(t, "lh-damaged", plainRelease("d", 1)).CoreV1().Secrets("lh-damaged")
	t.Cleanup(func() { // other tests list all namespaces
		if err := secrets.Delete(context.Background(), "sh.helm.release.v1.d.v1", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	record, err := secrets.Get(t.Context(), "sh.helm.release.v1.d.v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ofRelease := []string{"history d", "history d -o json", "get all d", "get hooks d", "get metadata d", "get notes d", "get values d -a", "status d"}
	for content, lines := range map[string][]string{
		base64.StdEncoding.EncodeToString([]byte(`{"name": "d", "version": 1, "hooks": [null]}`)): append([]string{"list", "list -o json"}, ofRelease...),
		"AAAA": ofRelease,
	} {
		record.ResourceVersion, record.Data["release"] = "", []byte(content)
		if _, err := secrets.Update(t.Context(), record, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			out, _, err := runCommand(strings.Fields(line)...)
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		}
	}
}

// removeAges removes the ages of objects from an output, because they change.
func removeAges(printed string) string { return age.ReplaceAllString(printed, " AGE\n") }

var age = regexp.MustCompile(` (\d+[smh])+\n`)

// likeHelmReleases stores releases of all kinds in namespace lh, and one in lh-other.
func likeHelmReleases(t *testing.T) {
	t.Helper()
	store(t, "lh", webReleases()...)
	for i, status := range []common.Status{
		common.StatusFailed, common.StatusPendingInstall, common.StatusPendingUpgrade, common.StatusPendingRollback,
		common.StatusSuperseded, common.StatusUninstalled, common.StatusUninstalling, common.StatusUnknown,
	} {
		r := plainRelease(status.String(), 1)
		r.Info.Status, r.Info.LastDeployed = status, r.Info.LastDeployed.Add(time.Duration(i*i%7)*time.Hour)
		store(t, "lh", r)
	}
	bare := &rel1.Release{Name: "bare", Namespace: "lh", Version: 1, Info: &rel1.Info{Status: common.StatusDeployed}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "b", Version: "0.1.0"}}}
	odd, chartless, dry := plainRelease("odd", 12), plainRelease("chartless", 3), plainRelease("dry", 1)
	odd.ApplyMethod = "by hand"
	chartless.Chart = nil
	dry.Info.Description = "Dry run complete"
	store(t, "lh", bare, odd, chartless, dry)
	store(t, "lh-other", plainRelease("lh-only-other", 1))
	store(t, "lh", plainRelease("lh-only-here", 1))
}

// plainRelease returns a release of a minimal chart.
func plainRelease(name string, revision int) *rel1.Release {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC).Add(time.Duration(revision) * time.Minute)
	return &rel1.Release{
		Name: name, Version: revision, Manifest: "---\n# nothing\n", ApplyMethod: string(rel1.ApplyMethodClientSideApply),
		Info:  &rel1.Info{FirstDeployed: at, LastDeployed: at, Status: common.StatusDeployed, Description: "Install complete"},
		Chart: &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "plain", Version: "1.2.3", AppVersion: "v9"}},
	}
}

// webReleases returns the revisions of a release with all features.
func webReleases() []*rel1.Release {
	var all []*rel1.Release
	for n := 1; n <= 4; n++ {
		r := plainRelease("web", n)
		r.Info.Status = common.StatusSuperseded
		r.Info.Description = fmt.Sprintf("Upgrade <%d> & 更新\nin two lines", n)
		r.ApplyMethod = string(rel1.ApplyMethodServerSideApply)
		r.Labels = map[string]string{"team": "shop", "a": fmt.Sprint(n)}
		r.Config = map[string]any{"a": n, "none": nil, "sub": map[string]any{"b": "<&>", "list": []any{1, "x", nil}}}
		r.Chart.Metadata.Annotations = map[string]string{"z": "1", "a": "two words"}
		r.Chart.Metadata.Dependencies = []*chart.Dependency{{Name: "sub", Version: "0.1.0", Repository: "https://example.com"}, {Name: "cache", Version: "1.x", Alias: "c"}}
		r.Chart.Values = map[string]any{"a": 0, "none": "default", "own": true, "sub": map[string]any{"b": "c", "d": 1.5}}
		sub := &chart.Chart{Metadata: &chart.Metadata{Name: "sub", Version: "0.1.0"}, Values: map[string]any{"e": "f"}}
		r.Chart.SetDependencies(sub)
		r.Manifest = "---\n# Source: web/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: lh-a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: lh-longer}\n"
		began := r.Info.LastDeployed.Add(time.Second)
		hook := func(name string, run rel1.HookExecution, events ...rel1.HookEvent) {
			r.Hooks = append(r.Hooks, &rel1.Hook{Name: name, Kind: "Pod", Path: "web/" + name + ".yaml", Manifest: "kind: Pod\nmetadata: {name: " + name + "}", Events: events, LastRun: run})
		}
		hook("before", rel1.HookExecution{}, rel1.HookPreInstall)
		if n > 1 {
			r.Info.Notes = "\n  visit <http://web>\n\n"
			hook("tested", rel1.HookExecution{StartedAt: began, CompletedAt: began.Add(time.Minute), Phase: rel1.HookPhaseSucceeded}, rel1.HookTest, rel1.HookPostInstall)
			hook("untested", rel1.HookExecution{}, rel1.HookTest)
		}
		all = append(all, r)
	}
	all[2].Info.RollbackRevision, all[2].Info.Description = 1, "Rollback to 1"
	all[3].Info.Status = common.StatusDeployed
	return all
}

// store writes release records to a namespace, as Helm does, and creates the objects of their
// manifests. It returns its client.
func store(t *testing.T, namespace string, all ...*rel1.Release) kubernetes.Interface {
	t.Helper()
	cfg := action.NewConfiguration()
	if err := cfg.Init(helmcli.New().RESTClientGetter(), namespace, ""); err != nil {
		t.Fatal(err)
	}
	client, err := cfg.KubernetesClientSet()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"lh-a", "lh-longer"} {
			if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, r := range all {
		r.Namespace = namespace
		if err := cfg.Releases.Create(r); err != nil {
			t.Fatal(err)
		}
	}
	return client
}
