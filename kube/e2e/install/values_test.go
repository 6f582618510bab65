package install

import (
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestTemplateValuesMatchHelm: templates get the same values and types as from Helm, for all flags of values, in installs
// and in upgrades that reuse values (R2a).
func TestTemplateValuesMatchHelm(t *testing.T) {
	t.Parallel()
	const chart = "typed-values"
	path := filepath.Join(rig.ChartsDir, chart)
	dir := t.TempDir()
	write := func(name, data string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	given := values.Options{
		ValueFiles:    []string{write("values.yaml", "gone: null\nseven: 1234567\nfloat: 1e21\noctal: 0o17\nyes: yes\ndate: 2020-01-01\n")},
		Values:        []string{"v=12345678901234567", "table.inner=7654321", "list={1234567,a,null}", "neg=-1234567"},
		StringValues:  []string{"s=12345678901234567"},
		FileValues:    []string{"file=" + write("file", "\x00\x80\xff\x1b binary\r\n")},
		JSONValues:    []string{`j={"n":12345678901234567,"l":[1000000,1.0,null]}`},
		LiteralValues: []string{"literal=a,b=1\\"},
	}
	merged, err := charts.Values(given, cli.New())
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for flag, list := range map[string][]string{"-f": given.ValueFiles, "--set": given.Values, "--set-string": given.StringValues,
		"--set-file": given.FileValues, "--set-json": given.JSONValues, "--set-literal": given.LiteralValues} {
		for _, v := range list {
			args = append(args, flag, v)
		}
	}
	more := map[string]any{"added": int64(1234567)}

	helms, ours := rig.NewNamed(t, "values-helm"), rig.NewNamed(t, "values-lockstep")
	same := func(revision string) {
		t.Helper()
		want := helms.MustHelm("get", "manifest", "t", "--revision", revision)
		if got := ours.MustHelm("get", "manifest", "t", "--revision", revision); got != want {
			t.Errorf("revision %s is\n%s\nwith Helm\n%s", revision, got, want)
		}
	}
	helms.MustHelm(append([]string{"install", "t", path}, args...)...)
	ours.Deploy(chart, func(i *kube.Deploy) { i.Values = merged })
	same("1")
	for n, keep := range []func(*kube.Deploy){func(u *kube.Deploy) { u.ReuseValues = true }, func(u *kube.Deploy) { u.ResetThenReuseValues = true }} {
		helms.MustHelm("upgrade", "t", path, []string{"--reuse-values", "--reset-then-reuse-values"}[n], "--set", "added=1234567")
		ours.MustRun(ours.Upgrade(chart, func(u *kube.Deploy) { u.Values = more; keep(u) }))
		same([]string{"2", "3"}[n])
	}
}
